"""If this fails, Prometheus does not understand /metrics, or it shows other numbers than the status."""

import json
import socket
import time
import urllib.request

import pytest
from conftest import PATIENCE_SECONDS, free_port

parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason="prometheus-client is not installed")
text_parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is not installed")

MESSAGES = 1000


def get(server, path, accept="*/*"):
    request = urllib.request.Request(f"http://{server.admin}{path}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.headers["Content-Type"], response.read().decode()


def test_a_strict_parser_reads_the_numbers_of_the_status(server):
    port, address = free_port(), "127.0.0.1"
    server.kill()
    # A name with what has to be escaped.
    server.more = [f'lines+tcp://{address}:{port}?name=the "lines" \\ of all&message_bytes_max=100&messages_per_second_per_address_max=1000000']
    server.start()
    with socket.create_connection((address, port)) as connection:
        connection.sendall(b"".join(b"message %d\n" % number for number in range(MESSAGES)) + b"x" * 200 + b"\n")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (ledger := json.loads(get(server, "/status")[1])["ledger"])["delivered"] < MESSAGES or ledger["queued"]:
        assert time.monotonic() < deadline, ledger
    content_type, text = get(server, "/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    status = json.loads(get(server, "/status")[1])

    def values(family):
        return {tuple(sorted(sample.labels.items())): sample.value for sample in families[family].samples}

    def counted(family):
        return {labels: value for labels, value in values(family).items() if value}

    # Prometheus sees no increase in a counter that begins above 0.
    assert values("bbq_dropped_messages")[(("reason", "full"),)] == 0
    assert values("bbq_received_messages") == {(): MESSAGES + 1}
    assert values("bbq_delivered_messages") == {(): MESSAGES}
    assert counted("bbq_dropped_messages") == {(("reason", "oversize"),): 1}
    names = [listener["name"] for listener in status["listeners"]]
    assert names[1] == 'the "lines" \\ of all'
    received = {(("listener", listener["name"]),): listener["ledger"]["received"] for listener in status["listeners"]}
    assert values("bbq_listener_received_messages") == received
    assert counted("bbq_listener_dropped_messages") == {(("listener", names[1]), ("reason", "oversize")): 1}
    assert values("bbq_sink_delivered_messages") == {(("sink", sink["name"]),): sink["delivered"] for sink in status["sinks"]}
    assert counted("bbq_lane_condition") == {(("condition", "writing"), ("lane", "0")): 1}
    assert values("bbq_ready") == {(): 1} and values("bbq_sink_lag_seconds") == {(("sink", status["sinks"][0]["name"]),): 0}
    assert values("process_open_fds")[()] > 5 and values("process_resident_memory_bytes")[()] > 1e6
    syncs = {sample.name: sample.value for sample in families["bbq_lane_sync_seconds"].samples}
    assert syncs["bbq_lane_sync_seconds_count"] == syncs["bbq_lane_sync_seconds_bucket"] > 0 < syncs["bbq_lane_sync_seconds_sum"]
    # Each has a meaning, and counters say so.
    assert all(family.documentation for family in families.values())
    assert all(family.type in ("counter", "gauge", "histogram", "summary") for family in families.values())
    # Who does not ask for OpenMetrics gets the older format, with the same families.
    content_type, text = get(server, "/metrics")
    assert content_type.startswith("text/plain; version=0.0.4")
    older = {family.name: family for family in text_parser.text_string_to_metric_families(text)}
    assert older.keys() == families.keys()
    for name, family in older.items():
        assert (family.type, family.documentation) == (families[name].type, families[name].documentation), name
        assert [sample[:2] for sample in family.samples] == [sample[:2] for sample in families[name].samples], name
