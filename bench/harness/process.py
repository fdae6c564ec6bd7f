"""Child processes: started, waited for, measured and ended by pid. Nothing else is ever signalled.

Invariants: every child that was started is ended by `Children.end_all`; every wait has a time-out.
"""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

POLL_SECONDS = 0.002
TERM_SECONDS = 60  # a queue may drain for long; after this it is killed and the sample does not count
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A sample that does not count, and why."""


def wait_until(condition, seconds, what, poll=POLL_SECONDS):
    """Returns the first true value of `condition`; raises Failed after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise Failed(f"{what}: not within {seconds} s")
        time.sleep(poll)


def free_port():
    """A TCP port of 127.0.0.1 that nobody held a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Child:
    """One process: its output in files, its CPU time from /proc while it lives and from wait4 afterwards."""

    def __init__(self, name, argv, directory):
        self.name = name
        self.stdout_path = Path(directory, f"{name}.stdout")
        self.stderr_path = Path(directory, f"{name}.stderr")
        with open(self.stdout_path, "wb") as out, open(self.stderr_path, "wb") as err:
            self.popen = subprocess.Popen(
                [str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=directory
            )
        self.pid = self.popen.pid
        self.cpu_at_exit = None

    def stdout(self):
        return self.stdout_path.read_text(errors="replace")

    def stderr(self):
        return self.stderr_path.read_text(errors="replace")

    def running(self):
        if self.popen.returncode is not None:
            return False
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if pid == 0:
            return True
        self.popen.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_at_exit = usage.ru_utime + usage.ru_stime
        return False

    def cpu_seconds(self):
        """utime + stime of all threads, dead ones included. Counted in clock ticks, usually of 10 ms."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def cpu_by_thread(self):
        """Seconds by thread name, threads alive now; empty where the kernel keeps no scheduler statistics."""
        threads = {}
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                name = (task / "comm").read_text().strip()
                nanoseconds = int((task / "schedstat").read_text().split()[0])
            except OSError:
                continue
            threads[name] = threads.get(name, 0) + nanoseconds / 1e9
        return threads

    def wait_ready_line(self, seconds=10):
        def ready():
            if "ready\n" in self.stdout():
                return True
            if not self.running():
                raise Failed(f"{self.name} ended before it was ready: {self.complaint()}")
            return False

        wait_until(ready, seconds, f"{self.name} ready")

    def wait_exit(self, seconds):
        wait_until(lambda: not self.running(), seconds, f"{self.name} ended")
        return self.popen.returncode

    def terminate(self, seconds=TERM_SECONDS):
        """SIGTERM and the exit code. One that does not end in time is killed, and Failed is raised."""
        if self.running():
            os.kill(self.pid, signal.SIGTERM)
        try:
            return self.wait_exit(seconds)
        except Failed:
            self.kill()
            raise

    def kill(self):
        if self.running():
            os.kill(self.pid, signal.SIGKILL)
            self.wait_exit(10)

    def complaint(self):
        """The last line it said on standard error."""
        lines = self.stderr().strip().splitlines()
        return lines[-1] if lines else f"exit code {self.popen.returncode}, nothing on standard error"


class Children:
    """All children of one sample, ended together however the sample ends."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.children = []

    def start(self, name, argv):
        child = Child(name, argv, self.directory)
        self.children.append(child)
        return child

    def run(self, name, argv, seconds):
        """Runs a child to its end; Failed unless it ends in time with exit code 0."""
        child = self.start(name, argv)
        try:
            code = child.wait_exit(seconds)
        finally:
            child.kill()
        if code != 0:
            raise Failed(f"{name} failed with exit code {code}: {child.complaint()} {child.stdout().strip()}")
        return child

    def end_all(self):
        for child in self.children:
            child.kill()
