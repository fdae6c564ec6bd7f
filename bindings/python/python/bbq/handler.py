"""`bbq.Handler`: sends records of Python's `logging` to a bbq server."""

import logging
import sys
from collections.abc import Sequence
from typing import Any, Unpack

from bbq import _exit
from bbq._native import Sender
from bbq.errors import Closed, Error, Forked, Full
from bbq.options import SenderOptions


class Handler(logging.Handler):
    """Sends each record, formatted, as a message.

    servers: as for `Sender`, with the same keywords. Or `sender`: an existing sender, which the handler does not close.
    When the queue is full, the newest record is dropped unless `on_full` says otherwise: a log call then never waits.

    A log call never raises. A record that is dropped because the queue is full is in `counters`; any other failure is counted in
    `errors` and shown on stderr if `logging.raiseExceptions` is set, but errors of the sender only once for each kind.

    A handler that was closed sends again with the next record, as Python's `FileHandler` does, because `logging.config` closes all
    handlers. It does not if the process is exiting, or if it does not own its sender.

    In a forked child the first record starts another sender with the same options. A sender with a spool belongs to the parent: such
    a child must make a handler of its own.
    """

    def __init__(
        self,
        servers: str | Sequence[str] | None = None,
        *,
        sender: Sender | None = None,
        level: int | str = logging.NOTSET,
        formatter: logging.Formatter | None = None,
        **options: Unpack[SenderOptions],
    ) -> None:
        if (servers is None) == (sender is None):
            raise TypeError("give a handler either servers or a sender")
        if sender is not None and options:
            raise TypeError(f"the sender has its options already: {', '.join(options)}")
        super().__init__(level)
        if formatter is not None:
            self.setFormatter(formatter)
        self.errors = 0
        """Records that were not sent because of an error other than a full queue."""
        self._shown: set[type[Error]] = set()
        self._owns_sender = sender is None
        if sender is None:
            options.setdefault("on_full", "drop-newest")
            sender = Sender(servers, **options)
        self._sender = sender

    @property
    def sender(self) -> Sender:
        """The sender of this process."""
        return self._of_this_process() if self._sender.forked else self._sender

    def handle(self, record: logging.LogRecord) -> Any:
        """As in any handler, but without its lock, which the sender does not need, so that no thread waits for another."""
        passed = self.filter(record)
        if isinstance(passed, logging.LogRecord):
            record = passed
        if passed:
            self.emit(record)
        return passed

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = self.format(record)
            try:
                self._send(message)
            except UnicodeEncodeError:
                # A lone surrogate, as in some file names, is sent as an escape.
                self._send(message.encode("utf-8", "backslashreplace"))
        except Full:
            pass
        except Exception:
            self.handleError(record)

    def _send(self, message: str | bytes) -> None:
        try:
            self._sender.send(message)
        except Forked:
            self._of_this_process().send(message)
        except Closed:
            if not self._owns_sender or _exit.is_ending():
                raise
            self._opened_again().send(message)

    def _of_this_process(self) -> Sender:
        # logging makes a new lock for the handler in each child.
        with self.lock:
            if self._sender.forked:
                self._sender = self._sender.start_again()
                self._owns_sender = True
            return self._sender

    def _opened_again(self) -> Sender:
        with self.lock:
            # Only one of several threads that log at the same time starts a sender.
            if self._sender.closed:
                self._sender = self._sender.start_again()
            return self._sender

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        with self.lock:
            self.errors += 1
            # A sender that has ended fails in the same way for every later record.
            known = type(error) in self._shown
            if isinstance(error, Error):
                self._shown.add(type(error))
        if not known:
            super().handleError(record)

    def flush(self) -> None:
        """Waits until every record is acknowledged, at most for `close_timeout`."""
        if not self._sender.forked:
            try:
                self._sender.flush()
            except Error:
                pass

    def close(self) -> None:
        """Flushes, and closes the sender if the handler owns it."""
        super().close()
        if self._owns_sender and not self._sender.forked:
            try:
                self._sender.close()
            except Error as error:
                # At the exit of the process, the sender itself has said so.
                if logging.raiseExceptions and not _exit.is_ending() and sys.stderr:
                    print(f"bbq: {error}", file=sys.stderr)
