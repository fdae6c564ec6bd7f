"""If these fail, a forked child hangs on its parent's sender, or takes what is the parent's."""

LOG_AND_FORK = """
import logging, os, sys
import bbq

def in_child(work):
    child = os.fork()
    if child == 0:
        work()
        # Without exit handlers: they are not what is tested here.
        sys.stderr.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

"""


def test_a_sender_says_that_it_is_the_parents(server, run_program):
    source = """
def work():
    assert sender.forked
    for touch in (lambda: sender.send("child"), sender.flush, sender.close, lambda: sender.counters, lambda: sender.servers):
        try:
            touch()
        except bbq.Forked as error:
            assert "start_again" in str(error)
        else:
            raise AssertionError("was not refused")
    with sender.start_again() as mine:
        mine.send("child")

sender = bbq.Sender(ADDRESS)
sender.send("parent")
in_child(work)
sender.send("parent again")
sender.close()
"""
    ended = run_program(LOG_AND_FORK + source, ADDRESS=server.address)
    assert ended.returncode == 0, ended.stderr
    assert sorted(server.lines()) == ["child", "parent", "parent again"]


def test_forgetting_the_parents_sender_does_nothing(server, run_program):
    source = """
def work():
    global sender
    del sender

sender = bbq.Sender(ADDRESS)
sender.send("one")
in_child(work)
sender.send("two")
sender.close()
"""
    ended = run_program(LOG_AND_FORK + source, ADDRESS=server.address)
    assert ended.returncode == 0, ended.stderr
    assert server.lines() == ["one", "two"]


def test_a_spool_stays_the_parents(server, run_program, tmp_path):
    source = """
def work():
    logging.warning("child")
    logging.warning("child")
    assert handler.errors == 2
    handler.flush()
    handler.close()

handler = bbq.Handler(ADDRESS, spool=SPOOL)
logging.getLogger().addHandler(handler)
logging.warning("parent")
in_child(work)
logging.warning("parent again")
"""
    ended = run_program(LOG_AND_FORK + source, ADDRESS=server.address, SPOOL=str(tmp_path / "spool"))
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("the spool belongs to the parent process") == 1
    assert server.lines() == ["parent", "parent again"]


def test_forks_while_other_threads_log(server, run_program):
    source = """
import threading

def log(who):
    for number in range(500):
        logging.warning("%s %d", who, number)

def work():
    log("child")
    handler.close()

handler = bbq.Handler(ADDRESS)
logging.getLogger().addHandler(handler)
ended = threading.Event()

def noise():
    while not ended.is_set():
        logging.warning("noise")

threads = [threading.Thread(target=noise) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(10):
    in_child(work)
ended.set()
for thread in threads:
    thread.join()
handler.close()
assert handler.errors == 0
print(handler.sender.counters.accepted)
"""
    ended = run_program(LOG_AND_FORK + source, ADDRESS=server.address)
    assert ended.returncode == 0, ended.stderr
    lines = server.lines()
    assert len(lines) == int(ended.stdout) + 10 * 500
    for number in range(500):
        assert lines.count(f"child {number}") == 10
