"""Posts mutated requests of logs, and compares each answer with what the official decoder says.

    compare.py LISTENER RECEIVER_PORT SEED REQUESTS

LISTENER (HOST:PORT) is that of bbq, whose otlp+http sink sends to RECEIVER_PORT here: the official decoder has to take every request of
it, with as many records in all as were answered with 200. Prints one line for each difference; ends with 1 if there was one.

bbq takes more than the decoder where a text is not UTF-8, which it replaces, and refuses more where decoders differ or a request may be
none: see LIMITS.
"""

import base64
import http.client
import http.server
import json
import random
import re
import sys
import threading
import time

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2

Request = logs_service_pb2.ExportLogsServiceRequest
# What an answer says that refuses what the decoder takes.
LIMITS = [
    # Go's decoder and Rust's refuse it, too.
    "a number of more than 64 bits",
    # Taken, it would be an acknowledgement without a message.
    "no log records, and fields",
    # The body has every record with its resource and scope.
    "the log records, each with its resource and scope",
]
DIFFERENCES_MAX = 20
PATIENCE_S = 60


def lenient_request():
    """The same messages with bytes in place of texts, which are not checked to be UTF-8."""
    pool = descriptor_pool.DescriptorPool()
    seen = set()

    def add(file):
        if file.name in seen:
            return
        seen.add(file.name)
        for dependency in file.dependencies:
            add(dependency)
        proto = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(proto)
        for message in proto.message_type:
            for field in message.field:
                if field.type == FieldDescriptor.TYPE_STRING:
                    field.type = FieldDescriptor.TYPE_BYTES
        pool.Add(proto) if hasattr(pool, "Add") else pool.AddSerializedFile(proto.SerializeToString())

    add(Request.DESCRIPTOR.file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(Request.DESCRIPTOR.full_name))


LenientRequest = lenient_request()


def decoded(kind, body):
    try:
        return kind.FromString(body)
    except DecodeError:
        return None


def records(request):
    return sum(len(scope.log_records) for resource in request.resource_logs for scope in resource.scope_logs)


class NotJson(Exception):
    pass


class Pairs(dict):
    """An object, and the names that it has twice."""

    def __init__(self, found):
        super().__init__(found)
        names = [name for name, _ in found]
        self.twice = {name for name in names if names.count(name) > 1}


def constant(name):
    raise NotJson(name)


def repaired(text):
    """Half a surrogate pair becomes U+FFFD."""
    return "".join("\N{REPLACEMENT CHARACTER}" if 0xD800 <= ord(letter) < 0xE000 else letter for letter in text)


INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
}


def prepared(value, message):
    """Ids from hex to base64; what Python takes beyond the specification is an error."""
    if not isinstance(value, dict):
        return value
    by_name = {name: field for field in message.fields for name in (field.name, field.camelcase_name)}
    # In what is unknown, bbq does not look.
    if any(name in by_name for name in value.twice):
        raise NotJson("a name twice")
    return {
        repaired(name): prepared_field(inner, by_name[name]) if name in by_name else None
        for name, inner in value.items()
        if name in by_name
    }


def prepared_field(value, field):
    if field.is_repeated:
        return [prepared_value(inner, field) for inner in value] if isinstance(value, list) else value
    return prepared_value(value, field)


def prepared_value(value, field):
    if field.message_type is not None:
        return prepared(value, field.message_type)
    if field.enum_type is not None:
        if isinstance(value, bool) or isinstance(value, float) and not value.is_integer():
            raise NotJson("no number of a severity")
        return int(value) if isinstance(value, float) else repaired(value) if isinstance(value, str) else value
    if isinstance(value, str):
        value = repaired(value)
        if field.name in ("trace_id", "span_id"):
            if re.fullmatch("([0-9a-fA-F]{2})*", value) is None:
                raise NotJson("no id")
            return base64.b64encode(bytes.fromhex(value)).decode()
        if field.type == FieldDescriptor.TYPE_BYTES:
            plain = value.rstrip("=")
            if re.fullmatch("[A-Za-z0-9+/_-]*", plain) is None or len(plain) % 4 == 1:
                raise NotJson("no base64")
            return plain + "=" * (-len(plain) % 4)
        if field.cpp_type in INTEGERS and re.fullmatch("[+-]?[0-9]+", value) is None:
            raise NotJson("no integer")
        if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE and not re.fullmatch(
            r"NaN|-?Infinity|[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value
        ):
            raise NotJson("no number")
    return value


def from_json(body):
    try:
        text = body.decode("utf-8", "replace")
        value = json.loads(text, object_pairs_hook=Pairs, parse_constant=constant)
        if not isinstance(value, dict):
            return None
        return json_format.ParseDict(prepared(value, Request.DESCRIPTOR), Request(), ignore_unknown_fields=True)
    except (NotJson, ValueError, json_format.ParseError, RecursionError):
        return None


def any_value(value, rng, depth=0):
    kind = rng.randrange(7 if depth < 3 else 5)
    if kind == 0:
        value.string_value = rng.choice(["", "text", "caf\u00e9", "\U0001f600" * 3, "x" * 200])
    elif kind == 1:
        value.bool_value = rng.random() < 0.5
    elif kind == 2:
        value.int_value = rng.choice([0, -1, 7, 2**63 - 1, -(2**63)])
    elif kind == 3:
        value.double_value = rng.choice([0.0, -1.5, float("inf"), 1e300])
    elif kind == 4:
        value.bytes_value = rng.randbytes(rng.randrange(6))
    elif kind == 5:
        for _ in range(rng.randrange(1, 3)):
            any_value(value.array_value.values.add(), rng, depth + 1)
    else:
        key_values(value.kvlist_value.values, rng, depth + 1)


def key_values(pairs, rng, depth=0):
    for _ in range(rng.randrange(1, 3)):
        pair = pairs.add()
        pair.key = rng.choice(["k", "service.name", ""])
        any_value(pair.value, rng, depth)


def request(rng):
    made = Request()
    for _ in range(rng.randrange(1, 3)):
        resource_logs = made.resource_logs.add()
        key_values(resource_logs.resource.attributes, rng)
        for _ in range(rng.randrange(1, 3)):
            scope_logs = resource_logs.scope_logs.add()
            scope_logs.scope.name = "scope"
            for _ in range(rng.randrange(1, 3)):
                record = scope_logs.log_records.add()
                record.time_unix_nano = 1767225600000000000 + rng.randrange(1000)
                record.severity_number = rng.randrange(25)
                record.severity_text = rng.choice(["", "INFO"])
                any_value(record.body, rng)
                key_values(record.attributes, rng)
                record.flags = rng.randrange(2)
                record.trace_id = rng.randbytes(16)
                record.span_id = rng.randbytes(8)
    return made


def nested(levels, group):
    """A record whose body has arrays in arrays, or groups in groups, so many levels deep."""
    value = b""
    for level in reversed(range(levels)):
        if group:
            value = b"\x9b\x06" + value + b"\x9c\x06"
        else:
            value = (b"\x0a" if level % 2 else b"\x2a") + length(value) + value
    for number in (5, 2, 2, 1):
        value = bytes([number << 3 | 2]) + length(value) + value
    return value


def length(of):
    rest, encoded = len(of), b""
    while rest >= 0x80:
        encoded += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return encoded + bytes([rest])


def mutated(body, others, rng):
    body = bytearray(body)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(body) + 1)
        kind = rng.randrange(7)
        if kind == 0 and at < len(body):
            body[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(body):
            body[at] = rng.randrange(256)
        elif kind == 2:
            body[at:at] = rng.randbytes(rng.randrange(1, 4))
        elif kind == 3:
            del body[at : at + rng.randrange(1, 6)]
        elif kind == 4:
            body[at:at] = body[at : at + rng.randrange(1, 40)]
        elif kind == 5:
            other = rng.choice(others)
            begin = rng.randrange(len(other))
            body[at : at + rng.randrange(20)] = other[begin : begin + rng.randrange(20)]
        elif rng.random() < 0.2:
            del body[at:]
    return bytes(body)


def mutated_json(body, others, rng):
    body = mutated(body, others, rng)
    if rng.random() < 0.3:
        for old, new in rng.choice(
            [
                [(b"resourceLogs", b"resource_logs"), (b"stringValue", b"string_value")],
                [(b'"text"', b"null"), (b"true", b"null")],
                [(b"caf\\u00e9", b"\\ud83d"), (b'"INFO"', b'"\xe9"')],
                [(b"=", b""), (b"+", b"-")],
                [(b'"7"', b"7.0"), (b'"0"', b"0e3"), (b"9,", b'"SEVERITY_NUMBER_INFO",')],
                [(b"{}", b"[]"), (b"[{", b"{")],
            ]
        ):
            body = body.replace(old, new)
    return body


def to_json(made):
    """With ids in hex, as OTLP has them."""
    value = json_format.MessageToDict(made)
    for resource_logs in value["resourceLogs"]:
        for scope_logs in resource_logs["scopeLogs"]:
            for record in scope_logs["logRecords"]:
                for name in ("traceId", "spanId"):
                    record[name] = base64.b64decode(record[name]).hex()
    return json.dumps(value).encode()


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    taken = 0
    refused = 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        found = decoded(Request, body)
        if found is None:
            Receiver.refused += 1
        else:
            Receiver.taken += records(found)
        self.send_response(400 if found is None else 200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Comparison:
    def __init__(self, listener):
        self.connection = http.client.HTTPConnection(listener, timeout=PATIENCE_S)
        self.differences = 0
        self.stored = 0
        self.answers = {}

    def post(self, kind, body):
        self.connection.request("POST", "/v1/logs", body, {"Content-Type": kind})
        response = self.connection.getresponse()
        return response.status, response.read()

    def compare(self, kind, body):
        status, answer = self.post(kind, body)
        text = answer.decode("utf-8", "replace")
        if kind == "application/json":
            found = strict = from_json(body)
        else:
            found, strict = decoded(LenientRequest, body), decoded(Request, body)
        self.answers[status] = self.answers.get(status, 0) + 1
        if status == 200:
            # Nothing was too long, so there is no partial success.
            self.stored += records(found) if found is not None else 0
            is_same = found is not None and text.strip() in ("", "{}")
        else:
            is_same = status == 400 and (strict is None or any(limit in text for limit in LIMITS))
        if not is_same:
            self.differences += 1
            if self.differences <= DIFFERENCES_MAX:
                print("different:", status, text, "decoder:", strict is not None, found is not None, kind, body)


def main():
    listener, receiver_port, seed, requests = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", receiver_port), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rng = random.Random(seed)
    made = [request(rng) for _ in range(50)]
    protobufs = [one.SerializeToString() for one in made]
    jsons = [to_json(one) for one in made]
    comparison = Comparison(listener)
    for levels in range(90, 105):
        for group in (False, True):
            comparison.compare("application/x-protobuf", nested(levels, group))
    for _ in range(requests // 2):
        comparison.compare("application/x-protobuf", mutated(rng.choice(protobufs), protobufs, rng))
        comparison.compare("application/json", mutated_json(rng.choice(jsons), jsons, rng))
    until = time.monotonic() + PATIENCE_S
    while Receiver.taken < comparison.stored and time.monotonic() < until:
        time.sleep(0.01)
    print("answers:", comparison.answers, "stored:", comparison.stored, "received:", Receiver.taken)
    is_whole = Receiver.taken == comparison.stored and Receiver.refused == 0
    if not is_whole:
        print("the decoder refused", Receiver.refused, "requests of the sink")
    sys.exit(0 if is_whole and comparison.differences == 0 else 1)


main()
