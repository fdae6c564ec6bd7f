"""If this fails, a program in Python sends in the clear, or not at all, where it should send by TLS."""

import asyncio
import logging
import ssl
import subprocess
import threading
from urllib.parse import urlsplit

import pytest

import bbq


class Authority:
    """A CA, with the certificate of a server for 127.0.0.1, and that of a client."""

    def __init__(self, directory):
        self.directory = directory
        self.ca = directory / "ca.pem"
        self.openssl("req", "-x509", "-subj", "/CN=the CA", *self.new_key("ca"), "-out", self.ca)
        self.server = self.issue("server", "subjectAltName=IP:127.0.0.1")
        self.client = self.issue("client", "subjectAltName=DNS:client")

    def issue(self, name, extension):
        request, certificate, extensions = (self.directory / f"{name}.{end}" for end in ("csr", "pem", "ext"))
        extensions.write_text(extension)
        self.openssl("req", "-new", "-subj", f"/CN={name}", *self.new_key(name), "-out", request)
        signing = ["-CA", self.ca, "-CAkey", self.directory / "ca.key", "-CAcreateserial", "-extfile", extensions]
        self.openssl("x509", "-req", "-in", request, *signing, "-out", certificate)
        return certificate, self.directory / f"{name}.key"

    def new_key(self, name):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.directory / f"{name}.key"]

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def tls_in_front_of(authority):
    """Ends TLS in front of a server that has none, and demands a certificate of its clients."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def copy(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    def start(address):
        to = urlsplit(address)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.server)
        context.load_verify_locations(authority.ca)
        context.verify_mode = ssl.CERT_REQUIRED

        async def serve(reader, writer):
            far_reader, far_writer = await asyncio.open_connection(to.hostname, to.port)
            await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer), return_exceptions=True)

        starting = asyncio.run_coroutine_threadsafe(asyncio.start_server(serve, "127.0.0.1", 0, ssl=context), loop)
        port = starting.result(60).sockets[0].getsockname()[1]
        return f"bbq+tls://127.0.0.1:{port}"

    yield start
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


def test_a_sender_and_a_handler_send_by_tls(server, authority, tls_in_front_of):
    address = tls_in_front_of(server.address)
    certificate, key = authority.client
    options = {"tls_ca": authority.ca, "tls_cert": certificate, "tls_key": str(key)}
    with bbq.Sender(address, **options) as sender:
        sender.send_many(f"message {number}" for number in range(1000))
        sender.flush(60)
    handler = bbq.Handler(address, **options)
    handler.emit(logging.makeLogRecord({"msg": "logged"}))
    handler.sender.flush(60)
    handler.close()
    assert server.lines() == [f"message {number}" for number in range(1000)] + ["logged"]


def test_a_server_that_is_not_trusted_gets_nothing_and_the_notice_says_why(server, authority, tls_in_front_of):
    came = threading.Event()
    notices = []

    def on_notice(notice):
        notices.append(notice)
        came.set()

    certificate, key = authority.client
    options = {"tls_cert": certificate, "tls_key": key, "tls_ca": authority.ca, "close_timeout": 0}
    address = tls_in_front_of(server.address)
    sender = bbq.Sender(address, tls_server_name="another", on_notice=on_notice, **options)
    sender.send("message")
    assert came.wait(60)
    assert notices[0].kind == "unreachable" and "set tls_server_name" in notices[0].why
    assert sender.counters.sent == 0
    with pytest.raises(bbq.Timeout):
        sender.close()
    assert server.lines() == []


def test_options_that_cannot_be_used_are_refused(nobody, authority, tmp_path):
    tls = nobody.replace("bbq://", "bbq+tls://")
    certificate, key = authority.client
    for servers, options, words in [
        (tls, {"tls_ca": tmp_path / "missing.pem"}, "tls_ca .*missing.pem: it cannot be read"),
        (tls, {"tls_ca": key}, "there is no certificate in it"),
        (tls, {"tls_ca": authority.ca, "tls_cert": certificate, "tls_key": authority.server[1]}, "not the key of"),
        (tls, {"tls_ca": authority.ca, "tls_cert": certificate}, "also set tls_key"),
        (nobody, {"tls_ca": authority.ca}, "write bbq\\+tls://HOST:PORT"),
    ]:
        with pytest.raises(bbq.OptionError, match=words):
            bbq.Sender(servers, **options)
    with pytest.raises(TypeError):
        bbq.Sender(tls, tls_ca=1)
