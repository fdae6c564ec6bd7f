"""What a figure depends on and a reader cannot see: the machine, its disk, and what was measured."""

import os
import platform
import statistics
import subprocess
import time
from pathlib import Path

SYNC_PROBES = 200
SYNC_PROBE_BYTES = 4096
IN_MEMORY = ("tmpfs", "ramfs")


def describe(directory, repository):
    filesystem = output_of(["df", "--output=fstype,source", str(directory)]).splitlines()
    commit = output_of(["git", "-C", str(repository), "describe", "--always", "--dirty", "--exclude", "*"])
    return {
        "kernel": platform.release(),
        "cores": len(os.sched_getaffinity(0)),
        "cpu": cpu_model(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "filesystem": " ".join(filesystem[-1].split()) if filesystem else "unknown",
        "fdatasync_4k_append_us": sync_microseconds(directory),
        "load_before": os.getloadavg()[0],
        "commit": commit or "unknown",
        "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


def in_memory(machine):
    return machine["filesystem"].split()[0] in IN_MEMORY


def output_of(argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    return done.stdout.strip() if done.returncode == 0 else ""


def cpu_model():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def sync_microseconds(directory):
    """Median of an appended 4 KiB and fdatasync: what the disk, or what claims to be one, takes to be sure."""
    path = Path(directory, "sync-probe")
    took = []
    with open(path, "wb", buffering=0) as file:
        for _ in range(SYNC_PROBES):
            began = time.perf_counter()
            file.write(bytes(SYNC_PROBE_BYTES))
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1e6)
    path.unlink()
    return round(statistics.median(took))
