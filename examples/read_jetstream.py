"""Prints what a stream of NATS JetStream has, a message a line, with nothing but the standard library. Part of jetstream.sh.

    python3 read_jetstream.py HOST:PORT NAME [--delete]

The stream is NAME, and its messages have the subject NAME.logs. With --delete it removes the stream instead.
"""

import json
import socket
import sys

# How many messages are asked for at a time.
BATCH = 1000


def main():
    address, name = sys.argv[1:3]
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=60)
    incoming = connection.makefile("rb")
    incoming.readline()  # INFO {...}
    connection.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB reply.' + name.encode() + b" 1\r\n")

    def request(subject, body):
        payload = json.dumps(body).encode()
        connection.sendall(f"PUB {subject} reply.{name} {len(payload)}\r\n".encode() + payload + b"\r\n")

    def receive():
        """The next message: its subject, headers and payload."""
        while True:
            words = incoming.readline().split()
            if not words or words[0] == b"-ERR":
                sys.exit(f"read_jetstream.py: {b' '.join(words).decode() or 'the server closed the connection'}")
            if words[0] == b"PING":
                connection.sendall(b"PONG\r\n")
            elif words[0] in (b"MSG", b"HMSG"):
                headers = int(words[-2]) if words[0] == b"HMSG" else 0
                data = incoming.read(int(words[-1]) + 2)[:-2]
                return words[1].decode(), data[:headers], data[headers:]

    def api(subject, body):
        request("$JS.API." + subject, body)
        response = json.loads(receive()[2] or b'{"error":"JetStream is off"}')
        if "error" in response:
            sys.exit(f"read_jetstream.py: {subject}: {response['error']}")
        return response

    if "--delete" in sys.argv:
        api("STREAM.DELETE." + name, {})
        return
    config = {"ack_policy": "none", "deliver_policy": "all", "filter_subject": name + ".logs", "mem_storage": True, "num_replicas": 1}
    made = api("CONSUMER.CREATE." + name, {"stream_name": name, "config": config})
    left = made["num_pending"]
    while left:
        batch = min(BATCH, left)
        request(f"$JS.API.CONSUMER.MSG.NEXT.{name}.{made['name']}", {"batch": batch})
        for _ in range(batch):
            _, headers, payload = receive()
            if headers.startswith(b"NATS/1.0 4"):
                sys.exit(f"read_jetstream.py: {headers.decode()}")
            sys.stdout.buffer.write(payload + b"\n")
        left -= batch


main()
