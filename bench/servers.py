"""What the measurements here have in common: a server with a data directory, on a free port, and messages to send to it."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time

BBQ = os.environ.get("BBQ", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "bbq"))
PATIENCE_SECONDS = 120


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait(is_done, what):
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_done():
        if time.monotonic() > end:
            sys.exit(what)
        time.sleep(0.02)


def write_lines(path, count):
    """Lines of 100 bytes, numbered; a multiple of 1000."""
    with open(path, "wb") as file:
        for first in range(0, count, 1000):
            file.write(b"".join(b"%098d \n" % number for number in range(first, first + 1000)))


class Server:
    def __init__(self, directory, sink, listen="bbq", options=()):
        self.directory, self.port, self.admin = directory, free_port(), f"127.0.0.1:{free_port()}"
        log = directory + ".log"
        with open(log, "w") as file:
            self.process = subprocess.Popen(
                [BBQ, "serve", "--data", directory, "--listen", f"{listen}+tcp://127.0.0.1:{self.port}", "--sink", sink,
                 "--admin", self.admin, *options], stdout=subprocess.DEVNULL, stderr=file)
        wait(lambda: " ready " in open(log).read(), "the server is not ready: " + log)

    def status(self):
        return json.loads(subprocess.check_output([BBQ, "status", "--json", "--admin", self.admin]))

    def wait_delivered(self, messages):
        def are_all():
            ledger = self.status()["ledger"]
            return ledger["delivered"] == messages and ledger["queued"] == 0
        wait(are_all, "not all is delivered")

    def cpu_seconds(self):
        """Of its threads, by the first part of their names."""
        used = {}
        tasks = f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/comm") as file:
                name = file.read().strip().split("-")[0]
            with open(f"{tasks}/{task}/schedstat") as file:
                used[name] = used.get(name, 0) + int(file.read().split()[0]) / 1e9
        return used

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
