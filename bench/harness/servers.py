"""The servers under measurement. Each starts ready to be pushed to, and says what it has cost once all is delivered.

    start()                  returns when it listens; `port` is where
    cost(sent, output_bytes) waits until everything is delivered, ends it, returns its Cost

`output` is the file to be checked afterwards, None where nothing is stored.
"""

import json
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from .process import Failed, free_port, wait_until

READY_SECONDS = 10
STALL_SECONDS = 10  # without a byte of progress: messages are lost, or it hangs
OUTPUT_POLL_SECONDS = 0.01
STATUS_POLL_SECONDS = 0.1  # a status request costs the server CPU as well


@dataclass
class Cost:
    cpu_seconds: float
    delivered_at: float  # time.monotonic()
    by_thread: dict = field(default_factory=dict)
    notes: dict = field(default_factory=dict)


class Floor:
    """A program of bench/floor: says "ready", and its totals and CPU time in JSON when it ends."""

    def __init__(self, children, name, argv, ends_by_itself, output=None):
        self.children, self.name, self.output = children, name, output
        self.ends_by_itself = ends_by_itself
        self.port = free_port()
        self.argv = [str(word).replace("PORT", str(self.port)) for word in argv]

    def start(self):
        self.child = self.children.start(self.name, self.argv)
        self.child.wait_ready_line(READY_SECONDS)

    def cost(self, sent, output_bytes):
        code = self.child.wait_exit(STALL_SECONDS) if self.ends_by_itself else self.child.terminate()
        delivered_at = time.monotonic()
        if code != 0:
            raise Failed(f"{self.name} failed: {self.child.complaint()}")
        totals = json.loads(self.child.stdout().splitlines()[-1])
        if totals.get("messages", sent) != sent or totals["bytes"] != output_bytes:
            raise Failed(f"{self.name} received {totals}, sent were {sent} messages, {output_bytes} bytes")
        return Cost((totals["cpu_user_us"] + totals["cpu_system_us"]) / 1e6, delivered_at, notes=totals)


class FileServer:
    """A server that writes to a file and runs until it is told to end. CPU: the difference around the work."""

    def __init__(self, children, directory):
        self.children = children
        self.directory = Path(directory)
        self.output = self.directory / "output.log"
        self.port = free_port()

    def start(self):
        self.child = self.children.start(self.name, self.command())
        self.wait_ready()
        self.cpu_at_ready = self.child.cpu_seconds()

    def wait_ready(self):
        def accepts():
            if not self.child.running():
                raise Failed(f"{self.name} ended before it was ready: {self.child.complaint()}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return True
            except OSError:
                return False

        wait_until(accepts, READY_SECONDS, f"{self.name} accepting")

    def output_bytes(self):
        try:
            return self.output.stat().st_size
        except FileNotFoundError:
            return 0

    def cost(self, sent, output_bytes):
        self.wait_output(output_bytes)
        notes = self.wait_settled(sent)
        delivered_at = time.monotonic()
        cpu_seconds = self.child.cpu_seconds() - self.cpu_at_ready
        by_thread = self.child.cpu_by_thread()
        code = self.child.terminate()
        if code != 0:
            raise Failed(f"{self.name} did not end well, exit code {code}: {self.child.complaint()}")
        notes["cpu_seconds_from_start_to_exit"] = self.child.cpu_at_exit
        return Cost(cpu_seconds, delivered_at, by_thread, notes)

    def wait_output(self, expected):
        size, changed = self.output_bytes(), time.monotonic()
        while size < expected:
            if not self.child.running():
                raise Failed(f"{self.name} died: {self.child.complaint()}")
            if time.monotonic() - changed > STALL_SECONDS:
                raise Failed(f"{self.name} stopped at {size} of {expected} bytes of output. {self.situation()}")
            time.sleep(OUTPUT_POLL_SECONDS)
            now = self.output_bytes()
            if now != size:
                size, changed = now, time.monotonic()

    def wait_settled(self, _sent):
        return {}

    def situation(self):
        return ""


class Bbq(FileServer):
    """bbq with its spool and one file sink."""

    name = "bbq"

    def __init__(self, children, directory, program, protocol, workers):
        super().__init__(children, directory)
        self.program, self.protocol, self.workers = program, protocol, workers
        self.admin = f"127.0.0.1:{free_port()}"

    def command(self):
        return [
            self.program, "serve", "--listen", f"{self.protocol}+tcp://127.0.0.1:{self.port}",
            "--sink", f"file:{self.output}", "--data", self.directory / "data",
            "--workers", self.workers, "--admin", self.admin,
        ]

    def wait_ready(self):
        waited = self.status("--wait", str(READY_SECONDS))
        if waited.returncode != 0:
            raise Failed(f"bbq was not ready: {waited.stderr.strip()} / {self.child.complaint()}")

    def status(self, *options):
        return subprocess.run(
            [self.program, "status", "--admin", self.admin, *options],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=READY_SECONDS + 5,
        )

    def ledger(self):
        answer = self.status("--json")
        if answer.returncode != 0:
            raise Failed(f"bbq status: {answer.stderr.strip()}")
        self.last_status = json.loads(answer.stdout)
        return self.last_status["ledger"]

    def wait_settled(self, sent):
        def settled():
            ledger = self.ledger()
            return ledger["received"] == sent and ledger["queued"] == 0 and ledger

        try:
            ledger = wait_until(settled, STALL_SECONDS, "the ledger settled", STATUS_POLL_SECONDS)
        except Failed as failed:
            raise Failed(f"{failed}; sent {sent}. {self.situation()}") from None
        if any(ledger["dropped"].values()) or ledger["delivered"] != sent:
            raise Failed(f"sent {sent}. {self.situation()}")
        listeners = self.last_status.get("listeners", [])
        return {"ledger": ledger, "distribution": [each.get("distribution") for each in listeners]}

    def situation(self):
        return f"ledger {json.dumps(self.ledger())}"


class SyslogNg(FileServer):
    """syslog-ng, newline TCP to a file, lines unparsed; flow control, so that it slows down and does not drop."""

    name = "syslog-ng"

    @staticmethod
    def program():
        return shutil.which("syslog-ng") or shutil.which("syslog-ng", path="/usr/sbin")

    def command(self):
        configuration = self.directory / "syslog-ng.conf"
        configuration.write_text(
            f"""@version: 3.35
options {{ stats-freq(0); use-dns(no); log-fifo-size(200000); }};
source lines {{
    network(ip("127.0.0.1") port({self.port}) transport("tcp") flags(no-parse)
            max-connections(64) log-iw-size(64000) log-fetch-limit(1000));
}};
destination output {{ file("{self.output}" template("$MSG\\n") flush-lines(1000)); }};
log {{ source(lines); destination(output); flags(flow-control); }};
"""
        )
        own = {word: self.directory / f"syslog-ng.{word}" for word in ("persist", "pid", "ctl")}
        return [
            self.program(), "--foreground", "--no-caps", "--cfgfile", configuration, "--persist-file", own["persist"],
            "--pidfile", own["pid"], "--control", own["ctl"],
        ]


class Rsyslog(FileServer):
    """rsyslog, imptcp to a file, lines as they came; its queue waits when full, so that it does not drop."""

    name = "rsyslog"
    unpacked = Path(__file__).resolve().parents[2] / "target/bench/peers"  # by bench/peers/install

    @classmethod
    def program(cls):
        unpacked = cls.unpacked / "usr/sbin/rsyslogd"
        installed = shutil.which("rsyslogd") or shutil.which("rsyslogd", path="/usr/sbin")
        return installed or (str(unpacked) if unpacked.exists() else None)

    def command(self):
        configuration = self.directory / "rsyslog.conf"
        configuration.write_text(
            f"""global(workDirectory="{self.directory}")
main_queue(queue.type="FixedArray" queue.size="200000" queue.dequeueBatchSize="1024" queue.timeoutEnqueue="600000")
module(load="imptcp")
template(name="line" type="string" string="%rawmsg%\\n")
input(type="imptcp" address="127.0.0.1" port="{self.port}" supportOctetCountedFraming="off")
action(type="omfile" file="{self.output}" template="line" ioBufferSize="64k")
"""
        )
        modules = []
        if self.program().startswith(str(self.unpacked)):
            modules = ["-M", next(self.unpacked.glob("usr/lib/*/rsyslog"))]
        return [self.program(), "-n", "-f", configuration, "-i", self.directory / "rsyslog.pid", *modules]
