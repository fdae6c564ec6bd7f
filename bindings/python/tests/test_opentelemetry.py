"""If this fails, what OpenTelemetry's SDK was told is stored is missing, or it gives up what it should send again."""

import json
import threading
import urllib.request

import pytest
from conftest import PATIENCE_SECONDS, free_port

_logs = pytest.importorskip("opentelemetry.sdk._logs", reason="opentelemetry-sdk is not installed")
export = pytest.importorskip("opentelemetry.sdk._logs.export")
http = pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
http_logs = pytest.importorskip("opentelemetry.exporter.otlp.proto.http._log_exporter")
grpc_logs = pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc._log_exporter")
LogRecord = pytest.importorskip("opentelemetry._logs").LogRecord
Resource = pytest.importorskip("opentelemetry.sdk.resources").Resource

MESSAGES = 100_000
KILLS = 3
# Parts of them: the server is killed in the middle of each but the last.
PART = MESSAGES // (KILLS + 1)
BATCH = 500


class Noting:
    """An exporter that notes what it was told is stored."""

    def __init__(self, exporter):
        self.exporter = exporter
        self.stored = set()
        self.changed = threading.Condition()

    def export(self, batch):
        result = self.exporter.export(batch)
        if result is export.LogRecordExportResult.SUCCESS:
            with self.changed:
                self.stored.update(record.log_record.body for record in batch)
                self.changed.notify_all()
        return result

    def wait_stored(self, messages):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.stored) >= messages, PATIENCE_SECONDS), len(self.stored)

    def force_flush(self, timeout_millis=0):
        return True

    def shutdown(self):
        self.exporter.shutdown()


def by_http(port, compression):
    return http_logs.OTLPLogExporter(f"http://127.0.0.1:{port}/v1/logs", compression=compression, timeout=PATIENCE_SECONDS)


EXPORTERS = {
    "http": lambda port: by_http(port, http.Compression.NoCompression),
    "http-gzip": lambda port: by_http(port, http.Compression.Gzip),
    "grpc": lambda port: grpc_logs.OTLPLogExporter(f"127.0.0.1:{port}", insecure=True, timeout=PATIENCE_SECONDS),
}


@pytest.mark.parametrize("name", EXPORTERS)
def test_nothing_that_was_told_is_stored_is_missing(server, name):
    port = free_port()
    server.kill()
    server.more = [f"otlp+tcp://127.0.0.1:{port}"]
    server.start()
    noting = Noting(EXPORTERS[name](port))
    provider = _logs.LoggerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_log_record_processor(
        export.BatchLogRecordProcessor(noting, max_queue_size=MESSAGES, max_export_batch_size=BATCH, schedule_delay_millis=10)
    )
    logger = provider.get_logger("orders")

    def emit(part):
        for number in range(PART * part, PART * (part + 1)):
            logger.emit(LogRecord(body=f"message {number}"))

    emit(0)
    for kill in range(1, KILLS + 1):
        noting.wait_stored(PART * kill - PART // 2)
        server.kill()
        # The application goes on while the server is away.
        emit(kill)
        server.start()
    noting.wait_stored(MESSAGES)
    provider.shutdown()
    lines = server.lines()
    missing = noting.stored - set(lines)
    assert not missing, f"{len(missing)} of {len(noting.stored)}"
    # A request whose answer was lost is sent again, once for each kill at most.
    assert len(lines) <= MESSAGES + KILLS * BATCH


def test_a_body_that_is_no_text_is_shown_in_json(server):
    port = free_port()
    server.kill()
    server.more = [f"http+tcp://127.0.0.1:{port}"]
    server.start()
    provider = _logs.LoggerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_log_record_processor(export.SimpleLogRecordProcessor(by_http(port, http.Compression.NoCompression)))
    body = {"order": 4711, "paid": True, "items": ["tea", 2.5]}
    provider.get_logger("orders", "2").emit(LogRecord(body=body, severity_text="WARN", attributes={"region": "eu"}))
    provider.shutdown()
    with urllib.request.urlopen(f"http://{server.admin}/status", timeout=PATIENCE_SECONDS) as answer:
        assert json.load(answer)["ledger"]["received"] == 1
    lines = server.lines()
    assert [json.loads(line) for line in lines] == [body]
