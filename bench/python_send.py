#!/usr/bin/env python3
"""What a log call costs the thread that makes it: bbq's Python package beside logging.handlers.QueueHandler.

    cargo xtask python                                     # builds the package into target/python/venv
    target/python/venv/bin/python bench/python_send.py     # about 20 seconds

Each call is timed alone, clock included: the first row says what the clock costs. QueueHandler stands for the least that
Python's own logging does before a record reaches another thread; behind it is a queue of 100,000 records, which a listener
empties while the server is fast and nobody does otherwise. `full` is a queue that was filled before.
"""

import argparse
import logging
import logging.handlers
import os
import queue
import signal
import sys
import tempfile
import time
from pathlib import Path

import bbq
from harness.process import Children, free_port
from harness.servers import Bbq

REPOSITORY = Path(__file__).resolve().parents[1]
MESSAGE = b"x" * 100
TEXT = "x" * 80 + " %s %s"
RECORDS_MAX = 100_000
# A full queue that takes a moment to fill; and one that has room for all calls.
SMALL_BYTES, LARGE_BYTES = 2**20, 2**28
PERCENTILES = (0.5, 0.99, 0.999)
STATES = ("fast", "stalled", "stalled, full", "gone")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200_000, help="calls in each row (default 200000)")
    parser.add_argument("--bbq", type=Path, default=REPOSITORY / "target/release/bbq", help="the server")
    parser.add_argument("--directory", type=Path, default=REPOSITORY / "target", help="on the disk to measure on")
    options = parser.parse_args()
    # What is dropped is counted: nobody needs a traceback of each.
    logging.raiseExceptions = False
    print(f"{'state':14} {'call':34} {'mean':>8} {'p50':>8} {'p99':>8} {'p99.9':>8} {'most':>9}   ns, of {options.calls} calls")
    show("", "the clock", clocked(lambda: None, options.calls))
    for state in STATES:
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            children = Children(directory)
            try:
                server = Bbq(children, Path(directory), options.bbq, "bbq", 1)
                address = f"bbq://127.0.0.1:{server.port if state != 'gone' else free_port()}"
                server.start()
                measure(state, address, server, options.calls)
            finally:
                children.end_all()


def measure(state, address, server, calls):
    if state.startswith("stalled"):
        os.kill(server.child.pid, signal.SIGSTOP)
    queue_bytes_max = SMALL_BYTES if state.endswith("full") else LARGE_BYTES
    options = {"queue_bytes_max": queue_bytes_max, "close_timeout": 30 if state == "fast" else 0}
    policies = ("drop-newest", "drop-oldest") if state.endswith("full") else ("drop-newest", "block")
    for on_full in policies:
        sender = bbq.Sender(address, on_full=on_full, **options)
        send = ignoring(bbq.Full, sender.send) if state.endswith("full") else sender.send
        if state.endswith("full"):
            fill(lambda: send(MESSAGE), lambda: full(sender))
        show(state, f"Sender.send, {on_full}", clocked(lambda: send(MESSAGE), calls))
        end(sender)
    handler = bbq.Handler(address, **options)
    logger = logger_of(handler)
    if state.endswith("full"):
        fill(lambda: logger.info(TEXT, 1, 2), lambda: full(handler.sender))
    show(state, "logger.info, bbq.Handler", clocked(lambda: logger.info(TEXT, 1, 2), calls))
    handler.close()
    queued(state, calls)


def queued(state, calls):
    records = queue.Queue(RECORDS_MAX)
    logger = logger_of(logging.handlers.QueueHandler(records))
    listener = logging.handlers.QueueListener(records, logging.NullHandler())
    if state == "fast":
        listener.start()
    if state.endswith("full"):
        fill(lambda: logger.info(TEXT, 1, 2), records.full)
    show(state, "logger.info, QueueHandler", clocked(lambda: logger.info(TEXT, 1, 2), min(calls, RECORDS_MAX)))
    if state == "fast":
        listener.stop()


def logger_of(handler):
    logger = logging.Logger("bench", logging.INFO)
    logger.addHandler(handler)
    return logger


def full(sender):
    dropped = sender.counters.dropped
    return dropped.full + dropped.oldest > 0


def fill(call, is_full):
    while not is_full():
        for _ in range(1000):
            call()


def ignoring(error, call):
    def quiet(argument):
        try:
            call(argument)
        except error:
            pass

    return quiet


def end(sender):
    try:
        sender.close()
    except bbq.Timeout:
        pass


def clocked(call, calls):
    clock = time.perf_counter_ns
    took = [0] * calls
    for index in range(calls):
        began = clock()
        call()
        took[index] = clock() - began
    return sorted(took)


def show(state, name, took):
    cells = [f"{took[int(len(took) * part)]:8}" for part in PERCENTILES]
    print(f"{state:14} {name:34} {sum(took) / len(took):8.0f} {' '.join(cells)} {took[-1]:9}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
