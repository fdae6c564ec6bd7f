"""Sends each line of standard input to a bbq server as one message; prints how many are acknowledged as on disk.

Usage: minimal_client.py HOST PORT < lines     Format: docs/PROTOCOL.md. Needs nothing but Python's standard library.
"""
import os, socket, struct, sys, time

TABLE = []
for n in range(256):
    for _ in range(8):
        n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)

def sealed(magic, rest):
    crc = 0xFFFFFFFF
    for byte in rest:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 0xFF]
    return magic + struct.pack("<I", crc ^ 0xFFFFFFFF) + rest

def record(message):
    n, length = len(message), b""
    while n >= 0x80:
        length, n = length + bytes([n & 0x7F | 0x80]), n >> 7
    return length + bytes([n]) + message

def hello(stream, name):
    payload = stream + struct.pack("<BBHB", 2, 0, 0, len(name)) + name  # 2: acknowledge when durable
    return sealed(b"BBQC", struct.pack("<IBBH", len(payload), 1, 1, 0) + payload)

def batch(stream, first, records):
    body = b"".join(records)
    fields = (len(body), 1, 0, 0, 0, stream, first, time.time_ns(), len(records), len(body), len(body), 0)
    return sealed(b"BBQB", struct.pack("<I4B16sQQ4I", *fields) + body)

def receive(server):
    header = server.read(16)
    if len(header) < 16:
        sys.exit("the server closed the connection")
    length, kind = struct.unpack_from("<IB", header, 8)
    payload = server.read(length)
    if sealed(b"BBQC", header[8:] + payload) != header + payload:
        sys.exit("the server sent what is no bbq control frame")
    if kind == 4:
        sys.exit("refused, code %d: %s" % (struct.unpack_from("<H", payload)[0], payload[6:].decode()))
    return kind, payload

def main(host, port):
    stream, acknowledged = os.urandom(16), 0  # a new stream: numbers begin at 1
    connection = socket.create_connection((host, int(port)))
    server = connection.makefile("rb")
    connection.sendall(hello(stream, b"minimal_client.py"))
    receive(server)  # the welcome
    try:
        while records := [record(line.removesuffix(b"\n")) for line in sys.stdin.buffer.readlines(100_000)]:
            connection.sendall(batch(stream, acknowledged + 1, records))
            last = acknowledged + len(records)
            while acknowledged < last:
                acknowledged = struct.unpack_from("<Q", receive(server)[1])[0]
    finally:
        print(acknowledged)

main(*sys.argv[1:])
