import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, final

from bbq.values import Counters, Notice, Reconnect, ServerProgress

@final
class Sender:
    """Sends messages as one numbered stream, from any number of threads.

    It belongs to the process that made it: in a forked child its methods raise `Forked`.
    """

    def __new__(
        cls,
        servers: str | Sequence[str],
        *,
        ack: Literal["durable", "received", "none"] = "durable",
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
    ) -> Self:
        """Starts a sender, and returns before it has connected.

        servers: `bbq://HOST:PORT`, `bbq+unix:///PATH`, or some of them.
        ack: what an acknowledgement means: it is on the server's disk, or received, or there is none.
        delivery: with several servers, the first that answers (`any`), or every one (`all`).
        queue_bytes_max: memory that messages take at most, acknowledged or not; 64 MiB, at least 64 KiB.
        on_full, block_timeout: what becomes of a message for which there is no room. `block` waits so many seconds, or
            without end (None), and drops it then.
        batch_bytes, linger: a batch is sent when it has so many bytes (128 KiB), or after so many seconds (0.002).
        compress: LZ4 never (False), always (True), or where it pays (`auto`).
        reconnect: how often and how fast servers that do not answer are tried again.
        delivery_timeout: a server that acknowledges nothing for so many seconds is left; 30, at least 1.
        close_timeout: closing waits so many seconds unless told otherwise, and so does the end of the process.
        spool: a directory of this sender's own. What `send` has taken then survives the process, and is delivered by the
            next sender that is started with it.
        spool_bytes_max: bytes that the spool takes at most; 1 GiB.
        report_drops: whether a message says how many were dropped, once there is room again.
        name: shown by the server.
        on_notice: called, on a thread of the sender, when a connection changes. It delays that connection.

        Raises OptionError, SpoolError, StartError, or TypeError for what is no option's value.
        """

    def send(self, message: bytes | bytearray | memoryview | str, /) -> None:
        """Takes a message: copies it and returns. Text is sent as UTF-8. Messages of one thread keep their order.

        Raises Full, MessageTooLarge or SpoolError for this message only, which is counted as dropped; Refused, ProtocolError
        or Closed when the sender has ended; Forked in a child.
        """

    def try_send(self, message: bytes | bytearray | memoryview | str, /) -> bool:
        """Takes a message if that needs no waiting, whatever `on_full` says; False says that there was no room.

        A message that is refused is not counted as dropped: the caller still has it. With `on_full="drop-oldest"` older ones
        go for it. Raises what `send` raises, but Full.
        """

    def send_many(self, messages: Iterable[bytes | bytearray | memoryview | str], /) -> int:
        """Takes messages until one is refused, and says how many; an exception has it as its attribute `taken`."""

    def flush(self, timeout: float | None = None) -> None:
        """Waits until everything taken before is acknowledged, so many seconds or as long as `close_timeout`.

        Raises Timeout, or the error that ended the sender, even if everything is acknowledged. Ctrl-C ends the wait.
        """

    def close(self, timeout: float | None = None) -> Counters:
        """Flushes and ends the sender. Closing again changes nothing.

        Raises Timeout when not everything was acknowledged; that is then counted as abandoned, or stays in the spool.
        """

    @property
    def counters(self) -> Counters:
        """What it has done so far."""

    @property
    def servers(self) -> list[ServerProgress]:
        """How far each server is."""

    @property
    def last_sequence(self) -> int:
        """Number of the last message taken, over all lives of the spool."""

    @property
    def reconnect(self) -> Reconnect:
        """The set reconnect parameters, which can be changed at any time; the present ones are in `servers`."""

    @reconnect.setter
    def reconnect(self, reconnect: Reconnect | Mapping[str, Any]) -> None: ...
    @property
    def forked(self) -> bool:
        """Whether it belongs to a parent of this process."""

    @property
    def closed(self) -> bool:
        """Whether it was closed in this process."""

    def start_again(self) -> Sender:
        """Another sender with the same options, for a process that was forked. Raises Forked for one with a spool."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

def finish_all() -> None:
    """Flushes every sender of this process, each as long as its close would wait, before the process ends."""
