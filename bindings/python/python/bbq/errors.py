"""Exceptions. A server that does not answer is not an error: the sender tries again."""


class Error(Exception):
    """The base class.

    From `Sender.send_many` an exception has the attribute `taken`: how many messages were taken before.
    """


class Full(Error):
    """The queue, the spool or its disk is full, and `on_full` does not allow to wait longer.

    The message was dropped and counted; the sender goes on.
    """


class MessageTooLarge(Error):
    """A message over the server's limit. It was dropped and counted; the sender goes on."""


class Timeout(Error, TimeoutError):
    """Not everything was acknowledged in time. The rest stays queued until the sender is closed."""


class Refused(Error):
    """The server refuses the messages of this sender for good: the end of the sender."""


class ProtocolError(Error):
    """The server does not speak the protocol: the end of the sender."""


class SpoolError(Error):
    """The spool cannot be opened or written, or another sender has it."""


class Forked(Error):
    """The sender belongs to the parent process. Make a sender in each process, after the fork."""


class Closed(Error):
    """The sender is closed."""


class OptionError(Error, ValueError):
    """An option outside its range."""


class StartError(Error):
    """The system refuses a thread or random numbers."""


class SinkError(Error):
    """No sink `exec:` of bbq gives this program its messages, or not in the way that it needs."""
