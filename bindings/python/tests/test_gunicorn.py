"""If this fails, gunicorn's access log does not arrive: it configures logging, and the application that it loads does so, too."""

import signal
import subprocess
import sys
import urllib.request

import pytest
from conftest import PATIENCE_SECONDS, free_port

pytest.importorskip("gunicorn", reason="gunicorn is not installed")
REQUESTS = 200

CONFIGURATION = """
bind = "127.0.0.1:{port}"
workers = 2
accesslog = "-"
logconfig_dict = {{
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {{"plain": {{"format": "%(message)s"}}}},
    "handlers": {{"bbq": {{"class": "bbq.Handler", "servers": "{address}", "formatter": "plain"}}}},
    "root": {{"level": "INFO", "handlers": []}},
    "loggers": {{
        "gunicorn.access": {{"level": "INFO", "handlers": ["bbq"], "propagate": False}},
        # A worker says that it boots, before it loads the application.
        "gunicorn.error": {{"level": "INFO", "handlers": ["bbq"], "propagate": False}},
    }},
}}

def when_ready(server):
    print("ready", flush=True)
"""

APPLICATION = """
import logging.config

# As Django does with its LOGGING.
logging.config.dictConfig(
    {"version": 1, "disable_existing_loggers": False, "handlers": {"null": {"class": "logging.NullHandler"}}, "loggers": {}}
)

def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""


def get(url):
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as response:
        return response.read()


def test_each_request_is_logged(server, tmp_path):
    port = free_port()
    (tmp_path / "application.py").write_text(APPLICATION)
    (tmp_path / "configuration.py").write_text(CONFIGURATION.format(port=port, address=server.address))
    command = [sys.executable, "-m", "gunicorn", "-c", tmp_path / "configuration.py", "application:app"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as gunicorn:
        try:
            assert gunicorn.stdout.readline().strip() == "ready"
            for number in range(REQUESTS):
                assert get(f"http://127.0.0.1:{port}/{number}") == b"ok"
        finally:
            gunicorn.send_signal(signal.SIGTERM)
            gunicorn.wait(PATIENCE_SECONDS)
    lines = [line for line in server.lines() if "GET /" in line]
    missing = [number for number in range(REQUESTS) if not any(f"GET /{number} " in line for line in lines)]
    assert (len(lines), missing) == (REQUESTS, [])
