"""Sends messages to bbq servers without ever stalling the program that makes them.

    import bbq

    with bbq.Sender("bbq://127.0.0.1:7700") as sender:
        sender.send(b"something happened")

For programs that use `logging`:

    import logging
    logging.getLogger().addHandler(bbq.Handler("bbq://127.0.0.1:7700"))

In a program that bbq starts by its sink `exec:`, and gives its messages:

    for message in bbq.receive():
        print(message.time, message.text)
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
    SinkError,
    SpoolError,
    StartError,
    Timeout,
)
from bbq.options import SenderOptions
from bbq.receiver import Message, receive, receive_batches
from bbq.values import Counters, Dropped, Notice, Reconnect, ServerProgress

# Imported last: the native module imports the classes above, and the handler imports the native module.
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
    "Message",
    "MessageTooLarge",
    "Notice",
    "OptionError",
    "ProtocolError",
    "Reconnect",
    "Refused",
    "Sender",
    "SenderOptions",
    "ServerProgress",
    "SinkError",
    "SpoolError",
    "StartError",
    "Timeout",
    "receive",
    "receive_batches",
]

# Tracebacks and documentation show the module that users import a name from.
for _name in __all__:
    globals()[_name].__module__ = "bbq"
del _name
