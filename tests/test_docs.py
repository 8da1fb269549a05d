"""The pages: those made from code are current, and what pages say of the code is true."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import attrs
import pytest

from capstan import (
    Config,
    Delivery,
    FunctionSink,
    JsonLinesSink,
    MemoryStore,
    Snapshot,
    Source,
    SqliteMirror,
    SqliteStore,
)
from capstan.supervision.child import ChildSpec, SupervisorSpec
from capstan.telemetry.board import Board
from capstan.telemetry.hooks import Hooks
from capstan.wiring import Wiring

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
GENERATED = ("halts", "states", "requirements", "faults")


def load_generator() -> ModuleType:
    """scripts/generate_docs.py as a module; scripts are no package."""
    spec = importlib.util.spec_from_file_location(
        "generate_docs", ROOT / "scripts" / "generate_docs.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generator = load_generator()


# --- generated pages ------------------------------------------------------------------------------


def test_these_pages_are_generated() -> None:
    """Each generated page is compared below."""
    assert tuple(generator.PAGES) == GENERATED


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_page_is_current(name: str) -> None:
    """R164: the page is what the code says now; `make docs` writes it anew."""
    written = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert written == generator.PAGES[name](), "run: make docs"


def test_every_halt_has_its_section() -> None:
    """R54, R164: the document that a halt names exists, under the anchor it names."""
    page = (ROOT / "docs" / "halts.md").read_text(encoding="utf-8")
    headings = re.findall(r"^### (\S+)$", page, re.MULTILINE)
    assert headings == [reason.value for reason in generator.HaltReason]


# --- requirements ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("docstring", "numbers"),
    [
        ("R43: adjacent intervals merge.", ["R43"]),
        ("R43, D16: both.", ["R43", "D16"]),
        ("R31-R34: a range.", ["R31", "R32", "R33", "R34"]),
        ("R31\u2013R33: a dash.", ["R31", "R32", "R33"]),
        ("R31 to R32, D1-2: words, and no second letter.", ["R31", "R32", "D1", "D2"]),
        ("MySQL 8.0, D and R, SR43, 0xD3, R.", []),
    ],
)
def test_numbers_are_read_from_docstrings(docstring: str, numbers: list[str]) -> None:
    """A docstring names single numbers and ranges of them."""
    assert [f"{letter}{n}" for letter, n in generator.numbers_in(docstring)] == numbers


@pytest.mark.parametrize("docstring", ["R0: x", "R269: x", "D30: x", "R44-R43: x", "R260-R270: x"])
def test_a_number_that_does_not_exist_is_refused(docstring: str) -> None:
    """A slip of the pen in a docstring is found when the page is written."""
    with pytest.raises(generator.UnknownNumberError):
        list(generator.numbers_in(docstring))


def test_sections_cover_every_number_once() -> None:
    """Every requirement and every decision has one place on the page."""
    places = [
        f"{letter}{number}"
        for letter, first, last, _ in generator.SECTIONS
        for number in range(first, last + 1)
    ]
    expected = [f"D{n}" for n in range(1, 30)] + [f"R{n}" for n in range(1, 269)]
    assert places == expected


def test_proofs_name_file_class_and_test(tmp_path: Path) -> None:
    """A test is found by its docstring, in a class too; helpers and other files are not read."""
    folder = tmp_path / "tests" / "core"
    folder.mkdir(parents=True)
    (folder / "test_it.py").write_text(
        'def test_one():\n    """R1, R1: x."""\n'
        'class TestTwo:\n    def test_two(self):\n        """R1-R2: y."""\n'
        'def helper():\n    """R3: no test."""\n'
        "def test_silent():\n    pass\n"
    )
    (folder / "conftest.py").write_text('def test_no():\n    """R4: no test file."""\n')

    assert generator.proofs(tmp_path / "tests") == {
        ("R", 1): ["tests/core/test_it.py::test_one", "tests/core/test_it.py::TestTwo::test_two"],
        ("R", 2): ["tests/core/test_it.py::TestTwo::test_two"],
    }


# --- README ---------------------------------------------------------------------------------------


def blocks(language: str) -> list[str]:
    """The README's fenced blocks in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_first_screen_has_exactly_two_commands() -> None:
    """Who opens the README sees what to type, and no third thing."""
    first = blocks("sh")[0]
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]
    assert README.index(first) < README.index(blocks("python")[0]) < README.index("\n## ")


def test_the_program_is_the_example() -> None:
    """The program in the README is the one that is tested, in fifteen lines of code."""
    (program,) = blocks("python")
    assert program == (ROOT / "examples" / "print_changes.py").read_text(encoding="utf-8")
    assert len([line for line in program.splitlines() if line]) == 15


def _tree(spec: SupervisorSpec | ChildSpec, depth: int = 0) -> Iterator[tuple[int, str]]:
    yield depth, spec.id
    for child in getattr(spec, "children", ()):
        yield from _tree(child, depth + 1)


def test_the_picture_of_the_tree_is_the_tree() -> None:
    """What the README draws is what a pipeline starts, in that order."""
    (picture,) = (block for block in blocks("") if block.startswith("capstan "))
    drawn = [re.match(r"([│├└─ ]*)(\w+)", line) for line in picture.splitlines()]
    config = Config(
        source=Source(user="repl", server_id=1),
        tables=["shop.*"],
        sink=FunctionSink(print, on_snapshot=print),
        store=MemoryStore(),
        snapshot=Snapshot(),
    )
    spec = Wiring(config, Board(), Hooks(())).spec()
    assert [(len(line[1]) // 3, line[2]) for line in drawn if line] == list(_tree(spec))


def test_the_configuration_file_is_one_that_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The TOML of the README is accepted as it stands and means what is said there."""
    monkeypatch.setenv("PASSWORD", "x")
    file = tmp_path / "shop.toml"
    (text,) = blocks("toml")
    file.write_text(text, encoding="utf-8")

    config = Config.from_toml(file)

    assert config.tables.texts == ("shop.*",)
    assert isinstance(config.sink, SqliteMirror)
    assert isinstance(config.store, SqliteStore)


def test_the_guarantee_is_stated_exactly() -> None:
    """R268: at least once with its window, exactly once only together with a position."""
    paragraphs = re.split(r"\n\n|\n- ", README)
    (window,) = (text for text in paragraphs if "At least once" in text)
    (once,) = (text for text in paragraphs if "exactly once" in text.lower())
    batch = attrs.fields(Delivery).max_batch.default

    assert "a window of one batch" in window
    assert f"({batch} by default)" in window
    assert "with 1 the window is one transaction" in window.replace("\n", " ")
    assert "position()" in once
    assert "SqliteMirror" in once


def test_exactly_once_is_claimed_by_the_sink_that_can() -> None:
    """R268: of the sinks that come with capstan only the mirror keeps a position."""
    sinks = (FunctionSink, JsonLinesSink, SqliteMirror)
    assert [sink for sink in sinks if "position" in vars(sink)] == [SqliteMirror]


def test_make_targets_that_pages_name_exist() -> None:
    """Every `make …` on a page is one that the Makefile has."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"(?:^|`)make ([\w-]+)", pages, re.MULTILINE))
    assert {"demo", "test", "check", "bench", "docs"} <= named
    assert named - targets == set()


# --- all pages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """No page links to a file or a heading that is not there."""
    dead = [
        link
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if not link.startswith("http") and not _leads_somewhere(page, link)
    ]
    assert dead == []


def _leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    if not target.exists() or not anchor:
        return target.exists()
    headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
    return anchor in {re.sub(r"[^\w\- ]", "", h).lower().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_files_that_a_page_names_exist(page: Path) -> None:
    """A page that walks through the code names files that are there."""
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:[\w]+/)+\w+\.(?:py|md|toml))(?:::\w+)*`", text)
    places = (ROOT, ROOT / "capstan", ROOT / "docs")
    assert [name for name in named if not any((p / name).is_file() for p in places)] == []


def test_the_generator_refuses_a_page_it_does_not_know() -> None:
    """A misspelt page name is an error, not an empty run."""
    with pytest.raises(SystemExit, match="no such page: halt"):
        generator.main(["halt"])
