#!/usr/bin/env python3
"""Measures the examples of bbq-listen beside nginx and Unbound: server CPU per request, in one run. See bench/README.md.

Exit codes: 0 every mark was measured and met, 1 not so, 2 wrong usage.
"""

import argparse
import json
import re
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import marks
from harness import machine, report
from harness.peers import DnsCache, Example, Nginx, Unbound, program, zone_names
from harness.process import Children

REPOSITORY = Path(__file__).resolve().parents[1]
EXAMPLES = REPOSITORY / "target/release/examples"
WORKERS = 2
CLIENT_SECONDS_EXTRA = 30
WRK_CONNECTIONS = 64
DISTRIBUTIONS = ("reuseport", "shared")


@dataclass
class Row:
    name: str
    make_server: object  # Children -> Server
    needs: tuple = ()  # programs


@dataclass
class Workload:
    title: str
    rows: list
    marks: list
    run_client: object  # (Children, Server, seconds) -> requests answered


def wrk(*options):
    def run(children, server, seconds):
        argv = [program("wrk"), "-t2", f"-c{WRK_CONNECTIONS}", f"-d{seconds}s", *options, f"http://127.0.0.1:{server.port}/"]
        said = children.run("wrk", argv, seconds + CLIENT_SECONDS_EXTRA).stdout()
        if "Non-2xx" in said or "Socket errors" in said:
            raise marks.Failed(f"wrk: {said.strip()}")
        return int(re.search(r"(\d+) requests in", said)[1])

    return run


def dnsperf(children, server, seconds):
    queries = Path(children.directory, "queries")
    queries.write_text("".join(f"{name} A\n" for name in zone_names()))
    argv = [
        program("dnsperf"), "-s", "127.0.0.1", "-p", server.port, "-d", queries, "-l", seconds, "-c", 64, "-T", 2,
        "-q", 512,
    ]
    said = children.run("dnsperf", argv, seconds + CLIENT_SECONDS_EXTRA).stdout()
    if "NOERROR" not in said or "100.00%" not in said.partition("Response codes:")[2].partition("\n")[0]:
        raise marks.Failed(f"dnsperf: {said.strip()}")
    return int(re.search(r"Queries completed:\s+(\d+)", said)[1])


def workloads(distributions, directory, upstream_port):
    def example(name, distribution, *more):
        return lambda children: Example(children, WORKERS, directory, name, distribution, *more)

    def rows(name, peers, *more):
        ours = [Row(f"{name} {word}", example(name, word, *more), ("wrk",)) for word in distributions]
        return ours + peers

    def nginx(upstream=None):
        return [
            Row("nginx reuseport", lambda children: Nginx(children, WORKERS, "reuseport", upstream=upstream), ("nginx", "wrk")),
            Row("nginx accept_mutex", lambda children: Nginx(children, WORKERS, events="accept_mutex on;", upstream=upstream), ("nginx", "wrk")),
            Row("nginx plain", lambda children: Nginx(children, WORKERS, events="accept_mutex off;", upstream=upstream), ("nginx", "wrk")),
        ]

    def beside(name, words, floor, limit):
        return [report_mark(f"{name} {word}", limit, floor) for word in words]

    web = lambda client, title, limit: Workload(
        title, rows("http_ok", nginx()), beside("http_ok", distributions[:1], "nginx reuseport", limit), client
    )
    return {
        "http": web(wrk(), f"{WRK_CONNECTIONS} connections that stay open, OK", 0.8),
        "churn": web(wrk("-H", "Connection: close"), "a connection for each request, OK", 1.0),
        "proxy": Workload(
            f"{WRK_CONNECTIONS} connections that stay open, carried on to the same http_ok",
            rows("stream_proxy", nginx(upstream_port), "--upstream", f"127.0.0.1:{upstream_port}"),
            beside("stream_proxy", distributions[:1], "nginx reuseport", 0.8),
            wrk(),
        ),
        "dns": Workload(
            f"UDP, {len(zone_names())} names, 64 sockets",
            [
                Row(f"dns_cache {word}", lambda children, word=word: DnsCache(children, WORKERS, directory, word), ("dnsperf",))
                for word in distributions
            ]
            + [
                Row(f"unbound so-reuseport {word}", lambda children, word=word: Unbound(children, WORKERS, word), ("unbound", "dnsperf"))
                for word in ("yes", "no")
            ],
            beside("dns_cache", distributions[:1], "unbound so-reuseport yes", 0.6),
            dnsperf,
        ),
    }


def report_mark(row, limit, floor):
    return marks.workloads.Mark(row, limit, floor=floor)


def sample(row, run_client, children, seconds):
    server = row.make_server(children)
    server.start()
    before = server.cpu_seconds()
    requests = run_client(children, server, seconds)
    cpu = server.cpu_seconds() - before
    return {
        "server_cpu_us": cpu * 1e6 / requests,
        "per_second": requests / seconds,
        "requests": requests,
        "workers": server.stop(),
    }


def missing(row, directory):
    lacking = [name for name in row.needs if program(name) is None]
    return f"{', '.join(lacking)} not installed, see bench/peers/install" if lacking else ""


def measure(name, workload, rounds, seconds, scratch):
    rows = [row for row in workload.rows if not missing(row, scratch)]
    results, failures = [], []
    for index in range(rounds):
        results.append({})
        for row in rows:
            marks.progress(f"{name} {index + 1}/{rounds}: {row.name}")
            directory = Path(tempfile.mkdtemp(prefix="sample-", dir=scratch))
            children = Children(directory)
            try:
                results[-1][row.name] = sample(row, workload.run_client, children, seconds)
            except marks.BREAKDOWNS as failed:
                results[-1][row.name] = None
                failures.append(f"{row.name}, round {index + 1}: {failed or type(failed).__name__}")
            finally:
                children.end_all()
                shutil.rmtree(directory, ignore_errors=True)
    marks.progress("")
    return results, failures


def table(name, workload, results, floor):
    lines = ["", f"{name}: {workload.title}"]
    for row in workload.rows:
        samples = [each[row.name] for each in results if each.get(row.name)]
        if not samples:
            lines.append(f"  {row.name:28} {missing(row, None) or 'no sample'}")
            continue
        cpu = report.cell(report.spread([each["server_cpu_us"] for each in samples]), digits=2)
        rate = statistics.median(each["per_second"] for each in samples) / 1000
        times = report.cell(report.spread(report.ratios(results, row.name, floor)), digits=2)
        lines.append(f"  {row.name:28} {cpu:20} us of server CPU per request, {rate:7.1f} k/s, {times} times {floor}")
        lines += [f"      {line}" for line in samples[-1]["workers"]]
    return lines


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=marks.between(1, 50), default=5, help="every row runs once a round (default 5)")
    parser.add_argument("--seconds", type=marks.between(1, 60), default=3, help="how long a sample lasts (default 3)")
    parser.add_argument("--only", action="append", choices=("http", "churn", "proxy", "dns"), help="may be repeated")
    parser.add_argument("--distribution", action="append", help=f"instead of {', '.join(DISTRIBUTIONS)}; the first is held to the marks")
    parser.add_argument("--examples", type=Path, default=EXAMPLES, help="where the examples are")
    parser.add_argument("--out", type=Path, help="write every sample to this JSON file")
    parser.add_argument("--deadline", type=marks.between(10, 7200), default=1800, help="give up after so many seconds")
    return parser.parse_args()


def run(options, scratch):
    about = machine.describe(scratch, REPOSITORY)
    print("\n".join(f"{name}: {value}" for name, value in about.items()))
    document = {"machine": about, "rounds": options.rounds, "seconds": options.seconds, "workloads": {}}
    verdicts = []
    upstream_children = Children(scratch)
    upstream = Example(upstream_children, WORKERS, options.examples.resolve(), "http_ok", "reuseport")
    try:
        upstream.start()
        chosen = workloads(options.distribution or DISTRIBUTIONS, options.examples.resolve(), upstream.port)
        for name in options.only or chosen:
            workload = chosen[name]
            results, failures = measure(name, workload, options.rounds, options.seconds, scratch)
            judged = [report.judge(mark, results) for mark in workload.marks]
            verdicts += [mark["verdict"] for mark in judged]
            print("\n".join(table(name, workload, results, workload.marks[0].floor)))
            print("\n".join([f"  failed: {failure}" for failure in failures] + [report.mark_line(mark) for mark in judged]))
            document["workloads"][name] = {"marks": judged, "failures": failures, "rounds": results}
            if options.out:
                options.out.write_text(json.dumps(document, indent=1) + "\n")
    finally:
        upstream_children.end_all()
    return all(verdict == report.MET for verdict in verdicts)


def main():
    options = arguments()
    marks.stop_on_signals(options.deadline)
    scratch = Path(tempfile.mkdtemp(prefix="bbq-servers-"))
    try:
        return 0 if run(options, scratch) else 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
