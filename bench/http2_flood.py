#!/usr/bin/env python3
"""How long others wait for a durable POST of 1 KiB while one address floods a listener by HTTP/2.

    bbq serve --data DIR --listen http+tcp://127.0.0.1:7780 --sink null: &
    bench/http2_flood.py [--spare] [--connections N] 7780 [KIND ...]

Kinds: `alone`, `busy` (the flooding processor computes, and sends nothing), `ping`, `settings`, `head` (one that never ends) and `reset`
(requests that are cancelled at once). The flood comes from 127.0.0.2 on one processor, over four connections (or N) and their
successors; eight connections that were open before post up to 500 times a second each. With `--spare` the flood gets only processor
time that nobody else wants (SCHED_IDLE), as if it came from another machine. It goes to loopback only, and ends by itself. Standard library alone.
"""

import argparse
import functools
import multiprocessing
import os
import queue
import socket
import struct
import sys
import threading
import time

SECONDS = 6
HONEST = 8
PAUSE = 0.002
KINDS = ("alone", "busy", "ping", "settings", "head", "reset")

# RFC 9113: types of frames, flags, and what a client says first.
HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 1, 3, 4, 6, 9
END_HEADERS = 4
CANCEL = struct.pack(">I", 8)
# RFC 7541: POST, http, / and an authority, by indexes of the static table.
REQUEST = bytes([0x83, 0x86, 0x84]) + b"\x41\x01x"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


BEGIN = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0)


@functools.cache
def cancelled(stream):
    """A hundred requests that are cancelled at once, from this stream on. They cost the flood nothing when it sends them again."""
    ids = range(stream, stream + 200, 2)
    return b"".join(frame(HEADERS, END_HEADERS, id, REQUEST) + frame(RST_STREAM, 0, id, CANCEL) for id in ids)


def pieces(kind):
    """What a connection of the flood sends behind its beginning, without an end."""
    if kind == "reset":
        stream = 1
        while stream < 2**31 - 200:
            yield cancelled(stream)
            stream += 200
        return
    if kind == "head":
        yield frame(HEADERS, 0, 1, REQUEST)
    again = {
        "ping": frame(PING, 0, 0, b"12345678") * 2000,
        "settings": frame(SETTINGS, 0, 0) * 2000,
        "head": frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b" * 2000) * 8,
    }[kind]
    while True:
        yield again


def flood(port, kind, options, stop, connections):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if options.spare:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    if kind == "busy":
        while not stop.is_set():
            pass
        return

    def connect():
        while not stop.is_set():
            with socket.socket() as connection:
                connection.settimeout(2)
                # A server that closes or does not read is what is expected here.
                try:
                    connection.bind(("127.0.0.2", 0))
                    connection.connect(("127.0.0.1", port))
                    with connections.get_lock():
                        connections.value += 1
                    connection.sendall(BEGIN)
                    for piece in pieces(kind):
                        connection.sendall(piece)
                        if stop.is_set():
                            return
                except OSError:
                    pass

    threads = [threading.Thread(target=connect) for _ in range(options.connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def post(port, end, results):
    connection = socket.create_connection(("127.0.0.1", port))
    request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1024\r\n\r\n" + b"x" * 1024
    waits = []
    while time.monotonic() < end:
        begin = time.perf_counter()
        connection.sendall(request)
        response = b""
        while b"\r\n\r\n" not in response:
            piece = connection.recv(4096)
            if not piece:
                raise SystemExit(f"the server closed an honest connection after {response!r}")
            response += piece
        if not response.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"not taken: {response!r}")
        waits.append(time.perf_counter() - begin)
        time.sleep(PAUSE)
    results.put(waits)


def measure(port, kind, options):
    stop, connections = multiprocessing.Event(), multiprocessing.Value("l", 0)
    flooding = multiprocessing.Process(target=flood, args=(port, kind, options, stop, connections))
    if kind != "alone":
        flooding.start()
        # The flood is at full strength, and limited if it will be, before others are measured.
        time.sleep(2)
    results, end = multiprocessing.Queue(), time.monotonic() + SECONDS
    honest = [multiprocessing.Process(target=post, args=(port, end, results)) for _ in range(HONEST)]
    for process in honest:
        process.start()
    try:
        waits = sorted(wait for _ in honest for wait in results.get(timeout=4 * SECONDS))
    except queue.Empty:
        raise SystemExit("not every honest client came to its end") from None
    finally:
        # The flood ends in any case.
        stop.set()
        if kind != "alone":
            flooding.join(10)
            flooding.kill()
    at = lambda share: waits[int(len(waits) * share)] * 1000
    print(
        f"{kind:9} {len(waits)} POSTs, p50 {at(0.5):.2f} ms, p99 {at(0.99):.2f} ms, p99.9 {at(0.999):.2f} ms; "
        f"{connections.value} connections of the flood",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"some of {', '.join(KINDS)}; all by default")
    parser.add_argument("--connections", type=int, default=4, metavar="N")
    parser.add_argument("--spare", action="store_true")
    options = parser.parse_args()
    for kind in options.kinds:
        if kind not in KINDS:
            parser.error(f"{kind} is not one of {', '.join(KINDS)}")
    for kind in options.kinds or KINDS:
        measure(options.port, kind, options)


if __name__ == "__main__":
    main()
