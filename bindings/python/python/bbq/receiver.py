"""Receives messages: `for message in bbq.receive():`, in a program that bbq starts by its sink `exec:`."""

import base64
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal, overload

from bbq._pipes import Pipes

_decode = json.JSONDecoder().raw_decode


class Message:
    """A message with what bbq knows about it, from a line of `format=json`.

    >>> message = Message(b'{"time":"2026-11-20T11:33:49.175476123Z","listener":"lines","peer":"192.0.2.1:5000","worker":0,'
    ...                   b'"stream":"00112233445566778899aabbccddeeff","sequence":7,"message":"disk is full"}')
    >>> message.message, message.text
    (b'disk is full', 'disk is full')
    >>> message.id
    '00112233445566778899aabbccddeeff-7'
    >>> message.listener, message.peer, message.time.year
    ('lines', '192.0.2.1:5000', 2026)
    >>> Message(b'{"message_base64":"/w=="}').message
    b'\\xff'
    """

    __slots__ = ("fields",)

    def __init__(self, line: bytes) -> None:
        try:
            self.fields: dict[str, Any] = _decode(line.decode())[0]
        except ValueError as error:
            raise ValueError(f"a line is no message in JSON ({error}): does the sink have format=json? {line[:80]!r}") from None
        if not isinstance(self.fields, dict):
            raise ValueError(f"a line is no message in JSON, but a {type(self.fields).__name__}: {line[:80]!r}")

    fields: dict[str, Any]
    """All of the JSON: also the fields of syslog (`severity`, `hostname`, ...) and OpenTelemetry, and `peer_pid` with its like."""

    @property
    def message(self) -> bytes:
        """The message as it came. Of OpenTelemetry, the body: a text, or JSON."""
        text = self.fields.get("message")
        if text is not None:
            return str(text).encode()
        encoded = self.fields.get("message_base64")
        if encoded is not None:
            return base64.b64decode(encoded)
        body = self.fields.get("body", "")
        return (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)).encode()

    @property
    def text(self) -> str:
        """The same as text. Bytes that are not UTF-8 are replaced."""
        text = self.fields.get("message")
        return text if isinstance(text, str) else self.message.decode(errors="replace")

    @property
    def id(self) -> str:
        """Identifies the message: no other message has it, and the message has it each time that it comes."""
        return f"{self.stream}-{self.sequence}"

    @property
    def stream(self) -> str:
        """Who numbered the message: 32 hexadecimal digits. The messages of one stream come in order."""
        return str(self.fields["stream"])

    @property
    def sequence(self) -> int:
        """Its number in the stream, from 1 to 2**64 - 1. Numbers may be missing."""
        return int(self.fields["sequence"])

    @property
    def time(self) -> datetime:
        """When the first server received it, in microseconds; `fields["time"]` has nanoseconds."""
        return datetime.fromisoformat(self.fields["time"])

    @property
    def listener(self) -> str:
        """The name of the listener that received it."""
        return str(self.fields["listener"])

    @property
    def peer(self) -> str | None:
        """Address and port of the sender. Without one, as by a unix socket, `None`."""
        return self.fields.get("peer")

    def __repr__(self) -> str:
        return f"<bbq.Message {self.fields.get('stream')}-{self.fields.get('sequence')}: {self.message[:80]!r}>"


@overload
def receive(format: Literal["json"] = "json") -> Iterator[Message]: ...
@overload
def receive(format: Literal["raw"]) -> Iterator[bytes]: ...
def receive(format: Literal["json", "raw"] = "json") -> Iterator[Message] | Iterator[bytes]:
    """The messages of the sink `exec:` that has started this program, one at a time, without an end.

    A message is done with, and acknowledged, when the loop asks for the next one. If the program ends before that, by an exception or
    in any other way, the message comes again: bbq starts the program again, after an exception with a pause of 50 ms to 5 s.
    So each message comes at least once.

    format: as in the sink. "json" for a `Message`; "raw" for the bytes of a line. A message with line feeds has several lines there.

    When bbq stops, the loop ends, and so should the program. It also ends at SIGTERM, once the message in hand is done with,
    unless the program handles SIGTERM itself or calls this function on another thread. Leaving the loop by `break` acknowledges nothing.

    From this call on, what the program and its children print goes to the log of bbq, and their standard input is empty. Call it once,
    in the process that bbq has started, before anything is printed and before children are started.

    Raises `SinkError` at a terminal, and if the sink does not have `ack=line` and this `format`; the error says what to write.
    """
    return _each(Pipes(_checked(format)), format)


@overload
def receive_batches(format: Literal["json"] = "json", *, messages_max: int = 1000) -> Iterator[list[Message]]: ...
@overload
def receive_batches(format: Literal["raw"], *, messages_max: int = 1000) -> Iterator[list[bytes]]: ...
def receive_batches(format: Literal["json", "raw"] = "json", *, messages_max: int = 1000) -> Iterator[list[Message]] | Iterator[list[bytes]]:
    """As `receive`, but those together that have come meanwhile: for work that costs less together, such as a transaction of a database.

    A batch has at least one message, and at most `messages_max`. It is never waited for more. All of a batch are acknowledged when the
    loop asks for the next one; until then all of them may come again.
    """
    if messages_max < 1:
        raise ValueError(f"messages_max is {messages_max}, and must be at least 1")
    return _batches(Pipes(_checked(format)), format, messages_max)


def _checked(format: str) -> Literal["json", "raw"]:
    if format == "json" or format == "raw":
        return format
    raise ValueError(f"format is {format!r}, and must be 'json' or 'raw'")


def _each(pipes: Pipes, format: str) -> Iterator[Any]:
    for [message] in _batches(pipes, format, 1):
        yield message


def _batches(pipes: Pipes, format: str, most: int) -> Iterator[list[Any]]:
    try:
        while lines := pipes.lines(most):
            yield lines if format == "raw" else [Message(line) for line in lines]
            if not pipes.acknowledge():
                return
    finally:
        pipes.close()
