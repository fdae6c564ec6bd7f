import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, final

from bbq.values import Counters, Notice, Reconnect, ServerProgress

@final
class Sender:
    """Sends messages as one numbered stream, from any number of threads.

    A sender belongs to the process that made it: in a forked child its methods raise `Forked`.
    """

    def __new__(
        cls,
        servers: str | Sequence[str],
        *,
        ack: Literal["durable", "received", "none", "replicated"] = "durable",
        delivery: Literal["any", "all"] = "any",
        queue_bytes_max: int = 67108864,
        on_full: Literal["block", "drop-newest", "drop-oldest"] = "block",
        block_timeout: float | None = 1.0,
        batch_bytes: int = 131072,
        linger: float = 0.002,
        compress: bool | Literal["auto"] = False,
        reconnect: Reconnect | Mapping[str, Any] | None = None,
        delivery_timeout: float | None = None,
        close_timeout: float = 5.0,
        spool: str | os.PathLike[str] | None = None,
        spool_bytes_max: int | None = None,
        report_drops: bool = True,
        name: str | None = None,
        on_notice: Callable[[Notice], object] | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        tls_server_name: str | None = None,
        token: str | None = None,
    ) -> Self:
        """Starts a sender, and returns before it has connected.

        servers: `bbq://HOST:PORT`, `bbq+tls://HOST:PORT`, `bbq+unix:///PATH`, or several of them.
        ack: what an acknowledgement means: the message is on the server's disk, or in its memory, or there is none.
        delivery: with several servers, the first that answers (`any`), or every one (`all`).
        queue_bytes_max: maximum memory of the queue, including messages that are sent and not acknowledged; 64 MiB, at least 64 KiB.
        on_full, block_timeout: what happens to a message for which there is no room. `block` waits for this many seconds, or
            without end (None), and then drops it.
        batch_bytes, linger: a batch is sent when it reaches this size (128 KiB), or after this many seconds (0.002).
        compress: LZ4 never (False), always (True), or only to other machines and while batches shrink (`auto`).
        reconnect: how often and how fast the sender connects again to servers that do not answer.
        delivery_timeout: the sender leaves a server that acknowledges nothing for this many seconds; 30, at least 1.
        close_timeout: how many seconds closing the sender, and the exit of the process, wait for acknowledgements.
        spool: a directory of this sender's own. Messages that `send` has taken then survive the process, and the next sender
            that is started with the directory delivers them.
        spool_bytes_max: maximum size of the spool in bytes; 1 GiB.
        report_drops: whether the sender, once there is room again, sends a message that says how many were dropped.
        name: a name that the server shows.
        on_notice: called, on a thread of the sender, when a connection changes. The connection waits for it.
        tls_ca: PEM file with the certificates of the CAs that issue those of servers reached by TLS (`bbq+tls://`); the CAs that the
            system trusts. The files for TLS are read at the start, and again before a connection if they have changed.
        tls_cert, tls_key: PEM files with a certificate for servers that ask for one, and its key, which must not be encrypted.
        tls_server_name: the name that must be in the certificate of a server reached by TLS; the host of its address.
        token: what is shown to servers that ask for a token: 16 to 512 visible ASCII characters. Without TLS, everybody on the way can
            read it.

        Raises OptionError, SpoolError, StartError, or TypeError for a value of the wrong type.
        """

    def send(self, message: bytes | bytearray | memoryview | str, /) -> None:
        """Copies a message into the queue and returns. Text is sent as UTF-8. Messages of one thread keep their order.

        Raises Full, MessageTooLarge or SpoolError for this message only, which is counted as dropped; Refused, ProtocolError
        or Closed when the sender has ended; Forked in a child.
        """

    def try_send(self, message: bytes | bytearray | memoryview | str, /) -> bool:
        """Takes a message if that needs no waiting, whatever `on_full` says. Returns False if there was no room.

        A message that is refused is not counted as dropped: the caller still has it. With `on_full="drop-oldest"` older messages
        are dropped for it. Raises what `send` raises, except Full.
        """

    def send_many(self, messages: Iterable[bytes | bytearray | memoryview | str], /) -> int:
        """Takes messages until one is refused. Returns how many; an exception has the number in its attribute `taken`."""

    def flush(self, timeout: float | None = None) -> None:
        """Waits until every message taken before is acknowledged, at most for `timeout` seconds, or `close_timeout`.

        Raises Timeout, or the error that ended the sender, even if everything is acknowledged. Ctrl-C ends the wait.
        """

    def close(self, timeout: float | None = None) -> Counters:
        """Flushes and ends the sender. Closing again changes nothing.

        Raises Timeout if messages are not acknowledged in time; they are counted as abandoned, or stay in the spool.
        """

    @property
    def counters(self) -> Counters:
        """What the sender has done so far."""

    @property
    def servers(self) -> list[ServerProgress]:
        """The progress of each server."""

    @property
    def last_sequence(self) -> int:
        """Number of the last message taken. With a spool the numbers continue over restarts."""

    @property
    def reconnect(self) -> Reconnect:
        """The reconnect parameters as they were set. They can be changed at any time; `servers` has the current values."""

    @reconnect.setter
    def reconnect(self, reconnect: Reconnect | Mapping[str, Any]) -> None: ...
    @property
    def forked(self) -> bool:
        """Whether the sender belongs to a parent of this process."""

    @property
    def closed(self) -> bool:
        """Whether the sender was closed in this process."""

    def start_again(self) -> Sender:
        """Starts another sender with the same options, for a forked child. Raises Forked for a sender with a spool."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

def finish_all() -> None:
    """Flushes all senders of this process, each at most for its `close_timeout`, before the process exits."""
