"""The examples of bbq-listen and the servers they are measured beside: each listens at `port`, runs until it is ended.

All are set up for the least they can do: no log, nothing looked up, answers from memory.
"""

import os
import shutil
import socket
from pathlib import Path

from .process import TICKS_PER_SECOND, Failed, free_port, wait_until

READY_SECONDS = 10
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
ZONE_NAMES = 1000  # small enough that no cache decides


def program(name):
    return shutil.which(name) or shutil.which(name, path=SYSTEM_PATH)


def zone_names():
    return [f"name-{index}.bench.example" for index in range(ZONE_NAMES)]


def zone_address(index):
    return f"192.0.{index // 250}.{index % 250 + 1}"


class Server:
    """One server of one sample, with all its processes."""

    name = ""
    transport = "tcp"

    def __init__(self, children, workers):
        self.children, self.workers = children, workers
        self.directory = children.directory
        self.port = free_port()

    def start(self):
        self.child = self.children.start(self.name, self.command())
        wait_until(self.listens, READY_SECONDS, f"{self.name} listening")

    def listens(self):
        if not self.child.running():
            raise Failed(f"{self.name} ended before it was ready: {self.child.complaint()}")
        if self.transport == "udp":
            entry = f"0100007F:{self.port:04X} "
            return entry in Path("/proc/net/udp").read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        except OSError:
            return False

    def cpu_seconds(self):
        """Of the process and its children: nginx has one per worker."""
        pids = [self.child.pid]
        for pid in pids:
            pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        ticks = 0
        for pid in pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / TICKS_PER_SECOND

    def stop(self):
        """What it says at its end."""
        code = self.child.terminate()
        if code != 0:
            raise Failed(f"{self.name} ended with exit code {code}: {self.child.complaint()}")
        return [line for line in self.child.stdout().splitlines() if line.startswith("worker ")]


class Example(Server):
    """An example of bbq-listen."""

    def __init__(self, children, workers, directory, name, distribution, *more):
        super().__init__(children, workers)
        self.program, self.name, self.distribution, self.more = directory / name, name, distribution, more

    def command(self):
        return [
            self.program, "--listen", f"{self.transport}://127.0.0.1:{self.port}", "--workers", self.workers,
            "--distribution", self.distribution, *self.more,
        ]

    def listens(self):
        if not self.child.running():
            raise Failed(f"{self.name} ended before it was ready: {self.child.complaint()}")
        return "listening on " in self.child.stdout()


class DnsCache(Example):
    transport = "udp"

    def __init__(self, children, workers, directory, distribution):
        zone = Path(children.directory, "bench.zone")
        lines = [f"{name}. 3600 IN A {zone_address(index)}" for index, name in enumerate(zone_names())]
        zone.write_text("\n".join(lines) + "\n")
        super().__init__(children, workers, directory, "dns_cache", distribution, "--zone", zone)


class Nginx(Server):
    """nginx, as a web server that says OK or as a stream proxy."""

    name = "nginx"

    def __init__(self, children, workers, listen="", events="", upstream=None):
        super().__init__(children, workers)
        self.listen, self.events, self.upstream = listen, events, upstream

    def command(self):
        configuration = Path(self.directory, "nginx.conf")
        paths = "".join(
            f"{kind}_temp_path {self.directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        module = next(Path("/usr/lib/nginx/modules").glob("ngx_stream_module.so"), None)
        user = "user root;" if os.geteuid() == 0 else ""
        if self.upstream:
            load = f"load_module {module};" if module else ""
            body = f"stream {{ server {{ listen 127.0.0.1:{self.port} {self.listen} backlog=4096;"
            body += f" proxy_pass 127.0.0.1:{self.upstream}; tcp_nodelay on; }} }}"
        else:
            load = ""
            body = f"http {{ access_log off; keepalive_requests 1000000000; default_type text/plain; {paths}"
            body += f" server {{ listen 127.0.0.1:{self.port} {self.listen} backlog=4096;"
            body += ' location / { return 200 "OK"; } } }'
        configuration.write_text(
            f"{load}\n{user}\nworker_processes {self.workers};\ndaemon off;\npid {self.directory}/nginx.pid;\n"
            f"error_log {self.directory}/nginx.log warn;\nevents {{ worker_connections 4096; {self.events} }}\n{body}\n"
        )
        return [program("nginx"), "-p", self.directory, "-c", configuration]


class Unbound(Server):
    """Unbound with every answer as local data, which it has without any lookup."""

    name = "unbound"
    transport = "udp"

    def __init__(self, children, workers, so_reuseport):
        super().__init__(children, workers)
        self.so_reuseport = so_reuseport

    def command(self):
        configuration = Path(self.directory, "unbound.conf")
        data = "\n".join(
            f'  local-data: "{name}. 3600 IN A {zone_address(index)}"' for index, name in enumerate(zone_names())
        )
        configuration.write_text(
            f"""server:
  num-threads: {self.workers}
  interface: 127.0.0.1
  port: {self.port}
  so-reuseport: {self.so_reuseport}
  do-daemonize: no
  use-syslog: no
  logfile: "{self.directory}/unbound.log"
  verbosity: 0
  statistics-interval: 0
  chroot: ""
  username: ""
  directory: "{self.directory}"
  pidfile: "{self.directory}/unbound.pid"
  module-config: "iterator"
  do-tcp: no
  access-control: 127.0.0.0/8 allow
  local-zone: "bench.example." static
{data}
remote-control:
  control-enable: no
"""
        )
        return [program("unbound"), "-d", "-p", "-c", configuration]
