#!/usr/bin/env python3
"""What sinks cost a server beside storing alone: passing on to a second server, a file of messages or of JSON, and objects.

    cargo build --release --features s3
    bench/sinks.py [ROUNDS [DIR]]        # 5 unless told; DIR (new, on the disk to measure on) is removed at the end. BBQ=PATH: another build

`bbq send` sends 5,000,000 messages of 100 bytes to a server with each of the sinks in turns; a build without objects leaves them out. CPU is
that of the whole server, until everything is delivered, in ns a message. Loopback only; Linux; standard library alone.
"""

import os
import shutil
import statistics
import subprocess
import sys

from servers import BBQ, Server, write_lines

MESSAGES = 5_000_000


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
        server.wait_delivered(MESSAGES)
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
        write_lines(lines, MESSAGES)
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
