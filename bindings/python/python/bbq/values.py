"""Counters, progress, notices and reconnect parameters of a sender."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Dropped:
    """Messages that were not delivered, by reason. Every dropped message is counted here."""

    full: int = 0
    """Not taken: there was no room."""
    too_large: int = 0
    """Not taken: over the size that the server takes."""
    spool: int = 0
    """Not taken: the spool could not be written."""
    closed: int = 0
    """Not taken: the sender was closed, or had failed."""
    oldest: int = 0
    """Taken, and dropped for newer ones (`on_full="drop-oldest"`)."""
    abandoned: int = 0
    """Taken, and given up: refused for good, or not acknowledged when the sender was closed."""

    @property
    def total(self) -> int:
        """The sum."""
        return self.full + self.too_large + self.spool + self.closed + self.oldest + self.abandoned


@dataclass(frozen=True, slots=True)
class Counters:
    """`accepted + recovered == acknowledged + queued + dropped.oldest + dropped.abandoned`, at every moment."""

    accepted: int = 0
    """Messages that `send` has taken, including the sender's own reports of drops."""
    recovered: int = 0
    """Messages of an earlier sender that were found in the spool at the start."""
    sent: int = 0
    """Messages written to a connection, each counted once for a server."""
    acknowledged: int = 0
    """Messages acknowledged, at the requested level, by every server that is to have them."""
    queued: int = 0
    """Messages that are taken and not acknowledged."""
    queued_bytes: int = 0
    """Memory of the queued messages in bytes, including buffers kept for the next ones."""
    reconnects: int = 0
    """Connections that broke or could not be made."""
    dropped: Dropped = field(default_factory=Dropped)
    """Messages that were not delivered."""
    protocol_errors: int = 0
    """Connections that ended because the server broke the protocol; also counted in `reconnects`."""


@dataclass(frozen=True, slots=True)
class ServerProgress:
    """The progress of one server; with `delivery="any"` all servers count as one."""

    server: str
    """The server that is connected, or was tried last."""
    connected: bool
    """Whether the server has welcomed the sender and the connection is open."""
    acknowledged_sequence: int
    """Every message up to this number is acknowledged; numbers begin at 1."""
    reconnects: int
    """Connections that broke or could not be made."""
    reconnect_attempts: int
    """How many attempts in a row must fail before the wait changes: the current value."""
    reconnect_wait: float
    """Seconds between two attempts: the current value."""


@dataclass(frozen=True, slots=True)
class Reconnect:
    """How often and how fast a sender connects again.

    When `attempts` attempts in a row have failed, there is one attempt less and the wait doubles; each acknowledgement takes one
    step back.
    """

    attempts: int = 5
    """This many attempts must fail in a row before the values change. At least 1."""
    attempts_min: int = 1
    """The lowest number of attempts: 1 to `attempts`."""
    wait: float = 0.02
    """Seconds between two attempts; half of it is random."""
    wait_max: float = 1.0
    """The longest wait in seconds."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A change of a connection."""

    kind: str
    """`connected`, `unreachable` (the sender tries again), `ended` (the server will never take the messages of this sender),
    `new_stream` (messages that are not acknowledged are sent as a new stream, as the numbers of the current one cannot be trusted),
    or `lost` (a server lost messages that it had acknowledged, or the sender gives up messages that no server would take, or that its
    spool does not have any more)."""
    server: str
    """Address of the server."""
    why: str
    """What happened; empty for `connected`."""
