"""If these fail, what a program hands to a sender does not arrive as it was, or it is not told what became of it."""

import signal
import threading

import bbq
import pytest


def balances(counters):
    known = counters.acknowledged + counters.queued + counters.dropped.oldest + counters.dropped.abandoned
    return counters.accepted + counters.recovered == known


def test_the_example_of_the_documentation(server):
    sender = bbq.Sender(server.address, ack="durable")
    sender.send(b"one")
    sender.flush(5.0)
    sender.close()
    assert server.lines() == ["one"]


@pytest.mark.parametrize(
    "message",
    [b"caf\xc3\xa9", "caf\u00e9", bytearray(b"caf\xc3\xa9"), memoryview(b"caf\xc3\xa9"), memoryview(b"_c_a_f_\xc3_\xa9")[1::2]],
    ids=["bytes", "str", "bytearray", "memoryview", "strided"],
)
def test_every_kind_of_message(server, message):
    with bbq.Sender(server.address) as sender:
        sender.send(message)
    assert server.lines() == ["caf\u00e9"]


@pytest.mark.parametrize("wrong", [None, 1, ["a"], memoryview(bytes(8)).cast("I")])
def test_what_is_no_message_is_refused_and_the_sender_goes_on(server, wrong):
    with bbq.Sender(server.address) as sender:
        with pytest.raises(TypeError, match="a message is bytes, str"):
            sender.send(wrong)
        sender.send("next")
    assert server.lines() == ["next"]


@pytest.mark.parametrize("on_full", ["block", "drop-newest"])
def test_many_at_once_keep_their_order(server, on_full):
    with bbq.Sender(server.address, on_full=on_full) as sender:
        assert sender.send_many(f"{number}" for number in range(10_000)) == 10_000
        assert sender.send_many([]) == 0
    assert server.lines() == [str(number) for number in range(10_000)]


def test_many_say_how_many_were_taken_before_an_error(server):
    def messages():
        yield from (b"1", b"2")
        raise LookupError("of the application")

    with bbq.Sender(server.address) as sender:
        with pytest.raises(LookupError, match="of the application") as caught:
            sender.send_many(messages())
        assert caught.value.taken == 2
        with pytest.raises(TypeError) as caught:
            sender.send_many([b"3", None, b"4"])
        assert caught.value.taken == 1
    assert server.lines() == ["1", "2", "3"]


def test_threads_share_a_sender(server):
    with bbq.Sender(server.address) as sender:

        def work(thread):
            for number in range(2000):
                sender.send(f"{thread} {number}")

        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counters = sender.close()
    assert counters.accepted == counters.acknowledged == 8000
    assert balances(counters)
    lines = server.lines()
    for thread in range(4):
        mine = [line for line in lines if line.startswith(f"{thread} ")]
        assert mine == [f"{thread} {number}" for number in range(2000)]


def test_counters_say_what_became_of_every_message(nobody):
    message = bytes(1000)
    with pytest.raises(bbq.Timeout):
        with bbq.Sender(nobody, queue_bytes_max=2**18, on_full="drop-newest", close_timeout=0) as sender:
            with pytest.raises(bbq.Full) as caught:
                sender.send_many(message for _ in range(1000))
            taken = caught.value.taken
            counters = sender.counters
            assert balances(counters)
            assert (counters.accepted, counters.queued, counters.dropped.full) == (taken, taken, 1)
            assert 0 < counters.queued_bytes <= 2**18
    counters = sender.counters
    assert balances(counters)
    assert (counters.queued, counters.dropped.abandoned, counters.dropped.total) == (0, taken, taken + 1)


def test_the_oldest_are_dropped_for_newer_ones(make_server):
    server = make_server()
    with bbq.Sender(server.address, queue_bytes_max=2**18, on_full="drop-oldest", report_drops=False) as sender:
        for number in range(1000):
            sender.send(f"{number:1000}")
        dropped = sender.counters.dropped.oldest
        assert dropped > 0
        server.start()
    assert [int(line) for line in server.lines()] == list(range(dropped, 1000))


def test_a_message_too_large_is_refused_alone(server):
    with bbq.Sender(server.address) as sender:
        with pytest.raises(bbq.MessageTooLarge, match="message_bytes_max"):
            sender.send(bytes(2**24))
        sender.send("small")
        assert sender.counters.dropped.too_large == 1
    # The sender tells the server, too.
    assert "small" in server.lines()


def test_who_is_closed_takes_nothing(server):
    sender = bbq.Sender(server.address)
    sender.send("one")
    assert sender.close().acknowledged == 1
    assert sender.close().acknowledged == 1
    with pytest.raises(bbq.Closed):
        sender.send("two")
    sender.flush()
    assert sender.counters.dropped.closed == 1


def test_a_flush_ends_at_its_timeout_and_what_waits_stays(make_server):
    server = make_server()
    sender = bbq.Sender(server.address)
    sender.send("one")
    with pytest.raises(bbq.Timeout, match="1 message is not acknowledged after 10ms"):
        sender.flush(0.01)
    with pytest.raises(TimeoutError):
        sender.flush(0)
    server.start()
    sender.flush()
    sender.close()
    assert server.lines() == ["one"]


@pytest.mark.parametrize(
    ("servers", "options"),
    [
        ([], {}),
        ("http://127.0.0.1:1", {}),
        ("bbq://127.0.0.1:1", {"ack": "maybe"}),
        ("bbq://127.0.0.1:1", {"delivery": "some"}),
        ("bbq://127.0.0.1:1", {"on_full": "panic"}),
        ("bbq://127.0.0.1:1", {"compress": "never"}),
        ("bbq://127.0.0.1:1", {"block_timeout": -1.0}),
        ("bbq://127.0.0.1:1", {"linger": float("nan")}),
        ("bbq://127.0.0.1:1", {"queue_bytes_max": 1}),
        ("bbq://127.0.0.1:1", {"batch_bytes": 1}),
        ("bbq://127.0.0.1:1", {"delivery_timeout": 0.1}),
        ("bbq://127.0.0.1:1", {"reconnect": bbq.Reconnect(attempts=0)}),
        ("bbq://127.0.0.1:1", {"reconnect": {"wait": 0.0}}),
        ("bbq://127.0.0.1:1", {"reconnect": {"attempts": -1}}),
        ("bbq://127.0.0.1:1", {"queue_bytes_max": -1}),
        ("bbq://127.0.0.1:1", {"batch_bytes": 2**64}),
        ("bbq://127.0.0.1:1", {"spool_bytes_max": -1}),
    ],
)
def test_wrong_options_are_named(servers, options):
    with pytest.raises(bbq.OptionError, match=r"use|no server|is not an address"):
        bbq.Sender(servers, **options)
    with pytest.raises(ValueError):
        bbq.Sender(servers, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"servers": 5}, 'use an address such as "bbq://HOST:PORT" for servers, or several, not int'),
        ({"servers": ["bbq://127.0.0.1:1", b"b"]}, "use an address .* for servers, or several, not bytes"),
        ({"queue_bytes_max": "1 MiB"}, "use an int for queue_bytes_max, 65536 or more, not str"),
        ({"batch_bytes": 1.5}, "use an int for batch_bytes, 1024 to 262144, not float"),
        ({"spool_bytes_max": "1"}, "use an int for spool_bytes_max, 67108864 or more, not str"),
        ({"compress": 7}, 'use False, True or "auto" for compress, not int'),
        # Python shows the name as a note below the message.
        ({"linger": "2 ms"}, "must be real number, not str\nwhile processing 'linger'"),
        ({"reconnect": 3}, "use a bbq.Reconnect for reconnect, or a dict of its arguments, not int"),
        ({"reconnect": {"wait": "20 ms"}}, "use seconds for wait, not str"),
    ],
)
def test_wrong_types_are_named(options, text):
    with pytest.raises(TypeError, match=text):
        bbq.Sender(**{"servers": "bbq://127.0.0.1:1", **options})


def test_the_same_server_twice_is_named_where_each_has_its_own_progress():
    with pytest.raises(bbq.OptionError, match="bbq://127.0.0.1:1 is named twice"):
        bbq.Sender(["bbq://127.0.0.1:1", "127.0.0.1:1"], delivery="all")


@pytest.mark.parametrize("on_full", ["block", "drop-newest"])
def test_an_offer_never_waits_and_what_is_refused_is_not_counted(nobody, on_full):
    sender = bbq.Sender(nobody, queue_bytes_max=2**18, on_full=on_full, block_timeout=None, close_timeout=0)
    answers = [sender.try_send(bytes(1000)) for _ in range(1000)]
    assert True in answers and answers[-1] is False
    counters = sender.counters
    assert (counters.accepted, counters.dropped.total) == (sum(answers), 0)
    with pytest.raises(bbq.Timeout):
        sender.close()
    with pytest.raises(bbq.Closed):
        sender.try_send(b"late")


def test_every_option_is_taken(server, tmp_path):
    options = {
        "delivery": "any",
        "queue_bytes_max": 2**20,
        "on_full": "block",
        "block_timeout": None,
        "batch_bytes": 4096,
        "linger": 0.0,
        "compress": True,
        "reconnect": {"attempts": 3, "wait": 0.05},
        "delivery_timeout": float("inf"),
        "close_timeout": 10,
        "spool": tmp_path / "spool",
        "spool_bytes_max": 2**26,
        "report_drops": False,
        "name": "test",
        "on_notice": lambda notice: None,
    }
    with bbq.Sender([server.address], ack="received", **options) as sender:
        sender.send("one")
        assert sender.last_sequence == 1
    assert server.lines() == ["one"]


def test_reconnect_parameters_can_be_read_and_changed(nobody):
    sender = bbq.Sender(nobody, reconnect=bbq.Reconnect(attempts=7, wait=0.5, wait_max=2.0))
    assert sender.reconnect == bbq.Reconnect(7, 1, 0.5, 2.0)
    sender.reconnect = bbq.Reconnect(attempts=2, wait=0.001)
    assert sender.reconnect == bbq.Reconnect(2, 1, 0.001, 1.0)
    with pytest.raises(bbq.OptionError, match="attempts"):
        sender.reconnect = bbq.Reconnect(attempts=1, attempts_min=2)
    assert sender.reconnect.attempts == 2
    [progress] = sender.servers
    assert (progress.server, progress.connected) == (nobody, False)
    sender.close()


def test_all_servers_get_every_message(make_server):
    servers = [make_server().start() for _ in range(2)]
    with bbq.Sender([server.address for server in servers], delivery="all") as sender:
        sender.send("one")
        sender.flush()
        assert [progress.acknowledged_sequence for progress in sender.servers] == [1, 1]
    assert [server.lines() for server in servers] == [["one"], ["one"]]


def test_what_a_spool_has_survives_a_kill(server, run_program, tmp_path):
    spool = str(tmp_path / "spool")
    server.stall()
    killed = run_program(
        """
        import os, signal
        import bbq

        sender = bbq.Sender(ADDRESS, spool=SPOOL)
        sender.send("one")
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        ADDRESS=server.address,
        SPOOL=spool,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    server.go_on()
    with bbq.Sender(server.address, spool=spool) as sender:
        assert sender.counters.recovered == 1
        with pytest.raises(bbq.SpoolError, match="in use"):
            bbq.Sender(server.address, spool=spool)
        sender.send("two")
        assert sender.last_sequence == 2
    assert server.lines() == ["one", "two"]


def test_notices_are_told_and_their_errors_do_not_end_the_sender(make_server, monkeypatch):
    server = make_server()
    heard, unraisable, unreachable = [], [], threading.Event()
    monkeypatch.setattr("sys.unraisablehook", unraisable.append)

    def listen(notice):
        heard.append(notice)
        unreachable.set()
        raise RuntimeError("of the application")

    with bbq.Sender(server.address, on_notice=listen) as sender:
        assert unreachable.wait(30)
        server.start()
        sender.send("one")
    assert [notice.kind for notice in heard] == ["unreachable", "connected"]
    assert heard[0].server == server.address and heard[0].why
    assert all(isinstance(args.exc_value, RuntimeError) for args in unraisable) and len(unraisable) == 2
    assert server.lines() == ["one"]


def test_ctrl_c_ends_a_wait(run_program, nobody):
    source = """
    import os, signal, threading
    import bbq

    sender = bbq.Sender(ADDRESS, close_timeout=0)
    sender.send("one")
    for wait in (sender.flush, sender.close):
        interrupt = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        interrupt.start()
        try:
            wait(3600)
        except KeyboardInterrupt:
            print("interrupted")
    # Its close was interrupted: it goes on.
    sender.send("two")
    """
    ended = run_program(source, ADDRESS=nobody)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "interrupted\n" * 2


def test_what_is_not_closed_is_flushed_when_it_is_forgotten(server):
    sender = bbq.Sender(server.address)
    sender.send("one")
    del sender
    assert server.lines() == ["one"]


def test_other_threads_run_while_one_waits(make_server):
    server = make_server()
    sender = bbq.Sender(server.address, queue_bytes_max=2**17, on_full="block", block_timeout=20)
    filled = threading.Event()

    def work():
        for number in range(1000):
            sender.send(f"{number:1000}")
            if sender.counters.accepted == 50:
                filled.set()

    thread = threading.Thread(target=work)
    thread.start()
    # This would not get its turn if the blocked thread held the interpreter.
    assert filled.wait(30)
    server.start()
    thread.join(60)
    assert not thread.is_alive()
    sender.close()
    assert [int(line) for line in server.lines()] == list(range(1000))
