#!/usr/bin/env python3
"""What sinks cost a server beside storing alone: passing on to a second server, a file of messages or of JSON, and objects.

    cargo build --release --features s3
    bench/sinks.py [ROUNDS [DIR]]        # 5 unless told; DIR (new, on the disk to measure on) is removed at the end. BBQ=PATH: another build

`bbq send` sends 5,000,000 messages of 100 bytes to a server with each of the sinks in turns; a build without objects leaves them out. CPU is
that of the whole server, until everything is delivered, in ns a message. Loopback only; Linux; standard library alone.
"""

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time

BBQ = os.environ.get("BBQ", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "bbq"))
MESSAGES = 5_000_000
PATIENCE_SECONDS = 120
TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    def __init__(self, directory, sink):
        self.directory, self.port, self.admin = directory, free_port(), f"127.0.0.1:{free_port()}"
        log = directory + ".log"
        with open(log, "w") as file:
            self.process = subprocess.Popen(
                [BBQ, "serve", "--data", directory, "--listen", f"bbq+tcp://127.0.0.1:{self.port}", "--sink", sink, "--admin", self.admin],
                stdout=subprocess.DEVNULL, stderr=file)
        wait(lambda: " ready " in open(log).read(), "the server is not ready: " + log)

    def ledger(self):
        return json.loads(subprocess.check_output([BBQ, "status", "--json", "--admin", self.admin]))["ledger"]

    def cpu_seconds(self):
        """By the first part of the threads' names."""
        used = {}
        tasks = f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/stat") as file:
                name, fields = file.read().split("(", 1)[1].rsplit(")", 1)
            user, system = fields.split()[11:13]
            name = name.split("-")[0]
            used[name] = used.get(name, 0) + (int(user) + int(system)) / TICKS
        return used

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def wait(is_done, what):
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_done():
        if time.monotonic() > end:
            sys.exit(what)
        time.sleep(0.02)


def sample(directory, lines, kind):
    last = Server(os.path.join(directory, "last"), "null:")
    output = os.path.join(directory, "output")
    sink = {
        "null": "null:",
        "bbq": f"bbq://127.0.0.1:{last.port}",
        "file": f"file:{output}",
        "json": f"file:{output}?format=json",
        "objects": f"objects:{output}",
    }[kind]
    server = Server(os.path.join(directory, "first"), sink)
    try:
        subprocess.run([BBQ, "send", "--to", f"bbq://127.0.0.1:{server.port}", lines], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        wait(lambda: (lambda ledger: ledger["delivered"] == MESSAGES and ledger["queued"] == 0)(server.ledger()), "not all is delivered")
        used = server.cpu_seconds()
    finally:
        server.stop()
        last.stop()
        if os.path.isdir(output):
            shutil.rmtree(output)
        elif os.path.exists(output):
            os.remove(output)
    return {name: seconds / MESSAGES * 1e9 for name, seconds in {"all": sum(used.values()), **used}.items()}


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    directory = sys.argv[2] if len(sys.argv) > 2 else "sinks-bench"
    os.mkdir(directory)
    try:
        lines = os.path.join(directory, "lines")
        with open(lines, "wb") as file:
            for first in range(0, MESSAGES, 1000):
                file.write(b"".join(b"%098d \n" % number for number in range(first, first + 1000)))
        kinds = ["null", "bbq", "file", "json"]
        if subprocess.run([BBQ, "config", "explain", "sink.objects"], capture_output=True).returncode == 0:
            kinds.append("objects")
        samples = {kind: [] for kind in kinds}
        for _ in range(rounds):
            for kind, found in samples.items():
                found.append(sample(directory, lines, kind))
        for kind, found in samples.items():
            totals = sorted(used["all"] for used in found)
            times = statistics.median(used["all"] / base["all"] for used, base in zip(found, samples["null"]))
            parts = {name: statistics.median(used.get(name, 0) for used in found) for name in ("worker", "lane", "sink")}
            parts = ", ".join(f"{name} {part:.0f}" for name, part in parts.items())
            print(f"{kind:7} {statistics.median(totals):5.0f} ns ({totals[0]:.0f}-{totals[-1]:.0f}), {times:.2f} times null; {parts}")
    finally:
        shutil.rmtree(directory)


main()
