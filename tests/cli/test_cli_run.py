"""`capstan run` in a process of its own: how it streams, and each way in which it ends."""

import json
import signal
import socket
import sys

import pytest
from helpers.command_line import PROGRAM, Shop, halt_in
from helpers.mirror_reader import mirrored
from helpers.mysql import Database
from helpers.pipelines import executed
from helpers.waiting import wait_until


def test_until_ends_the_run_when_the_set_is_processed(items: Database, shop: Shop) -> None:
    """R31: exit 0 means that everything of the set is in the sink and in the store."""
    items.execute("INSERT INTO items VALUES (1, 'a'), (2, 'b')")
    goal = executed(items.server)

    assert shop.start("run", "--until", str(goal)).ended() == (0, "", "")
    assert mirrored(shop.mirror, f"{items.name}.items") == [(1, "a"), (2, "b")]
    assert shop.shown()["watermark"] == str(goal)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_and_ends_with_0(
    printed: Database, shop: Shop, number: signal.Signals
) -> None:
    """What the sink was given is stored; nothing is said."""
    process = shop.stream(printed.server)
    printed.execute("INSERT INTO items VALUES (1, 'ä')")
    line = json.loads(process.read_line())
    process.send(number)

    assert process.ended() == (0, "", "")
    assert line["record"] == {"id": 1, "name": "ä"}
    assert shop.shown()["anchor"] == line["gtid"]


def test_a_run_that_was_stopped_before_its_end_does_not_say_it_is_done(
    items: Database, shop: Shop
) -> None:
    """With --until, exit 0 is a claim; a stopped run ends as the signal would have ended it."""
    process = shop.stream(items.server, "--until", f"{items.server.server_uuid}:1-999999999")
    process.send(signal.SIGTERM)

    code, _, errors = process.ended()
    assert code == -signal.SIGTERM
    assert errors == "capstan: stopped before everything of --until was processed\n"


@pytest.mark.parametrize("backlog", [None, 5], ids=["refused", "mute"])
def test_a_signal_ends_a_run_that_cannot_dial(
    items: Database, shop: Shop, backlog: int | None
) -> None:
    """While the server is down, and while the very first dial gets no answer."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if backlog is not None:
            listener.listen(backlog)
        text = shop.file.read_text()
        port = listener.getsockname()[1]
        shop.file.write_text(text.replace(f"port = {items.server.port}", f"port = {port}"))
        shop.state.unlink()
        process = shop.start("run")
        wait_until(shop.state.exists, what="the pipeline's start")
        process.send(signal.SIGTERM)

        assert process.ended(8) == (0, "", "")


def fill_standard_output(printed: Database) -> None:
    """More than a pipe holds, in several transactions."""
    for number in range(1, 201):
        printed.execute("INSERT INTO items VALUES (%s, REPEAT('x', 2000))", number)


HOST_STREAM = """
import sys
from capstan import config_file
from capstan.cli import main
config_file._standard_output = lambda: sys.stdout
main()
"""


@pytest.mark.parametrize(
    "program", [PROGRAM, (sys.executable, "-c", HOST_STREAM)], ids=["installed", "sys.stdout"]
)
def test_a_hung_sink_does_not_keep_the_process(
    printed: Database, shop: Shop, program: tuple[str, ...]
) -> None:
    """R54: a reader that does not read stalls the sink; the halt is told, and exit is 3.

    Also when the sink hangs with a lock that the interpreter wants at its end.
    """
    with shop.file.open("a") as configuration:
        configuration.write("[delivery]\nsink_timeout = 0.5\n")
    fill_standard_output(printed)

    code, errors = shop.start("run", program=program).ended_unread()
    assert code == 3
    assert halt_in(errors)["reason"] == "sink_stalled"


def test_a_second_signal_ends_it_at_once(printed: Database, shop: Shop) -> None:
    """The first one drains into a sink that hangs; nobody has to wait for that."""
    fill_standard_output(printed)
    process = shop.start("run")
    process.read_line()
    process.send(signal.SIGTERM)
    assert not process.has_ended()
    process.send(signal.SIGINT)

    code, errors = process.ended_unread(8)
    assert code in {-signal.SIGTERM, -signal.SIGINT}, "whichever was heard second"
    assert errors == ""


def test_a_reader_that_went_away_is_a_halt(printed: Database, shop: Shop) -> None:
    """R54: a broken pipe is the sink's refusal, and the interpreter adds nothing to it."""
    process = shop.start("run")
    process.close_output()
    printed.execute("INSERT INTO items VALUES (1, 'sentinel')")

    code, errors = process.ended_unread()
    assert code == 3
    halt = halt_in(errors)
    assert (halt["reason"], halt["fault"]) == ("sink_failed", "sink")
    assert halt["detail"] == "a stream: BrokenPipeError EPIPE"


def test_a_halt_before_until_ends_with_3(items: Database, shop: Shop) -> None:
    """R54: reason, detail, meaning and remedy are told in one line; no value is in it."""
    with items.connect() as session:
        cursor = session.cursor()
        cursor.execute("SET binlog_format = STATEMENT")
        cursor.execute("INSERT INTO items VALUES (1, 'sentinel')")

    code, output, errors = shop.start("run", "--until", str(executed(items.server))).ended()
    assert (code, output) == (3, "")
    halt = halt_in(errors)
    assert halt["reason"] == "statement_based_change"
    assert set(halt) >= {"reason", "detail", "meaning", "fault", "remedy", "document", "also"}
    assert "capstan checkpoint add" in halt["remedy"]
    assert "sentinel" not in errors


def test_a_second_run_on_one_store_is_refused(items: Database, shop: Shop) -> None:
    """A store has one writer; the first run goes on."""
    first = shop.stream(items.server)

    second = shop.invoke("run")
    assert second.exit_code == 3
    assert halt_in(second.stderr)["reason"] == "store_locked"
    first.send(signal.SIGTERM)
    assert first.ended()[0] == 0
