"""If these fail, the last lines of a program, which say why it ended, are lost.

Each program logs a thousand lines and ends at once, in every way that Python lets it.
"""

import pytest

LINES = 1000

LOG = f"""
import logging
import bbq

logging.basicConfig(level=logging.INFO, handlers=[bbq.Handler(ADDRESS)], format="%(message)s")

def log(who):
    for number in range({LINES}):
        logging.info("%s %d", who, number)

"""


def expected(*who):
    return sorted(f"{one} {number}" for one in who for number in range(LINES))


ENDS = {
    "end of the program": ("log('main')", 0),
    "sys.exit": ("import sys; log('main'); sys.exit(3)", 3),
    "uncaught exception": ("log('main'); raise LookupError('uncaught')", 1),
    "logging.shutdown": ("log('main'); logging.shutdown()", 0),
    "in a thread": ("import threading; threading.Thread(target=log, args=('main',)).start()", 0),
    "SIGTERM with the documented handler": (
        "import os, signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); log('main');"
        "os.kill(os.getpid(), signal.SIGTERM)",
        143,
    ),
    "SIGINT": ("import os, signal; log('main'); os.kill(os.getpid(), signal.SIGINT)", -2),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_handler(server, run_program, end):
    source, code = ENDS[end]
    ended = run_program(LOG + source, ADDRESS=server.address)
    assert ended.returncode == code, ended.stderr
    assert server.lines() == [f"main {number}" for number in range(LINES)]


def test_a_sender_that_nobody_closes(server, run_program):
    source = """
    import bbq

    sender = bbq.Sender(ADDRESS)
    sender.send_many(f"main {number}" for number in range(1000))
    """
    ended = run_program(source, ADDRESS=server.address)
    assert ended.returncode == 0, ended.stderr
    assert server.lines() == [f"main {number}" for number in range(LINES)]


@pytest.mark.parametrize("made", ["bbq.Sender(ADDRESS, close_timeout=1)", "bbq.Handler(ADDRESS, close_timeout=1).sender"])
def test_what_is_lost_at_the_end_is_told(nobody, run_program, made):
    ended = run_program(f"import bbq\nsender = {made}\nsender.send('to nobody')\n", ADDRESS=nobody)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith(
        f"bbq: 1 message is not acknowledged at the end of a sender; {nobody}: "
    ), ended.stderr
    assert "refused" in lines[0] and "without a spool" in lines[0]


def test_who_hears_notices_says_what_it_likes(nobody, run_program):
    source = "import bbq\nbbq.Sender(ADDRESS, close_timeout=0.1, on_notice=lambda _: None).send('to nobody')\n"
    ended = run_program(source, ADDRESS=nobody)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_exit_handlers_log(server, run_program):
    ended = run_program(LOG + "import atexit\natexit.register(log, 'main')\n", ADDRESS=server.address)
    assert ended.returncode == 0, ended.stderr
    assert server.lines() == [f"main {number}" for number in range(LINES)]


def test_what_is_sent_after_the_flush_at_exit(server, run_program):
    source = """
    import atexit
    # Exit handlers run in reverse: this one after those of the package.
    atexit.register(lambda: sender.send("last"))
    import bbq
    sender = bbq.Sender(ADDRESS)
    sender.send("main")
    """
    ended = run_program(source, ADDRESS=server.address)
    assert ended.returncode == 0, ended.stderr
    assert server.lines() == ["main", "last"]


def test_a_dead_server_delays_the_end_once(nobody, run_program):
    # Flushed at exit, flushed by logging and closed by logging: the bound is for all of it.
    source = """
    import atexit, logging, time
    began = None
    atexit.register(lambda: print(time.monotonic() - began))
    import bbq
    handlers = [bbq.Handler(ADDRESS, close_timeout=1.0) for _ in range(3)]
    for handler in handlers:
        logging.getLogger().addHandler(handler)
    logging.warning("nobody hears this")
    began = time.monotonic()
    """
    ended = run_program(source, ADDRESS=nobody)
    assert ended.returncode == 0, ended.stderr
    assert 1.0 <= float(ended.stdout) < 2.0


def test_a_notice_at_the_very_end(server, run_program):
    source = """
    import bbq
    sender = bbq.Sender(ADDRESS, on_notice=print)
    sender.send("main")
    """
    ended = run_program(source, ADDRESS=server.address)
    assert ended.returncode == 0, ended.stderr
    assert server.lines() == ["main"]


FORKS = {
    "os.fork": """
import os, sys

log("main")
child = os.fork()
if child == 0:
    log("child")
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
log("main again")
""",
    "os.fork in a fork": """
import os, sys

log("main")
child = os.fork()
if child == 0:
    log("child")
    if os.fork() == 0:
        log("main again")
    else:
        os.wait()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
""",
    "multiprocessing fork": """
import multiprocessing

log("main")
child = multiprocessing.get_context("fork").Process(target=log, args=("child",))
child.start()
child.join()
assert child.exitcode == 0
log("main again")
""",
    "multiprocessing fork that fails": """
import multiprocessing

def work():
    log("child")
    raise LookupError

log("main")
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
assert child.exitcode == 1
log("main again")
""",
    "multiprocessing spawn": """
import multiprocessing

if __name__ == "__main__":
    log("main")
    child = multiprocessing.get_context("spawn").Process(target=log, args=("child",))
    child.start()
    child.join()
    assert child.exitcode == 0
    log("main again")
""",
    "concurrent.futures": """
import concurrent.futures, multiprocessing

log("main")
with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
    pool.submit(log, "child").result()
log("main again")
""",
}


@pytest.mark.parametrize("fork", FORKS)
def test_children(server, run_program, fork):
    ended = run_program(LOG + FORKS[fork], ADDRESS=server.address)
    assert ended.returncode == 0, ended.stderr
    lines = server.lines()
    assert sorted(lines) == expected("main", "child", "main again")
    # Each process is a stream of its own, in its order.
    for who in ("main", "child", "main again"):
        assert [line for line in lines if line.rpartition(" ")[0] == who] == [f"{who} {n}" for n in range(LINES)]
