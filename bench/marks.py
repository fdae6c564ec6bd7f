#!/usr/bin/env python3
"""Measures bbq against its marks, beside bare C and the peers, in one run. See bench/README.md.

Exit codes: 0 every mark was measured and met, 1 not so, 2 wrong usage.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import machine, report, workloads
from harness.process import Children, Failed

REPOSITORY = Path(__file__).resolve().parents[1]
FREE_BYTES_MIN = 8 * 2**30  # a sample keeps each message twice, spool and output, and is removed before the next

# What a sample may die of: counted as failed and reported, and the run goes on. The others are our own mistakes: a
# server that vanished, an answer that is not the JSON it should be, a status command that hangs.
BREAKDOWNS = (Failed, OSError, ValueError, LookupError, subprocess.SubprocessError)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=between(1, 50), default=5, help="every row runs once a round (default 5)")
    parser.add_argument("--seconds", type=between(1, 20), default=4, help="about how long a sample lasts (default 4)")
    parser.add_argument("--bbq", type=Path, default=REPOSITORY / "target/release/bbq", help="the program to measure")
    parser.add_argument("--only", action="append", choices=workloads.ALL, help="this workload; may be repeated")
    parser.add_argument("--directory", type=Path, default=REPOSITORY / "target/bench", help="on the disk to measure on")
    parser.add_argument("--out", type=Path, help="write every sample to this JSON file")
    parser.add_argument("--deadline", type=between(10, 7200), default=1800, help="give up after so many seconds")
    return parser.parse_args()


def between(least, most):
    def number(text):
        if text.isdigit() and least <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"give a whole number from {least} to {most}")

    return number


def stop_on_signals(deadline):
    """Any of these ends the run the way an error does: through every `finally`, so that no child outlives us."""

    def stop(number, _frame):
        raise SystemExit(f"marks: stopped by {signal.Signals(number).name}")

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, stop)
    signal.alarm(deadline)


def measure(workload, rounds, scratch):
    """Runs the rows in turn, A B A B, and returns a {row name: sample or None} per round, and what failed."""
    rows = [row for row in workload.rows if not row.missing]
    results, failures = [], []
    for index in range(rounds):
        results.append({})
        for row in rows:
            progress(f"{workload.name} {index + 1}/{rounds}: {row.name}")
            directory = Path(tempfile.mkdtemp(prefix="sample-", dir=scratch))
            children = Children(directory)
            try:
                results[-1][row.name] = workloads.sample(row, children)
            except BREAKDOWNS as failed:
                results[-1][row.name] = None
                failures.append(f"{row.name}, round {index + 1}: {failed or type(failed).__name__}")
            finally:
                children.end_all()
                shutil.rmtree(directory, ignore_errors=True)
    progress("")
    return results, failures


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def run(options, scratch):
    about = machine.describe(scratch, REPOSITORY)
    if machine.in_memory(about):
        raise SystemExit(f"marks: {options.directory} is in memory; give --directory on a disk")
    print("\n".join(f"{name}: {value}" for name, value in about.items()))

    settings = workloads.Settings(options.seconds, options.bbq.resolve(), scratch)
    document = {"machine": about, "rounds": options.rounds, "seconds": options.seconds, "workloads": []}
    verdicts = []
    for name in options.only or workloads.ALL:
        workload = workloads.ALL[name](settings)
        skipped = {row.name: row.missing for row in workload.rows if row.missing}
        results, failures = measure(workload, options.rounds, scratch)
        marks = [report.judge(mark, results) for mark in workload.marks]
        verdicts += [mark["verdict"] for mark in marks]
        print("\n".join(report.table(workload, results, skipped)))
        print("\n".join([f"  failed: {failure}" for failure in failures] + [report.mark_line(mark) for mark in marks]))
        document["workloads"].append(
            {"name": name, "title": workload.title, "marks": marks, "failures": failures, "skipped": skipped,
             "summary": {row.name: report.summary(results, row.name) for row in workload.rows if not row.missing},
             "rounds": results}
        )
        if options.out:
            options.out.write_text(json.dumps(document, indent=1) + "\n")
    return all(verdict == report.MET for verdict in verdicts)


def main():
    options = arguments()
    stop_on_signals(options.deadline)
    if subprocess.run(["make", "--silent", "-C", REPOSITORY / "bench/floor"], timeout=120).returncode != 0:
        raise SystemExit("marks: bench/floor did not compile; it needs make, a C and a C++ compiler, and x86-64")
    options.directory.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(options.directory).free < FREE_BYTES_MIN:
        raise SystemExit(f"marks: less than {FREE_BYTES_MIN >> 30} GiB free in {options.directory}")
    scratch = Path(tempfile.mkdtemp(prefix="marks-", dir=options.directory))
    try:
        return 0 if run(options, scratch) else 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
