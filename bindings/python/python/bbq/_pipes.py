"""The pipes between bbq and a program that its sink `exec:` has started: lines come in, and the numbers of lines go out.

They are taken from the program: afterwards its standard input is empty, and its standard output is its standard error. So neither a
`print` nor a library or a command that the program starts can write between the numbers, or read a message away.

Not here: what a line says (`receiver`).
"""

import fcntl
import io
import os
import select
import shlex
import signal
import sys
import threading
from collections import deque
from types import FrameType
from typing import Literal

from bbq.errors import Forked, SinkError

_VARIABLE = "BBQ_EXEC"
"""What the sink tells about itself: `ack=line format=json`."""
_PIPE_BYTES = 1024 * 1024
"""What the pipe is made to hold, as far as the system lets a user do that: larger batches than with its 64 KiB."""
_READ_BYTES = 64 * 1024
"""At most of one read."""
_BATCH_BYTES = 1024 * 1024
"""No more is read for a batch that has as much: enough for one transaction, and little enough to keep in memory."""

_taken: "Pipes | None" = None
"""A process has one standard input, so it has one of these."""


class Pipes:
    """See the module."""

    def __init__(self, wanted: Literal["json", "raw"]) -> None:
        global _taken
        if _taken is not None:
            raise SinkError("this process has called receive already: what comes in is read by one loop")
        _check(wanted)
        try:
            self._input = os.dup(0)
            self._output = os.dup(1)
        except OSError as error:
            raise SinkError(f"standard input and output must be open: {error}") from None
        _taken = self
        _give_others_nothing()
        try:
            fcntl.fcntl(self._input, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            pass  # It is no pipe, or all that a user may have is taken.
        self._ready: deque[bytes] = deque()
        """Whole lines that were read and not handed out, without their line feeds."""
        self._ready_bytes = 0
        self._begun: list[bytes] = []
        """The pieces of a line that is not read to its end."""
        self._handed_out = 0
        self._stopping = False
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._input, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        self._forked = self._closed = False
        self._catches = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._catches:
            signal.signal(signal.SIGTERM, self._stop)
        self._forking = threading.local()
        """The signals that a thread blocked before it forked."""
        os.register_at_fork(before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._leave_to_parent)

    def lines(self, most: int) -> list[bytes]:
        """Waits for a line, and returns those that are there, at most `most`. Returns none at the end, and after SIGTERM."""
        if self._forked:
            raise Forked("the messages belong to the parent process: hand them to the child, which cannot acknowledge them")
        while not self._ready:
            if not self._read(None):
                return []
        if self._stopping:
            return []
        while len(self._ready) < most and self._ready_bytes < _BATCH_BYTES and self._read(0):
            pass
        batch = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
        self._ready_bytes -= sum(map(len, batch))
        self._handed_out += len(batch)
        return batch

    def acknowledge(self) -> bool:
        """Tells bbq that everything handed out is done with. Returns whether bbq is there to hear it."""
        if self._forked:
            raise Forked("only the process that bbq has started acknowledges messages")
        try:
            os.write(self._output, b"%d\n" % self._handed_out)
        except BrokenPipeError:
            # bbq was killed. Its successor sends everything again that is not acknowledged.
            return False
        return True

    def close(self) -> None:
        """Ends receiving. bbq notices it by the end of the process."""
        if not self._closed:
            self._closed = True
            if self._catches:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for descriptor in (self._input, self._output, self._wake, self._waker):
                os.close(descriptor)

    def _read(self, timeout: int | None) -> bool:
        """Reads what is there, waiting at most for `timeout` (in ms). Returns whether there was something, and may be more."""
        ready = [descriptor for descriptor, _ in self._poll.poll(timeout)]
        if self._wake in ready or self._input not in ready:
            return False
        chunk = os.read(self._input, _READ_BYTES)
        if not chunk:
            return False
        *whole, rest = chunk.split(b"\n")
        if whole:
            self._begun.append(whole[0])
            whole[0] = b"".join(self._begun)
            self._begun.clear()
            self._ready.extend(whole)
            self._ready_bytes += sum(map(len, whole))
        if rest:
            self._begun.append(rest)
        return True

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True
        try:
            os.write(self._waker, b"\n")
        except BlockingIOError:
            pass  # It is readable already.

    def _before_fork(self) -> None:
        """Puts SIGTERM off. A child that it met too early would forget it, or tell its parent to stop: they share the pipe of `_stop`."""
        if self._catches and not self._closed:
            # First, as another signal's handler may raise while the mask is set.
            self._forking.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    def _after_fork(self) -> None:
        blocked = self._forking.__dict__.pop("blocked", None)
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _leave_to_parent(self) -> None:
        """A child has nothing of it, and ends by SIGTERM as any program."""
        self._forked = True
        try:
            self.close()
        finally:
            self._after_fork()


def _check(wanted: str) -> None:
    """Raises unless bbq gives this program what it wants, in a way that it can acknowledge."""
    told = os.environ.get(_VARIABLE)
    if told is None:
        if os.isatty(0):
            raise SinkError(_how_to_start(wanted))
        return  # Lines from a file or another program: a way to try it.
    # One line, as the status of bbq shows the last one.
    needed = f"ack=line format={wanted}"
    if not set(needed.split()) <= set(told.split()):
        raise SinkError(f"bbq gives this program its messages with {told}, but it needs {needed}: change these options of the sink exec:")


def _how_to_start(wanted: str) -> str:
    has_file = bool(sys.argv) and sys.argv[0] not in ("", "-", "-c")
    program = os.path.abspath(sys.argv[0]) if has_file else "PROGRAM.py"
    command = shlex.join([sys.executable or "python3", program, *sys.argv[1:]])
    spec = "exec:exec " + command.replace("\\", "\\\\").replace('"', '\\"')
    table = f'[[sink]]\nspec = "{spec}"\nack = "line"\nformat = "{wanted}"'
    indented = table.replace("\n", "\n    ")
    return f"bbq starts this program, and gives it the messages. Write into the configuration of bbq:\n\n    {indented}\n"


def _give_others_nothing() -> None:
    """Makes standard input empty, and standard output the same as standard error."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(nothing, 1)
    if nothing > 2:
        os.close(nothing)
    # In the log of bbq a line shows when it is complete. What was printed before goes there, too.
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.closed:
        sys.stdout.reconfigure(line_buffering=True)
