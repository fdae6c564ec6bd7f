#!/usr/bin/env python3
"""What it costs a server when the broker of its sink is away for a while, and how fast it hands on what has collected.

    cargo xtask test                                       # builds bbq with every sink, and gets the brokers
    bench/broker_away.py nats [SECONDS [DIR]]              # 60 s unless told; DIR (new, on the disk to measure on) is removed at the end
    bench/broker_away.py kafka [SECONDS [DIR]]             # BBQ=PATH: another build

Lines of 100 bytes come by one connection at 50,000 a second. First the broker is there (15 s), then it is killed and stays away, then the
lines end, it comes back, and what has collected is drained. CPU of the intake is that of the threads `worker-*` and `lane-*`. The
broker's own load generator writes as much to the same broker afterwards. Loopback only; Linux; standard library alone.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time

from servers import BBQ, free_port

TARGET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target")
NATS_CLI = os.path.join(TARGET, "bench", "peers", "bin", "nats")
RATE = 50_000
BURST_SECONDS = 0.02
BEFORE_SECONDS = 15
PATIENCE_SECONDS = 120
LINE = b"x" * 99 + b"\n"
JAVA = ["java", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info", "-cp", os.path.join(TARGET, "kafka", "jars", "*")]


class Nats:
    def __init__(self, directory):
        self.directory, self.port = directory, free_port()
        self.sink = f"nats://127.0.0.1:{self.port}/logs?stream=LOGS&create=on"

    def start(self):
        program = os.path.join(TARGET, "nats", "nats-server")
        store = os.path.join(self.directory, "nats")
        command = [program, "--addr", "127.0.0.1", "--port", str(self.port), "--jetstream", "--store_dir", store]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def own_benchmark(self, messages):
        """Asynchronous publishing, 500 at a time, as `nats bench` does unless told; and atomic batches, which is what bbq sends."""
        if not os.path.exists(NATS_CLI):
            return f"not measured: {NATS_CLI} is missing; bench/peers/install makes it"
        rates = []
        for kind in ("async", "atomic"):
            done = subprocess.run(
                [NATS_CLI, "--server", f"nats://127.0.0.1:{self.port}", "bench", "js", "pub", kind, kind, "--create", "--stream", kind,
                 "--storage", "file", "--maxbytes", "2GB", "--msgs", str(messages), "--size", "100", "--no-progress"],
                capture_output=True, text=True)
            lines = [line for line in done.stdout.splitlines() if "msgs/sec" in line]
            rates.append(f"{kind}: {lines[-1].strip()}" if lines else f"{kind}: {done.stderr.strip()}")
        return "; ".join(rates)


class Kafka:
    def __init__(self, directory):
        self.port, controller = free_port(), free_port()
        self.sink = f"kafka://127.0.0.1:{self.port}/logs"
        self.config, self.log = os.path.join(directory, "properties"), os.path.join(directory, "kafka.log")
        with open(self.config, "w") as config:
            config.write(f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={directory}/kafka
num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
""")
        subprocess.run([*JAVA, "kafka.tools.StorageTool", "format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAA", "--config",
                        self.config], check=True, stdout=subprocess.DEVNULL)

    def start(self):
        with open(self.log, "ab") as log:
            broker = subprocess.Popen([*JAVA, "kafka.Kafka", self.config], stdout=log, stderr=log)
        return broker

    def own_benchmark(self, messages):
        done = subprocess.run(
            [*JAVA, "org.apache.kafka.tools.ProducerPerformance", "--topic", "own", "--num-records", str(messages),
             "--record-size", "100", "--throughput", "-1", "--command-property", f"bootstrap.servers=127.0.0.1:{self.port}",
             "acks=all", "linger.ms=5", "batch.size=524288", "buffer.memory=134217728", "--transactional-id", "own",
             "--transaction-duration-ms", "1000"],
            capture_output=True, text=True)
        return (done.stdout.strip().splitlines() or [done.stderr])[-1]


class Load(threading.Thread):
    """Sends lines until told to end."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.ended, self.sent = threading.Event(), 0

    def run(self):
        begin = time.monotonic()
        while not self.ended.is_set():
            due = int((time.monotonic() - begin) * RATE) - self.sent
            if due > 0:
                self.socket.sendall(LINE * due)
                self.sent += due
            time.sleep(BURST_SECONDS)
        self.socket.close()


class Server:
    def __init__(self, directory, sink):
        self.port, self.admin = free_port(), free_port()
        self.log = open(os.path.join(directory, "bbq.log"), "wb")
        self.process = subprocess.Popen(
            [BBQ, "serve", "--data", os.path.join(directory, "data"), "--listen", f"lines+tcp://127.0.0.1:{self.port}",
             "--admin", f"127.0.0.1:{self.admin}", "--sink", sink], stdout=self.log, stderr=self.log)
        subprocess.run([BBQ, "status", "--wait", "30", "--admin", f"127.0.0.1:{self.admin}"], check=True,
                       stdout=subprocess.DEVNULL)

    def status(self):
        with socket.create_connection(("127.0.0.1", self.admin)) as admin:
            admin.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b"".join(iter(lambda: admin.recv(65536), b""))
        return json.loads(answer.split(b"\r\n\r\n", 1)[1])

    def ledger(self):
        return self.status()["ledger"]

    def cpu(self):
        """Seconds, of the intake and of everything."""
        intake = everything = 0
        tasks = f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/comm") as name, open(f"{tasks}/{task}/schedstat") as stat:
                seconds = int(stat.read().split()[0]) / 1e9
                everything += seconds
                if name.read().startswith(("worker", "lane")):
                    intake += seconds
        return intake, everything


def wait(what, condition):
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > PATIENCE_SECONDS:
            sys.exit(f"{what} did not come")
        time.sleep(0.05)


def measure(server, what, seconds):
    begin, (intake, everything), received = time.monotonic(), server.cpu(), server.ledger()["received"]
    time.sleep(seconds)
    took, (intake_then, everything_then) = time.monotonic() - begin, server.cpu()
    messages = server.ledger()["received"] - received
    each = (intake_then - intake) / messages * 1e9
    print(f"{what}: {messages / took:,.0f} messages/s, intake {each:.0f} ns/message, the whole server "
          f"{(everything_then - everything) / messages * 1e9:.0f} ns/message", flush=True)
    return each


def main():
    kind, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 60
    directory = os.path.abspath(sys.argv[3] if len(sys.argv) > 3 else os.path.join(TARGET, "broker-away"))
    os.makedirs(directory)
    broker = {"nats": Nats, "kafka": Kafka}[kind](directory)
    running, server = broker.start(), None
    try:
        server = Server(directory, broker.sink)
        load = Load(server.port)
        load.start()
        wait("the first delivery", lambda: server.ledger()["delivered"] > 0)
        time.sleep(5)
        before = measure(server, "the broker is there", BEFORE_SECONDS)
        running.kill()
        running.wait()
        away = measure(server, f"the broker is away for {seconds:.0f} s", seconds)
        print(f"intake: {away / before:.2f} times the CPU of before; the problem shown: {server.status()['sinks'][0]['problem']}")
        load.ended.set()
        load.join()
        running = broker.start()
        wait("all lines", lambda: server.ledger()["received"] == load.sent)
        first = server.ledger()["delivered"]
        wait("the broker", lambda: server.ledger()["delivered"] > first)
        begin, first, (_, used) = time.monotonic(), server.ledger()["delivered"], server.cpu()
        wait("the end", lambda: server.ledger()["queued"] == 0)
        took, drained = time.monotonic() - begin, server.ledger()["delivered"] - first
        each = (server.cpu()[1] - used) / drained * 1e9
        print(f"drained {drained:,} messages in {took:.1f} s: {drained / took:,.0f} messages/s, {each:.0f} ns/message", flush=True)
        print(f"the broker's own producer, as many: {broker.own_benchmark(drained)}", flush=True)
    finally:
        for process in filter(None, [server and server.process, running]):
            process.kill()
            process.wait()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
