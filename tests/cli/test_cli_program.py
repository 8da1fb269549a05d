"""The program as a whole: its help, its exit codes, and how it crashes."""

import importlib.metadata
import subprocess
import sys
import threading
from typing import Any

import click
import click.testing
import pytest
from helpers.command_line import PROGRAM, Shop, invoke

import capstan.demo.run
from capstan import Config, __version__
from capstan.cli import main
from capstan.cli.console import value_free

SENTINEL = "sentinel-value"


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command of the program, by its words."""
    found = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        found.append((*path, name))
        if isinstance(command, click.Group):
            found += commands(command, (*path, name))
    return found


def test_the_commands_are_these() -> None:
    """The names are a promise: halts and service units repeat them."""
    assert set(commands(main)) == {
        ("run",),
        ("check",),
        ("checkpoint",),
        ("checkpoint", "show"),
        ("checkpoint", "set"),
        ("checkpoint", "add"),
        ("checkpoint", "accept-tables"),
        ("snapshot",),
        ("snapshot", "show"),
        ("snapshot", "redo"),
        ("verify",),
        ("inspect",),
        ("demo",),
    }


def test_help_shows_each_command_in_one_whole_line() -> None:
    """What a command does fits behind its name; nothing is cut off."""
    for group in ((), ("checkpoint",)):
        text = invoke(*group, "--help").stdout
        names = {path[-1] for path in commands(main) if path[:-1] == group}
        listed = [line.split() for line in text.partition("Commands:\n")[2].splitlines()]
        assert {words[0] for words in listed if words and words[0] in names} == names
        assert "..." not in text.partition("Commands:\n")[2]


@pytest.mark.parametrize("path", [(), *commands(main)])
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    """Each has help, under -h too, in lines of a terminal's width, and ends with 0."""
    long, short = invoke(*path, "--help"), invoke(*path, "-h")

    assert long.exit_code == 0
    assert long.stdout == short.stdout
    assert max(map(len, long.stdout.splitlines())) <= 80


def test_exit_codes_are_in_the_help() -> None:
    """Whoever writes a service unit finds them."""
    assert "0 done, 2 usage or configuration, 3 halted" in invoke("--help").stdout


def test_the_version_is_told() -> None:
    """By the installed program, under its name."""
    shown = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=True)

    assert shown.stdout == f"capstan, version {__version__}\n"
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="capstan")
    assert entry.load() is main


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["run"],
        ["run", "/no/such/file.toml"],
        ["check", "--no-such-option"],
        ["demo", "--seconds", "0"],
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    """The code that a service manager leaves alone."""
    result = invoke(*arguments)

    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: ")


@pytest.mark.parametrize("command", ["run", "check", "checkpoint show", "checkpoint accept-tables"])
def test_a_refused_configuration_ends_with_2(shop: Shop, command: str) -> None:
    """One line that names the option, and no file comes into being."""
    shop.file.write_text('tables = ["a.b"]\ncolour = "green"\n')
    result = shop.invoke(command)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "capstan: colour: no such option\n"
    assert shop.files() == set()


def test_without_its_extra_the_program_says_what_to_install() -> None:
    """Exit 2: starting it again does not help."""
    code = "import sys; sys.modules['click'] = None; import capstan.cli"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert ended.stderr == "The command line needs its extra: pip install 'capstan[cli]'\n"


def test_a_crash_ends_with_1_and_tells_no_value(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R265: class and lines of code, neither the text nor that of the exception behind it."""
    shop.file.touch()
    monkeypatch.setattr(Config, "from_toml", crash)
    result = shop.invoke("run")

    assert (result.exit_code, result.stdout) == (1, "")
    first, *trace = result.stderr.splitlines()
    assert first.startswith("capstan: crashed: KeyError at console.py:")
    assert any(line.endswith("in crash") for line in trace)
    assert SENTINEL not in result.stderr.replace("SENTINEL", "")


def crash(*_: Any) -> None:
    raise KeyError(SENTINEL) from ValueError(SENTINEL)


def test_a_crash_of_another_thread_tells_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    """R265: threads, and objects that are collected, print through hooks of their own."""
    before = threading.excepthook, sys.unraisablehook
    with value_free():
        thread = threading.Thread(target=crash)
        thread.start()
        thread.join()
        Dying()

    errors = capsys.readouterr().err
    assert errors.count("capstan: crashed: KeyError") == 2
    assert SENTINEL not in errors
    assert (threading.excepthook, sys.unraisablehook) == before


class Dying:
    """Raises when it is collected."""

    def __del__(self) -> None:
        crash()


def test_ctrl_c_ends_a_command_with_130(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell expects it; 1 would be a crash."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    shop.file.touch()
    monkeypatch.setattr(Config, "from_toml", interrupt)

    assert shop.invoke("check").exit_code == 130


def test_a_reader_that_has_enough_is_no_crash(shop: Shop) -> None:
    """`capstan … | head` says nothing on standard error."""
    shop.file.write_text(
        'tables = ["a.b"]\n[source]\nuser = "u"\nserver_id = 1\n'
        '[store]\nkind = "sqlite"\npath = "s"\n[sink]\nkind = "sqlite"\npath = "m"\n'
    )
    with subprocess.Popen(
        [*PROGRAM, "checkpoint", "show", shop.file],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""


def test_the_demonstrations_options_and_exit_code_are_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`capstan demo` is the demonstration, from an installed package too."""
    asked: list[dict[str, Any]] = []

    def run_demo(**options: Any) -> int:
        asked.append(options)
        return 3

    monkeypatch.setattr(capstan.demo.run, "main", run_demo)

    assert invoke("demo", "--seconds", "5", "--seed", "7", "--keep").exit_code == 3
    assert invoke("demo").exit_code == 3
    assert asked == [
        {"seconds": 5.0, "seed": 7, "keep": True},
        {"seconds": 20.0, "seed": None, "keep": False},
    ]
