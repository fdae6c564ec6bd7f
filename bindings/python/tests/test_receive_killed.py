"""If this fails, a message is missing in a table or is there twice, after the program that writes it, or bbq, was killed."""

import os
import random
import signal
import sqlite3
import sys
import threading
import time

import bbq
import pytest
from conftest import PATIENCE_SECONDS, REPOSITORY

SENDERS = 3
# Who is killed, in turn. bbq starts a program that failed again after a pause that grows, until bbq itself is started again.
ROUNDS = ["program", "program before it acknowledges", "server", "program behind an acknowledgement", "server", "program"] * 2

# The program of the page, which notes who it is and kills itself when it is told to.
PROGRAM = """
import os, runpy, sys
from bbq import _pipes

def told_to_die(when):
    try:
        os.unlink(HERE + when)
    except FileNotFoundError:
        return
    os.kill(os.getpid(), 9)

def acknowledge(self):
    told_to_die("before")
    done = real(self)
    told_to_die("behind")
    return done

real = _pipes.Pipes.acknowledge
_pipes.Pipes.acknowledge = acknowledge
with open(HERE + "pid.new", "w") as file:
    print(os.getpid(), file=file)
os.rename(HERE + "pid.new", HERE + "pid")
sys.argv[0] = HERE + "store.py"
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def store(make_server, tmp_path):
    page = (REPOSITORY / "docs/EMBEDDING.md").read_text()
    example = page.split("<!-- example of receive_batches -->\n```python\n")[1].split("```")[0]
    (tmp_path / "store.py").write_text(example)
    program = tmp_path / "killed.py"
    program.write_text(f"HERE = {str(tmp_path) + '/'!r}\n{PROGRAM}")
    server = make_server()
    server.sinks = [f"exec:exec {sys.executable} {program} {tmp_path}/events.db?ack=line&format=json"]
    return server.start()


class Senders:
    """Clients that send until they are told to stop."""

    def __init__(self, address):
        self.going = True
        self.sent = [0] * SENDERS
        self.threads = [threading.Thread(target=self.send, args=(address, index)) for index in range(SENDERS)]
        for thread in self.threads:
            thread.start()

    def send(self, address, index):
        with bbq.Sender(address, close_timeout=PATIENCE_SECONDS, on_full="block", block_timeout=None) as sender:
            while self.going:
                sender.send(f"{index} {self.sent[index]}")
                self.sent[index] += 1
                if self.sent[index] % 50 == 0:
                    sender.flush(PATIENCE_SECONDS)

    def stop(self):
        self.going = False
        for thread in self.threads:
            thread.join()


def count(database):
    try:
        return database.execute("SELECT count(*) FROM events").fetchone()[0]
    except sqlite3.OperationalError:
        return 0  # There is no table yet, or it is being written.


def wait_count(database, least):
    end = time.monotonic() + PATIENCE_SECONDS
    while count(database) < least:
        assert time.monotonic() < end, f"{count(database)} of {least}"
        time.sleep(0.001)


def test_the_example_of_the_page_has_each_message_once_whoever_is_killed(store, tmp_path):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    database = sqlite3.connect(tmp_path / "events.db", timeout=PATIENCE_SECONDS)
    senders = Senders(store.address)
    try:
        for kill in ROUNDS:
            wait_count(database, count(database) + chance.randrange(1, 1000))
            if kill == "program":
                try:
                    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
                except ProcessLookupError:
                    pass  # The next one is not there yet.
            elif kill == "server":
                store.kill()
                store.start()
            else:
                when = tmp_path / kill.split()[1]
                when.touch()
                end = time.monotonic() + PATIENCE_SECONDS
                while when.exists():
                    assert time.monotonic() < end, store.log()
                    time.sleep(0.001)
    finally:
        senders.stop()
    wait_count(database, sum(senders.sent))
    store.stop()
    messages = [text for (text,) in database.execute("SELECT message FROM events ORDER BY rowid")]
    for index in range(SENDERS):
        of_sender = [int(text.split()[1]) for text in messages if text.startswith(f"{index} ")]
        assert of_sender == list(range(senders.sent[index])), f"sender {index}, seed {seed}"
    assert len(messages) == sum(senders.sent)
