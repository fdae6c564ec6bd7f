"""What goes wrong. Servers that do not answer are no error: they are tried again."""


class Error(Exception):
    """All of them.

    From `Sender.send_many` they have the attribute `taken`: how many messages were taken before.
    """


class Full(Error):
    """The queue, the spool or its disk is full, and `on_full` says not to wait, or not longer.

    The message was dropped and counted; others go on.
    """


class MessageTooLarge(Error):
    """A message over the server's limit. It was dropped and counted; others go on."""


class Timeout(Error, TimeoutError):
    """Not everything was acknowledged in time. Until the sender is closed it stays queued."""


class Refused(Error):
    """The server refuses what was sent, and would again: the end of the sender."""


class ProtocolError(Error):
    """What answers is no bbq server: the end of the sender."""


class SpoolError(Error):
    """The spool cannot be opened or written, or another sender has it."""


class Forked(Error):
    """The sender belongs to the parent process. Make one in each process, after the fork."""


class Closed(Error):
    """The sender is closed."""


class OptionError(Error, ValueError):
    """An option outside its range."""


class StartError(Error):
    """The system refuses a thread or a random number."""
