"""If these fail, a program that waits for room in its sender cannot be stopped: Ctrl-C and SIGTERM do nothing."""

import pytest

WAITS = """
import os, signal, threading, time
import bbq

def send(sender):
    while True:
        SEND

def when_it_waits(sender):
    # It has taken all that it can when nothing moves any more.
    taken = -1
    while sender.counters.accepted != taken:
        taken = sender.counters.accepted
        time.sleep(0.2)
    os.kill(os.getpid(), SIGNAL)

class Stop(Exception):
    pass

def stop(number, frame):
    raise Stop

signal.signal(signal.SIGTERM, stop)
sender = bbq.Sender(ADDRESS, queue_bytes_max=2**17, block_timeout=None, close_timeout=0, OPTIONS)
threading.Thread(target=when_it_waits, args=(sender,), daemon=True).start()
try:
    send(sender)
except (KeyboardInterrupt, Stop) as error:
    print(type(error).__name__, sender.counters.dropped.full)
"""


@pytest.mark.parametrize("name, raised", [("SIGINT", "KeyboardInterrupt"), ("SIGTERM", "Stop")])
@pytest.mark.parametrize("how", ["sender.send(b'x' * 1000)", "sender.send_many([b'x' * 1000] * 500)"])
@pytest.mark.parametrize("options", ["", "compress=True", "spool=SPOOL, spool_bytes_max=2**26"])
def test_a_send_that_waits_for_room_hears_signals(run_program, nobody, tmp_path, name, raised, how, options):
    source = WAITS.replace("SEND", how).replace("SIGNAL", f"signal.{name}").replace("OPTIONS", options)
    ended = run_program(source, ADDRESS=nobody, SPOOL=str(tmp_path / "spool"))
    # Not a drop: the program knows that it was not taken.
    assert (ended.returncode, ended.stdout.split()) == (0, [raised, "0"]), ended.stderr


def test_a_message_that_finds_no_room_in_time_is_dropped_as_ever(nobody):
    import bbq

    with pytest.raises(bbq.Full), bbq.Sender(nobody, queue_bytes_max=2**17, block_timeout=0.3, close_timeout=0) as sender:
        while True:
            sender.send(b"x" * 1000)
    assert sender.counters.dropped.full == 1
