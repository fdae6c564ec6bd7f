"""Sends messages to bbq servers without ever stalling the program that has them.

    import bbq

    with bbq.Sender("bbq://127.0.0.1:7700") as sender:
        sender.send(b"something happened")

For programs that use `logging`:

    import logging
    logging.getLogger().addHandler(bbq.Handler("bbq://127.0.0.1:7700"))
"""

from bbq.errors import (
    Closed,
    Error,
    Forked,
    Full,
    MessageTooLarge,
    OptionError,
    ProtocolError,
    Refused,
    SpoolError,
    StartError,
    Timeout,
)
from bbq.values import Counters, Dropped, Notice, Reconnect, ServerProgress

# In this order: the native half takes its classes from here, and the handler is made of it.
from bbq._native import Sender  # isort: skip
from bbq.handler import Handler  # isort: skip

__all__ = [
    "Closed",
    "Counters",
    "Dropped",
    "Error",
    "Forked",
    "Full",
    "Handler",
    "MessageTooLarge",
    "Notice",
    "OptionError",
    "ProtocolError",
    "Reconnect",
    "Refused",
    "Sender",
    "ServerProgress",
    "SpoolError",
    "StartError",
    "Timeout",
]

# In a traceback and in documentation, a name is where users import it from.
for _name in __all__:
    globals()[_name].__module__ = "bbq"
del _name
