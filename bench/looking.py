#!/usr/bin/env python3
"""What it costs a server under full load that somebody looks, how long /metrics takes, and how soon a burst is on the page.

    cargo build --release
    bench/looking.py [ROUNDS [DIR]]      # 5 unless told; DIR (new, on the disk to measure on) is removed at the end. BBQ=PATH: another build

`bbq send` sends 30,000,000 messages of 100 bytes to a server with a sink null:, in turns while nobody looks, while `bbq top`, `bbq tail`, or
what the page asks for runs, and while Prometheus would scrape each second. CPU is that of the whole server in ns a message, and the share of
its thread `admin` alone, which does what others ask for.

Then a server with 64 workers, their sockets and 10,000 connections is scraped 500 times. It and this program need 15,000 descriptors each (ulimit -n).

Then a browser shows the page, and single bursts come: with chromedriver and Chromium alone. Loopback only; Linux; standard library alone.
"""

import http.client
import json
import os
import pty
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from servers import BBQ, PATIENCE_SECONDS, Server, free_port, wait, write_lines

LINES = 5_000_000
REPEATS = 6
CONNECTIONS = 10_000
SOCKETS = 64
SCRAPES = 500
BURSTS = 20
BURST = 20_000


def get(server, path):
    connection = http.client.HTTPConnection(server.admin, timeout=PATIENCE_SECONDS)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        sys.exit(f"{path}: {response.status} {body!r}")
    return body


class Asking:
    """Asks for paths each second, on connections of its own."""

    def __init__(self, server, *paths):
        self.over, self.failed = threading.Event(), None
        self.thread = threading.Thread(target=self.run, args=(server, paths))
        self.thread.start()

    def run(self, server, paths):
        try:
            while not self.over.wait(1):
                for path in paths:
                    get(server, path)
        except (OSError, http.client.HTTPException, SystemExit) as error:
            self.failed = error

    def stop(self):
        self.over.set()
        self.thread.join()
        if self.failed is not None:
            sys.exit(f"asking failed: {self.failed}")


class Program:
    """Runs a command at a terminal."""

    def __init__(self, *arguments):
        self.terminal, its = pty.openpty()
        self.process = subprocess.Popen([BBQ, *arguments], stdin=its, stdout=its, stderr=its, env={**os.environ, "TERM": "xterm-256color"})
        os.close(its)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            while os.read(self.terminal, 1 << 16):
                pass
        except OSError:
            pass  # It has ended.

    def stop(self):
        if self.process.poll() is not None:
            sys.exit(f"{self.process.args} ended early")
        self.process.terminate()
        self.process.wait()
        # Before the close: the number of the descriptor may be another's at once, and the reader would take what comes there.
        self.reader.join()
        os.close(self.terminal)


class Nobody:
    def stop(self):
        pass


LOOKERS = {
    "nobody": lambda server: Nobody(),
    "top": lambda server: Program("top", "--admin", server.admin),
    "page": lambda server: Asking(server, "/status", "/history?after=0"),
    "tail": lambda server: Program("tail", "--admin", server.admin),
    "metrics": lambda server: Asking(server, "/metrics"),
}


def sample(directory, lines, looker):
    server = Server(os.path.join(directory, "server"), "null:")
    try:
        begin = server.cpu_seconds()
        looks = looker(server)
        send = [BBQ, "send", "--to", f"bbq://127.0.0.1:{server.port}"]
        with subprocess.Popen(["cat", *[lines] * REPEATS], stdout=subprocess.PIPE) as cat:
            subprocess.run(send, stdin=cat.stdout, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        looks.stop()
        server.wait_delivered(LINES * REPEATS)
        end = server.cpu_seconds()
    finally:
        server.stop()
    used = {name: seconds - begin.get(name, 0) for name, seconds in end.items()}
    return sum(used.values()), used["admin"]


def cost(directory, rounds):
    lines = os.path.join(directory, "lines")
    write_lines(lines, LINES)
    samples = {name: [] for name in LOOKERS}
    for _ in range(rounds):
        for name, looker in LOOKERS.items():
            samples[name].append(sample(directory, lines, looker))
    for name, found in samples.items():
        nanoseconds = sorted(everything / LINES / REPEATS * 1e9 for everything, _ in found)
        times = statistics.median(one[0] / base[0] for one, base in zip(found, samples["nobody"]))
        share = statistics.median(admin / everything for everything, admin in found)
        print(f"{name:8} {statistics.median(nanoseconds):5.1f} ns ({nanoseconds[0]:.1f}-{nanoseconds[-1]:.1f}), {times:.3f} times nobody; "
              f"the thread admin: {share * 100:.2f} % of the server's time", flush=True)


def scrapes(directory):
    wanted = CONNECTIONS * 3 // 2
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < wanted:
        print(f"/metrics: left out, as {wanted} descriptors are needed, and {hard} are allowed")
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    server = Server(os.path.join(directory, "server"), "null:", "lines", ["--workers", str(SOCKETS), "--distribution", "reuseport"])
    connections = []
    try:
        for _ in range(CONNECTIONS):
            connections.append(socket.create_connection(("127.0.0.1", server.port)))
        wait(lambda: sum(worker["connections"] for worker in server.status()["workers"]) == CONNECTIONS,
             "not all connections are accepted")
        times = []
        for _ in range(SCRAPES):
            begin = time.perf_counter()
            get(server, "/metrics")
            times.append((time.perf_counter() - begin) * 1000)
        times.sort()
        print(f"/metrics with {CONNECTIONS} connections and {SOCKETS} sockets: p50 {times[SCRAPES // 2]:.1f} ms, "
              f"p99 {times[SCRAPES * 99 // 100]:.1f} ms, most {times[-1]:.1f} ms", flush=True)
    finally:
        for connection in connections:
            connection.close()
        server.stop()


class Browser:
    """Headless Chromium by chromedriver (WebDriver)."""

    def __init__(self, url):
        self.port, self.profile = free_port(), tempfile.mkdtemp()
        self.driver = subprocess.Popen(["chromedriver", f"--port={self.port}"], env={**os.environ, "HOME": self.profile},
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait(self.listens, "chromedriver does not listen")
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--user-data-dir=" + os.path.join(self.profile, "profile")]
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments}}
        self.session = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        self.ask("POST", f"/session/{self.session}/url", {"url": url})

    def listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())["value"]

    def run(self, script):
        return self.ask("POST", f"/session/{self.session}/execute/sync", {"script": script, "args": []})

    def stop(self):
        self.ask("DELETE", f"/session/{self.session}")
        self.driver.terminate()
        self.driver.wait()
        shutil.rmtree(self.profile, ignore_errors=True)


def bursts(directory):
    if shutil.which("chromedriver") is None:
        print("bursts on the page: left out, as there is no chromedriver (apt-get install chromium chromium-driver)")
        return
    server = Server(os.path.join(directory, "server"), "null:", "lines")
    browser = Browser(f"http://{server.admin}/")
    received = "return document.querySelector('[data-field=\"ledger.received\"]')?.value"
    times = []
    try:
        wait(lambda: browser.run(received) == "0", "the page shows nothing")
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            for number in range(1, BURSTS + 1):
                # At another moment of the page's second each time.
                time.sleep(1 + number / BURSTS)
                begin = time.perf_counter()
                connection.sendall(b"a message of a burst\n" * BURST)
                wait(lambda: browser.run(received) == str(number * BURST), "a burst is not shown")
                times.append(time.perf_counter() - begin)
    finally:
        browser.stop()
        server.stop()
    print(f"a burst of {BURST} messages is on the page after {statistics.median(times):.2f} s (p50 of {BURSTS}), at most {max(times):.2f} s")


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    directory = sys.argv[2] if len(sys.argv) > 2 else "looking-bench"
    os.mkdir(directory)
    try:
        cost(directory, rounds)
        scrapes(directory)
        bursts(directory)
    finally:
        shutil.rmtree(directory)


main()
