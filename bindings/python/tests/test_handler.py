"""If these fail, logging to bbq can break the program that logs, or loses what it logs."""

import copy
import logging
import logging.config
import logging.handlers
import queue
import threading
import time

import bbq
import pytest

# A log call into a queue with room is a matter of microseconds; this is for machines that stand still now and then.
STUCK_SECONDS = 20


@pytest.fixture
def logger():
    logger = logging.Logger("test", logging.DEBUG)
    yield logger
    for handler in logger.handlers:
        handler.close()


def test_records_are_formatted_and_sent(server, logger):
    formatter = logging.Formatter("%(levelname)s %(name)s: %(message)s")
    logger.addHandler(bbq.Handler(server.address, level=logging.INFO, formatter=formatter))
    logger.debug("not this one")
    logger.info("hello %s", "w\u00f6rld")
    try:
        raise ValueError("wrong")
    except ValueError:
        logger.exception("failed")
    logging.shutdown([lambda: logger.handlers[0]])
    lines = server.lines()
    assert lines[:3] == ["INFO test: hello w\u00f6rld", "ERROR test: failed", "Traceback (most recent call last):"]
    assert lines[-1] == "ValueError: wrong"


def test_filters_decide_as_with_any_handler(server, logger):
    handler = bbq.Handler(server.address)

    def replace(record):
        if record.msg == "not this one":
            return False
        record = copy.copy(record)
        record.msg = f"<{record.msg}>"
        return record

    handler.addFilter(lambda record: record.msg != "nor this one")
    # Filters that answer another record came with 3.12.
    if "LogRecord" in str(logging.Filterer.filter.__doc__):
        handler.addFilter(replace)
    else:
        handler.addFilter(lambda record: bool(replace(record)))
    logger.addHandler(handler)
    for message in ("one", "not this one", "nor this one"):
        logger.info(message)
    handler.close()
    assert [line.strip("<>") for line in server.lines()] == ["one"]


def test_a_sender_can_be_shared_and_is_left_open(server, logger):
    with bbq.Sender(server.address) as sender:
        handler = bbq.Handler(sender=sender)
        assert handler.sender is sender
        logger.addHandler(handler)
        logger.info("one")
        handler.close()
        sender.send("two")
    assert server.lines() == ["one", "two"]


def test_wrong_options_are_told_when_the_handler_is_made(server):
    with pytest.raises(TypeError, match="either servers or a sender"):
        bbq.Handler()
    with pytest.raises(bbq.OptionError, match="on_full"):
        bbq.Handler(server.address, on_full="never")
    with bbq.Sender(server.address) as sender, pytest.raises(TypeError, match="ack"):
        bbq.Handler(sender=sender, ack="none")


def test_a_configuration_dict_makes_one(server):
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"short": {"format": "%(levelname)s %(message)s"}},
            "handlers": {
                "bbq": {
                    "class": "bbq.Handler",
                    "servers": [server.address],
                    "level": "INFO",
                    "formatter": "short",
                    "ack": "received",
                    "reconnect": {"attempts": 3},
                }
            },
            "loggers": {"configured": {"level": "DEBUG", "handlers": ["bbq"], "propagate": False}},
        }
    )
    logger = logging.getLogger("configured")
    [handler] = logger.handlers
    try:
        assert handler.sender.reconnect.attempts == 3
        logger.debug("not this one")
        logger.warning("one")
    finally:
        logger.removeHandler(handler)
        handler.close()
    assert server.lines() == ["WARNING one"]


def test_a_second_configuration_does_not_silence_the_handlers_of_the_first(server, run_program):
    source = """
import logging.config

def configure(handlers, loggers):
    logging.config.dictConfig(
        {"version": 1, "disable_existing_loggers": False, "handlers": handlers, "loggers": loggers}
    )

configure({"bbq": {"class": "bbq.Handler", "servers": ADDRESS}}, {"access": {"level": "INFO", "handlers": ["bbq"]}})
access = logging.getLogger("access")
access.info("before")
# As an application does that its server has configured already: every handler there is gets closed.
configure({"null": {"class": "logging.NullHandler"}}, {"app": {"handlers": ["null"]}})
for number in range(2000):
    access.info("%d", number)
assert access.handlers[0].errors == 0
"""
    ended = run_program(source, ADDRESS=server.address)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert server.lines() == ["before", *map(str, range(2000))]


def test_what_is_logged_when_the_process_has_ended_all_is_shown(server, run_program):
    source = """
import atexit, logging
# Called after what logging and bbq do at exit.
atexit.register(lambda: logging.error("too late"))
import logging.handlers
import bbq
logging.getLogger().addHandler(bbq.Handler(ADDRESS))
logging.error("in time")
logging.getLogger().handlers[0].close()
logging.error("in time, too")
logging.getLogger().handlers[0].close()
"""
    ended = run_program(source, ADDRESS=server.address)
    assert ended.returncode == 0 and "the sender is closed" in ended.stderr
    assert server.lines() == ["in time", "in time, too"]


def test_behind_a_queue(server, logger):
    records = queue.SimpleQueue()
    handler = bbq.Handler(server.address)
    listener = logging.handlers.QueueListener(records, handler)
    logger.addHandler(logging.handlers.QueueHandler(records))
    listener.start()
    for number in range(1000):
        logger.info("%d", number)
    listener.stop()
    handler.close()
    assert server.lines() == [str(number) for number in range(1000)]


def test_threads(server, logger):
    handler = bbq.Handler(server.address)
    logger.addHandler(handler)

    def work(thread):
        for number in range(1000):
            logger.info("%d %d", thread, number)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handler.close()
    assert handler.errors == 0
    assert sorted(server.lines()) == sorted(f"{thread} {number}" for thread in range(4) for number in range(1000))


class Unspeakable:
    def __str__(self):
        raise RuntimeError("no words")

    def __reduce__(self):
        raise TypeError("cannot be pickled")


def test_what_cannot_be_formatted_is_counted_and_shown(server, logger, capsys):
    handler = bbq.Handler(server.address)
    logger.addHandler(handler)
    logger.info("%d", "not a number")
    logger.info("%s %s", "one argument")
    logger.info("%s", Unspeakable())
    assert handler.errors == 3
    # As Python's own handlers do it, with the line of the application.
    assert capsys.readouterr().err.count("--- Logging error ---") == 3
    logger.info("next")
    handler.close()
    assert server.lines() == ["next"]


def test_nothing_is_shown_if_logging_says_so(nobody, logger, capsys, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)
    handler = bbq.Handler(nobody, close_timeout=0)
    logger.addHandler(handler)
    logger.info("%d", "not a number")
    handler.close()
    assert handler.errors == 1
    assert capsys.readouterr().err == ""


def test_half_a_character_is_shown_and_not_lost(server, logger):
    handler = bbq.Handler(server.address)
    logger.addHandler(handler)
    logger.info("file %s", b"\xff.txt".decode("utf-8", "surrogateescape"))
    handler.close()
    assert handler.errors == 0
    assert server.lines() == ["file \\udcff.txt"]


def test_a_closed_sender_is_shown_once_and_every_record_counted(server, logger, capsys):
    sender = bbq.Sender(server.address)
    handler = bbq.Handler(sender=sender)
    logger.addHandler(handler)
    sender.close()
    for _ in range(100):
        logger.info("nobody hears this")
    assert handler.errors == sender.counters.dropped.closed == 100
    assert capsys.readouterr().err.count("--- Logging error ---") == 1


@pytest.mark.parametrize("address", ["nobody", "bbq://no-such-host.invalid:7700", "bbq+unix:///no/such/socket"])
def test_a_server_that_is_not_there_is_no_error(nobody, address, logger, capsys):
    handler = bbq.Handler(nobody if address == "nobody" else address, queue_bytes_max=2**17, close_timeout=0)
    logger.addHandler(handler)
    text = "x" * 1000
    began = time.monotonic()
    for _ in range(1000):
        logger.info(text)
    handler.flush()
    assert time.monotonic() - began < STUCK_SECONDS
    counters = handler.sender.counters
    assert counters.accepted + counters.dropped.full == 1000 and counters.dropped.full > 0
    assert handler.errors == 0
    assert capsys.readouterr().err == ""
    handler.close()


@pytest.mark.parametrize(("options", "reason"), [({}, "full"), ({"on_full": "drop-oldest"}, "oldest")])
def test_a_full_queue_drops_the_newest_record_unless_an_option_says_otherwise(nobody, logger, options, reason):
    # `block` would wait for so long.
    handler = bbq.Handler(nobody, queue_bytes_max=2**17, block_timeout=STUCK_SECONDS, close_timeout=0, **options)
    logger.addHandler(handler)
    began = time.monotonic()
    for _ in range(1000):
        logger.info("x" * 1000)
        assert time.monotonic() - began < STUCK_SECONDS
    dropped = handler.sender.counters.dropped
    assert getattr(dropped, reason) == dropped.total > 0
    handler.close()


def test_no_call_is_stuck_while_the_server_stands_still(server, logger):
    handler = bbq.Handler(server.address, queue_bytes_max=2**20, close_timeout=60)
    logger.addHandler(handler)
    logger.info("before")
    handler.flush()
    server.stall()
    text = "x" * 1000
    began = time.monotonic()
    for _ in range(20_000):
        logger.info(text)
    assert time.monotonic() - began < STUCK_SECONDS
    dropped = handler.sender.counters.dropped.full
    assert dropped > 0
    server.go_on()
    handler.close()
    counters = handler.sender.counters
    assert counters.acknowledged == counters.accepted
    lines = server.lines()
    assert lines.count(text) == 20_000 - dropped
    # The server is told what it did not get.
    assert any("messages were dropped" in line for line in lines)
