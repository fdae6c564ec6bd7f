"""A real `bbq serve` for each test that asks for one, and programs that log to it and end in their own way."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
BBQ = Path(os.environ.get("BBQ", REPOSITORY / "target/release/bbq"))
# Only a hang takes so long.
PATIENCE_SECONDS = 60

# A script's background job ignores Ctrl-C, and so would every program that it starts. One that is caught here is not ignored
# there.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# What says, until this process ends, that ports are taken: a test's server may be down for a while.
RESERVED = []


def free_port():
    """A free TCP port of 127.0.0.1 that no other test of this machine is given, and that the system gives to no client."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as ports:
        given_from = int(ports.read().split()[0])
    while True:
        port = random.randrange(10_000, given_from)
        reserved = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            # Only one process can have an abstract socket of this name; the tests in Rust take the same ones.
            reserved.bind(f"\0bbq-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            reserved.close()
            continue
        RESERVED.append(reserved)
        return port


class Server:
    """One server with one file, which has everything once the server has ended."""

    def __init__(self, directory):
        self.directory = directory
        self.file = directory / "messages.log"
        self.address = f"bbq://127.0.0.1:{free_port()}"
        self.admin = f"127.0.0.1:{free_port()}"
        # More listeners, and sinks instead of the file, as SPECs.
        self.more = []
        self.sinks = [f"file:{self.file}"]
        self.process = None

    def start(self):
        listen = self.address.replace("bbq://", "bbq+tcp://")
        command = [BBQ, "serve", "--listen", listen, "--data", self.directory / "data"]
        command += [word for spec in self.more for word in ("--listen", spec)]
        command += [word for spec in self.sinks for word in ("--sink", spec)]
        with open(self.directory / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                [*command, "--admin", self.admin, "--workers", "1"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        ready = subprocess.run(
            [BBQ, "status", "--admin", self.admin, "--wait", "30"], capture_output=True, timeout=PATIENCE_SECONDS
        )
        assert ready.returncode == 0, (self.directory / "server.log").read_text()
        return self

    def stall(self):
        self.process.send_signal(signal.SIGSTOP)
        # The signal is on its way until the kernel says that it has stopped.
        os.waitpid(self.process.pid, os.WUNTRACED)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE_SECONDS)

    def stop(self):
        """Ends the server, which drains it."""
        self.process.terminate()
        assert self.process.wait(PATIENCE_SECONDS) == 0, self.log()

    def log(self):
        return (self.directory / "server.log").read_text()

    def status(self):
        asked = subprocess.run([BBQ, "status", "--json", "--admin", self.admin], capture_output=True, timeout=PATIENCE_SECONDS)
        return json.loads(asked.stdout)

    def wait_status(self, what, wanted):
        """Waits until the status is as wanted."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not wanted(status := self.status()):
            assert time.monotonic() < end, f"{what}: {status}\n{self.log()}"
        return status

    def wait_delivered(self, count):
        return self.wait_status(f"{count} messages", lambda status: status["ledger"]["delivered"] >= count)

    def wait_problem(self, words):
        self.wait_status(words, lambda status: words in (status["sinks"][0]["problem"] or ""))

    def lines(self):
        """Ends the server, and reads what came."""
        self.stop()
        return self.file.read_text().splitlines() if self.file.exists() else []


@pytest.fixture
def make_server(tmp_path):
    servers = []

    def make():
        directory = tmp_path / f"server-{len(servers)}"
        directory.mkdir()
        servers.append(Server(directory))
        return servers[-1]

    yield make
    for server in servers:
        server.kill()


@pytest.fixture
def server(make_server):
    return make_server().start()


@pytest.fixture
def nobody():
    """The address of a server that is not there."""
    return f"bbq://127.0.0.1:{free_port()}"


@pytest.fixture
def run_program(tmp_path):
    """Runs a program in a Python of its own; the names in it are `ADDRESS` and what else is given."""

    def run(source, **names):
        path = tmp_path / "program.py"
        assignments = "".join(f"{name} = {value!r}\n" for name, value in names.items())
        path.write_text(assignments + textwrap.dedent(source))
        return subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=PATIENCE_SECONDS)

    return run
