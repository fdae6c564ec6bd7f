"""What a sender says about itself, and how it reconnects."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Dropped:
    """Messages that were not delivered, by the reason. Nothing is dropped without being counted here."""

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
        """All of them."""
        return self.full + self.too_large + self.spool + self.closed + self.oldest + self.abandoned


@dataclass(frozen=True, slots=True)
class Counters:
    """`accepted + recovered == acknowledged + queued + dropped.oldest + dropped.abandoned`, at every moment."""

    accepted: int = 0
    """Messages that `send` has taken, the sender's own reports of drops included."""
    recovered: int = 0
    """Messages found in the spool at the start."""
    sent: int = 0
    """Messages written to a connection, each counted once for a server."""
    acknowledged: int = 0
    """Messages acknowledged at the level that was asked for, by every server that is to have them."""
    queued: int = 0
    """Messages that are taken and not acknowledged."""
    queued_bytes: int = 0
    """Memory that they take, with what is kept for the next ones."""
    reconnects: int = 0
    """Connections that broke or could not be made."""
    dropped: Dropped = field(default_factory=Dropped)
    """Messages that were not delivered."""
    protocol_errors: int = 0
    """Connections that ended because the server broke the protocol; `reconnects` has them, too."""


@dataclass(frozen=True, slots=True)
class ServerProgress:
    """How far one server is; with `delivery="any"` all servers count as one."""

    server: str
    """The server that is connected, or was tried last."""
    connected: bool
    """Whether it has welcomed the sender."""
    acknowledged_sequence: int
    """Every message up to this number is acknowledged; numbers begin at 1."""
    reconnects: int
    """Connections that broke or could not be made."""
    reconnect_attempts: int
    """Attempts in a row that must fail until it and the wait change: the present value."""
    reconnect_wait: float
    """Seconds between two attempts: the present value."""


@dataclass(frozen=True, slots=True)
class Reconnect:
    """How often and how fast a server that does not answer is tried again.

    Each failed delivery lowers the attempts by one and doubles the wait, each acknowledgement takes one step back.
    """

    attempts: int = 5
    """Attempts that make a delivery. At least 1."""
    attempts_min: int = 1
    """The attempts never fall below. 1 to `attempts`."""
    wait: float = 0.02
    """Seconds between two attempts; half of it is by chance."""
    wait_max: float = 1.0
    """The wait never grows beyond."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A change of a connection."""

    kind: str
    """`connected`, `unreachable` (it is tried again), `ended` (it will never take what this sender has), `new_stream` (what is not
    acknowledged is sent with numbers of a new stream, as those of the present one cannot be trusted), or `lost` (a server lost
    what it had acknowledged, or the sender gives up what no server would take)."""
    server: str
    """Which."""
    why: str
    """What happened; empty for `connected`."""
