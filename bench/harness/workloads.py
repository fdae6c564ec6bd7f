"""What is measured: three workloads, each with the rows that are run in turn, and the mark that bbq is held to.

A row makes one sample: it starts a server, runs a client against it, waits until everything is delivered, and has the
output checked message by message. The sizes are the ones of the marks; only how long a sample takes is a setting.
"""

import json
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from .process import Failed
from .servers import Bbq, Floor, Rsyslog, SyslogNg

BENCH = Path(__file__).resolve().parents[1]
BUILD = BENCH / "floor/build"
CLIENT_SECONDS_EXTRA = 60  # a client that takes this much longer than asked is killed

CHURN_MESSAGE_BYTES = 4096
CHURN_CLIENT_THREADS = 4
LINE_BYTES = 256  # with the newline, as loggen counts
LINE_CONNECTIONS = 4
LINES_PER_SECOND = 400_000  # how many lines a second of --seconds stands for; rates of servers are not limited
STREAM_MESSAGE_BYTES = 100
STREAM_MESSAGES_PER_SECOND = 1_500_000
STREAM_PIECE_BYTES = 64 * 1024
WORKERS = 2


@dataclass
class Settings:
    seconds: int
    bbq: Path
    scratch: Path


@dataclass
class Sent:
    """What a client says it has sent."""

    messages: int
    seconds: float
    cpu_seconds: float


@dataclass
class Row:
    name: str
    make_server: object  # (children, directory) -> server
    run_client: object  # (children, server) -> Sent
    output_line_bytes: int  # bytes of a message in the output, or received by a floor that stores nothing
    lines_kind: str = "numbered"
    missing: str = ""  # why this row cannot be run here


@dataclass
class Mark:
    """`row` is to cost at most `limit`: times the row `floor` of the same round, or microseconds if that is None.

    `beside` names rows to print a ratio to as well, without a verdict.
    """

    row: str
    limit: float
    floor: str = None
    beside: tuple = ()


@dataclass
class Workload:
    name: str
    title: str
    rows: list
    marks: list


def sample(row, children):
    """One measurement of one row: a dict of figures. Raises Failed if it does not count."""
    server = row.make_server(children, children.directory)
    server.start()
    machine_before = machine_busy_seconds()
    began = time.monotonic()
    sent = row.run_client(children, server)
    cost = server.cost(sent.messages, sent.messages * row.output_line_bytes)
    took = time.monotonic() - began
    machine = machine_busy_seconds() - machine_before
    if server.output is not None and row.lines_kind is not None:
        check_output(children, server.output, row, sent.messages)
    others = machine - cost.cpu_seconds - sent.cpu_seconds
    return {
        "messages": sent.messages,
        "server_cpu_us": cost.cpu_seconds * 1e6 / sent.messages,
        "client_cpu_us": sent.cpu_seconds * 1e6 / sent.messages,
        "sent_per_second": sent.messages / sent.seconds,
        "delivered_per_second": sent.messages / (cost.delivered_at - began),
        "others_cpu_share": max(0.0, others / (took * os.cpu_count())),
        "server_cpu_us_by_thread": {name: cpu * 1e6 / sent.messages for name, cpu in sorted(cost.by_thread.items())},
        "notes": cost.notes,
    }


def machine_busy_seconds():
    """Time all cores spent on anything, kernel threads and the time the hypervisor took away included."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def check_output(children, output, row, count):
    argv = [BUILD / "lines_check", output, row.output_line_bytes, count, row.lines_kind]
    children.run("lines_check", argv, seconds=CLIENT_SECONDS_EXTRA)


def numbers_of(client):
    totals = json.loads(client.stdout())
    return Sent(totals["sent"], totals["seconds"], client.cpu_at_exit)


def churn(settings):
    def client(children, server):
        argv = [
            BUILD / "churn_client", "127.0.0.1", server.port, CHURN_CLIENT_THREADS, CHURN_MESSAGE_BYTES,
            settings.seconds,
        ]
        return numbers_of(children.run("churn_client", argv, settings.seconds + CLIENT_SECONDS_EXTRA))

    def floor(children, _directory):
        return Floor(children, "churn_reuseport", [BUILD / "churn_reuseport", "PORT", WORKERS], ends_by_itself=False)

    def bbq(children, directory):
        return Bbq(children, directory, settings.bbq, "whole", WORKERS)

    return Workload(
        "churn",
        f"{CHURN_MESSAGE_BYTES}-byte messages, a connection each, {CHURN_CLIENT_THREADS} client threads",
        [
            Row("bare C, own reuseport sockets", floor, client, CHURN_MESSAGE_BYTES),
            Row("bbq whole+tcp", bbq, client, CHURN_MESSAGE_BYTES + 1, missing=missing_bbq(settings)),
        ],
        [Mark("bbq whole+tcp", 1.25, floor="bare C, own reuseport sockets")],
    )


def lines(settings):
    count = settings.seconds * LINES_PER_SECOND // LINE_CONNECTIONS * LINE_CONNECTIONS
    limit = settings.seconds + CLIENT_SECONDS_EXTRA

    def lines_client(children, server):
        argv = [BUILD / "lines_client", "127.0.0.1", server.port, LINE_CONNECTIONS, LINE_BYTES, count]
        return numbers_of(children.run("lines_client", argv, limit))

    def loggen(children, server):
        argv = [
            "loggen", "--inet", "--stream", "--quiet", "--active-connections", LINE_CONNECTIONS, "--size", LINE_BYTES,
            "--rate", 10_000_000, "--interval", limit, "--number", count // LINE_CONNECTIONS, "127.0.0.1", server.port,
        ]
        began = time.monotonic()
        child = children.run("loggen", argv, limit)
        seconds = time.monotonic() - began  # it ends on half seconds of its own: the rate is a lower bound
        said = re.search(r"count=(\d+), time=", child.stdout() + child.stderr())
        if said is None:
            raise Failed(f"loggen did not say what it sent: {child.complaint()}")
        return Sent(int(said[1]), seconds, child.cpu_at_exit)

    def bbq(children, directory):
        return Bbq(children, directory, settings.bbq, "lines", WORKERS)

    servers = [
        ("bbq lines+tcp", bbq, missing_bbq(settings)),
        ("syslog-ng", SyslogNg, "" if SyslogNg.program() else "syslog-ng is not installed, see bench/peers/install"),
        ("rsyslog imptcp", Rsyslog, "" if Rsyslog.program() else "rsyslog is not installed, see bench/peers/install"),
    ]
    no_loggen = "" if shutil.which("loggen") else "loggen is not installed, see bench/peers/install"
    rows = []
    for name, server, missing in servers:
        rows.append(Row(f"{name}, loggen", server, loggen, LINE_BYTES, "loggen", missing or no_loggen))
        rows.append(Row(f"{name}, lines_client", server, lines_client, LINE_BYTES, missing=missing))
    return Workload(
        "lines",
        f"{LINE_BYTES}-byte lines over {LINE_CONNECTIONS} connections to a file, {count} a sample",
        rows,
        [
            Mark(f"bbq lines+tcp, {client}", 0.6, beside=(f"syslog-ng, {client}", f"rsyslog imptcp, {client}"))
            for client in ("loggen", "lines_client")
        ],
    )


def stream(settings):
    count = settings.seconds * STREAM_MESSAGES_PER_SECOND
    limit = settings.seconds + CLIENT_SECONDS_EXTRA
    messages = settings.scratch / "messages"

    def bytes_client(children, server):
        argv = [
            BUILD / "stream_client", "127.0.0.1", server.port, count * STREAM_MESSAGE_BYTES, STREAM_PIECE_BYTES,
        ]
        sent = numbers_of(children.run("stream_client", argv, limit))
        return Sent(sent.messages // STREAM_MESSAGE_BYTES, sent.seconds, sent.cpu_seconds)

    def bbq_send(children, server):
        if not messages.exists():
            write_messages(messages, count)
        argv = [settings.bbq, "send", "--to", f"bbq://127.0.0.1:{server.port}", "--ack", "durable", messages]
        began = time.monotonic()
        child = children.run("bbq-send", argv, limit)
        return Sent(count, time.monotonic() - began, child.cpu_at_exit)

    def floor(children, directory):
        output = directory / "output.bin"
        argv = [BUILD / "stream_durable", "PORT", output]
        return Floor(children, "stream_durable", argv, ends_by_itself=True, output=output)

    def bbq(children, directory):
        return Bbq(children, directory, settings.bbq, "bbq", WORKERS)

    floor_name = "bare C, CRC-32C, write, fdatasync per MiB"
    return Workload(
        "stream",
        f"{STREAM_MESSAGE_BYTES}-byte messages, durable, one sender, {count} a sample",
        [
            Row(floor_name, floor, bytes_client, STREAM_MESSAGE_BYTES, lines_kind=None),
            Row("bbq bbq+tcp, bbq send", bbq, bbq_send, STREAM_MESSAGE_BYTES + 1, missing=missing_bbq(settings)),
        ],
        [Mark("bbq bbq+tcp, bbq send", 0.15, beside=(floor_name,))],
    )


ALL = {"churn": churn, "lines": lines, "stream": stream}


def missing_bbq(settings):
    return "" if settings.bbq.exists() else f"{os.path.relpath(settings.bbq)} is missing: cargo build --release"


def write_messages(path, count):
    """A file of `count` numbered lines of STREAM_MESSAGE_BYTES bytes each, and the newline."""
    piece = 10_000
    padding = b"x" * (STREAM_MESSAGE_BYTES - 20)
    with open(path, "wb") as file:
        for first in range(0, count, piece):
            file.write(b"".join(b"%020d%s\n" % (i, padding) for i in range(first, min(first + piece, count))))
