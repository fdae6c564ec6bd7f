"""If these fail, a program that receives messages from bbq loses some, or what else it does breaks its acknowledgements."""

import doctest
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import textwrap
import time

import bbq
import bbq.receiver
import pytest
from conftest import PATIENCE_SECONDS, free_port

LARGE = b"x" * 1_000_000
MESSAGES = [b"one", b"", b"\xff\xfe\x00", "zwölf\n\"two\" lines".encode(), LARGE, b"{}", b"last\n"]


@pytest.fixture
def receiver(make_server, tmp_path):
    """Starts a server whose sink runs a program, which finds the names of files in `HERE`."""

    def start(source, query="ack=line&format=json"):
        program = tmp_path / "receiver.py"
        program.write_text(f"HERE = {str(tmp_path) + '/'!r}\n" + textwrap.dedent(source))
        server = make_server()
        server.sinks = [f"exec:exec {sys.executable} {program}?{query}"]
        server.lines_port = free_port()
        server.more = [f"lines+tcp://127.0.0.1:{server.lines_port}"]
        return server.start()

    return start


def send(server, *messages):
    with bbq.Sender(server.address) as sender:
        sender.send_many(messages)


def wait_file(path, is_wanted=lambda text: text.endswith("\n")):
    end = time.monotonic() + PATIENCE_SECONDS
    while not (path.exists() and is_wanted(path.read_text())):
        assert time.monotonic() < end, path
    return path.read_text()


WRITES_EACH = """
import json
import bbq

with open(HERE + "out", "a") as out:
    for message in bbq.receive():
        print(json.dumps([message.message.hex(), message.text, message.id, message.listener, message.peer,
                          message.time.isoformat(), message.fields.get("severity")]), file=out, flush=True)
"""


def test_each_message_comes_with_what_is_known_about_it(receiver, tmp_path):
    server = receiver(WRITES_EACH)
    send(server, *MESSAGES)
    with socket.create_connection(("127.0.0.1", server.lines_port)) as connection:
        connection.sendall(b"a line\n")
    server.wait_delivered(len(MESSAGES) + 1)
    server.stop()
    came = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert sorted(bytes.fromhex(fields[0]) for fields in came) == sorted([*MESSAGES, b"a line"])
    of_client = [fields for fields in came if fields[3].startswith("bbq+tcp")]
    assert [bytes.fromhex(fields[0]) for fields in of_client] == MESSAGES
    assert [fields[1] for fields in of_client] == [message.decode(errors="replace") for message in MESSAGES]
    assert [fields[2].split("-")[1] for fields in of_client] == [str(number) for number in range(1, len(MESSAGES) + 1)]
    assert len({fields[2] for fields in came}) == len(came)
    assert all(fields[4].startswith("127.0.0.1:") and fields[5].endswith("+00:00") for fields in came)


def test_raw_lines(receiver, tmp_path):
    source = """
    import bbq
    with open(HERE + "out", "ab") as out:
        for line in bbq.receive("raw"):
            out.write(line + b"|\\n")
            out.flush()
    """
    server = receiver(source, "ack=line")
    send(server, *MESSAGES)
    server.wait_delivered(len(MESSAGES))
    server.stop()
    lines = [line for message in MESSAGES for line in message.removesuffix(b"\n").split(b"\n")]
    assert (tmp_path / "out").read_bytes() == b"".join(line + b"|\n" for line in lines)


def test_an_exception_starts_the_program_again_and_the_message_comes_again(receiver, tmp_path):
    source = """
    import bbq, os
    for message in bbq.receive():
        with open(HERE + "tried", "a") as out:
            print(message.text, file=out)
        if message.text == "two" and not os.path.exists(HERE + "mended"):
            raise RuntimeError("the table is locked")
    """
    server = receiver(source)
    send(server, "one", "two", "three")
    server.wait_problem("the command ended with exit code 1: RuntimeError: the table is locked")
    (tmp_path / "mended").touch()
    server.wait_delivered(3)
    server.stop()
    tried = (tmp_path / "tried").read_text().splitlines()
    assert tried[0] == "one" and tried[1:].count("one") == 0
    assert tried.count("two") >= 2 and tried[-2:] == ["two", "three"]


def test_what_is_left_by_break_comes_again(receiver, tmp_path):
    source = """
    import bbq
    for message in bbq.receive():
        with open(HERE + "tried", "a") as out:
            print(message.text, file=out)
        if message.text == "two":
            break
    """
    server = receiver(source)
    send(server, "one", "two")
    wait_file(tmp_path / "tried", lambda text: text.count("two") >= 2)
    assert server.status()["ledger"]["delivered"] < 2
    assert (tmp_path / "tried").read_text().count("one") == 1


def test_nothing_gets_between_the_numbers(receiver, tmp_path):
    source = """
    import os, subprocess, sys
    import bbq
    received = bbq.receive_batches(messages_max=2)
    print("before the first message")
    for messages in received:
        print("stray ", end="")
        print(99999999)
        sys.stdout.write("no line")
        os.write(1, b"7\\n")
        subprocess.run("cat >> stolen; echo 8; echo 9 >&2", shell=True, cwd=HERE, check=True)
        assert sys.stdin.read() == ""
        sys.stdin.close()
        sys.stdin = open(os.devnull)
        with open(HERE + "out", "a") as out:
            out.writelines(f"{message.text}\\n" for message in messages)
    """
    server = receiver(source)
    for part in range(3):
        send(server, *(f"message {part}.{number}" for number in range(5)))
        server.wait_delivered(5 * part + 5)
    server.stop()
    assert (tmp_path / "out").read_text() == "".join(f"message {part}.{number}\n" for part in range(3) for number in range(5))
    assert (tmp_path / "stolen").read_text() == ""
    log = server.log()
    assert "standard error: before the first message" in log and "standard error: stray 99999999" in log
    assert "sink write failed" not in log and "to its standard output" not in log


def test_a_stop_lets_it_finish_what_is_in_hand(receiver, tmp_path):
    source = """
    import bbq, os, time
    for messages in bbq.receive_batches():
        if messages[0].text == "hang":
            with open(HERE + "hangs", "w") as out:
                print(os.getpid(), file=out)
            while not os.path.exists(HERE + "go"):
                time.sleep(0.001)
        with open(HERE + "out", "a") as out:
            out.writelines(f"{message.text}\\n" for message in messages)
    with open(HERE + "ends", "a") as out:
        print("end", file=out)
    """
    server = receiver(source)
    send(server, "hang")
    child = int(wait_file(tmp_path / "hangs"))
    os.kill(child, signal.SIGTERM)
    (tmp_path / "go").touch()
    server.wait_delivered(1)
    # One that waits for messages ends at once.
    wait_file(tmp_path / "ends")
    send(server, "hang", "last")
    server.wait_delivered(3)
    os.kill(int((tmp_path / "hangs").read_text()), signal.SIGTERM)
    wait_file(tmp_path / "ends", lambda text: text.count("end") == 2)
    # The stop of the server itself.
    (tmp_path / "go").unlink()
    (tmp_path / "hangs").unlink()
    send(server, "hang", "behind")
    wait_file(tmp_path / "hangs")
    server.process.terminate()
    (tmp_path / "go").touch()
    assert server.process.wait(PATIENCE_SECONDS) == 0
    assert (tmp_path / "out").read_text().split() == ["hang", "hang", "last", "hang", "behind"]
    assert "exit code" not in server.log()


def test_forks_leave_the_messages_to_the_parent(receiver, tmp_path):
    source = """
    import multiprocessing, os, signal
    import bbq

    def double(text):
        print("from a child")
        return 2 * text

    received = bbq.receive()
    for message in received:
        child = os.fork()
        if child == 0:
            try:
                next(received)
            except bbq.Forked:
                # It ends, and its parent is not told to stop.
                os.kill(os.getpid(), signal.SIGTERM)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == signal.SIGTERM
        with multiprocessing.get_context("fork").Pool(2) as pool:
            doubled = pool.apply(double, [message.text])
        with open(HERE + "out", "a") as out:
            print(doubled, file=out)
    """
    server = receiver(source)
    for number in range(3):
        send(server, f"message {number} ")
        server.wait_delivered(number + 1)
    server.stop()
    assert (tmp_path / "out").read_text().splitlines() == [2 * f"message {number} " for number in range(3)]
    assert "from a child" in server.log()


def test_a_child_that_is_ended_at_once_ends_alone():
    program = """
import os, signal
import bbq

at_once = False

def end_at_once():
    if at_once:
        os.kill(os.getpid(), signal.SIGTERM)

os.register_at_fork(after_in_child=end_at_once)
received = bbq.receive("raw")
for line in received:
    at_once = True
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        signal.pause()
    at_once = False
    status = os.waitpid(child, 0)[1]
    assert status == signal.SIGTERM, status
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
"""
    run = subprocess.run([sys.executable, "-c", program], env={**os.environ, "BBQ_EXEC": "ack=line format=raw"}, input=b"a\nb\nc\n",
                         capture_output=True, timeout=PATIENCE_SECONDS)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"1\n2\n3\n", b"")


def test_at_a_terminal_it_says_how_it_is_started(tmp_path):
    program = tmp_path / "a program.py"
    program.write_text("import bbq\nfor message in bbq.receive():\n    pass\n")
    terminal, its = pty.openpty()
    try:
        run = subprocess.run([sys.executable, program, "--to", 'a"b'], stdin=its, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    finally:
        os.close(terminal)
        os.close(its)
    assert run.returncode == 1 and run.stdout == ""
    said = run.stderr.split("SinkError: ")[1]
    for wanted in ["[[sink]]", f"exec:exec {sys.executable} '{program}' --to", '\\"', 'ack = "line"', 'format = "json"']:
        assert wanted in said, said


@pytest.mark.parametrize(("told", "is_right"), [("ack=line format=raw", True), ("ack=line format=raw more=1", True),
                                                ("ack=read format=raw", False), ("ack=line format=json", False)])
def test_other_options_of_the_sink_are_told_before_a_message_is_lost(told, is_right):
    program = "import bbq\nfor line in bbq.receive('raw'): print(line)"
    run = subprocess.run([sys.executable, "-c", program], env={**os.environ, "BBQ_EXEC": told}, input=b"a\n\nb\nrest", capture_output=True,
                         timeout=PATIENCE_SECONDS)
    if is_right:
        assert (run.returncode, run.stdout, run.stderr) == (0, b"1\n2\n3\n", b"b'a'\nb''\nb'b'\n")
    else:
        assert run.returncode == 1 and run.stdout == b""
        last = run.stderr.decode().splitlines()[-1]
        assert f"with {told}, but it needs ack=line format=raw" in last


def test_mistakes_in_the_program():
    program = """
import bbq
for mistake in (lambda: bbq.receive("text"), lambda: bbq.receive_batches(messages_max=0)):
    try:
        mistake()
    except ValueError as error:
        assert "must be" in str(error)
    else:
        raise AssertionError
received = bbq.receive("raw")
try:
    bbq.receive("raw")
except bbq.SinkError:
    pass
else:
    raise AssertionError
"""
    run = subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


def test_the_examples_in_the_docstrings():
    assert doctest.testmod(bbq.receiver).failed == 0
