"""The house, policed: who imports whom, what core may touch, doors, names, sizes, habits.

Each rule is a function from modules to offences, so that it can be shown to see what it forbids.
"""

import ast
import gc
import importlib
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import attrs
import pytest

import capstan

ROOT = Path(__file__).parents[1]
TREES = ("capstan", "capstan_pytest", "scripts", "examples", "bench", "fuzz", "tests")


@attrs.frozen(eq=False)
class Module:
    """One source file.

    Attributes:
        path: Relative to the project, with forward slashes.
        text: Its source.
        tree: Its syntax tree.
    """

    path: str
    text: str = attrs.field(repr=False)
    tree: ast.Module = attrs.field(repr=False)

    @classmethod
    def of(cls, path: str, text: str) -> "Module":
        """Parse one source text."""
        return cls(path, text, ast.parse(text))

    @property
    def name(self) -> str:
        """The dotted name."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def file(self) -> str:
        """The name without folders."""
        return self.path.rpartition("/")[2]

    def at(self, node: ast.AST, offence: str) -> str:
        """An offence with its place."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {offence}"


@cache
def modules(*trees: str) -> tuple[Module, ...]:
    """Every Python file of these trees."""
    return tuple(module for tree in trees for module in _tree(tree))


@cache
def _tree(tree: str) -> tuple[Module, ...]:
    # Half a million syntax nodes that stay: the collector must not walk them again and again.
    gc.disable()
    try:
        return tuple(
            Module.of(file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8"))
            for file in sorted((ROOT / tree).rglob("*.py"))
        )
    finally:
        gc.freeze()
        gc.enable()


def package() -> tuple[Module, ...]:
    """Every Python file of capstan itself."""
    return modules("capstan", "capstan_pytest")


def within(name: str, places: Iterable[str]) -> bool:
    """Whether a dotted name is one of these places or inside one."""
    return any(name == place or name.startswith(f"{place}.") for place in places)


# --- imports --------------------------------------------------------------------------------------


@attrs.frozen
class Import:
    """One name that a module imports.

    Attributes:
        target: The dotted module.
        scope: Where: a function's name, `TYPE_CHECKING`, or nothing for the module itself.
        line: The line.
    """

    target: str
    scope: str
    line: int

    @property
    def lineno(self) -> int:
        """As syntax nodes have it."""
        return self.line


def imports(module: Module) -> list[Import]:
    """Everything it imports, wherever in the file."""
    return list(_imports(module.tree, ""))


def _imports(node: ast.AST, scope: str) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                for name in names:
                    yield Import(name.name, scope, child.lineno)
            case ast.ImportFrom(module=base, names=names, level=level):
                for name in names:
                    yield Import(
                        _target("." * level + (base or ""), name.name), scope, child.lineno
                    )
            case ast.FunctionDef(name=inner) | ast.AsyncFunctionDef(name=inner):
                yield from _imports(child, inner)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from _imports(child, "TYPE_CHECKING")
            case _:
                yield from _imports(child, scope)


def _target(base: str, name: str) -> str:
    """`from base import name` means the module base.name where there is one."""
    whole = f"{base}.{name}"
    inside = (ROOT / whole.replace(".", "/")).with_suffix(".py")
    is_module = within(base, ["capstan"]) and (inside.exists() or inside.with_suffix("").is_dir())
    return whole if is_module else base


EVERYTHING = ("capstan",)
BASES = ("capstan.sources.base", "capstan.stores.base", "capstan.sinks.base")
EDGE = ("capstan.core", "capstan.config", "capstan.errors", "capstan.telemetry")
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "capstan": EVERYTHING,
    "capstan.pipeline": EVERYTHING,
    "capstan.wiring": EVERYTHING,
    "capstan.config_file": EVERYTHING,
    "capstan.cli": EVERYTHING,
    "capstan.demo": EVERYTHING,
    "capstan.binlog": ("capstan.core", "capstan.sources"),
    "capstan.version": (),
    "capstan.core": ("capstan.core",),
    "capstan.errors": ("capstan.core",),
    "capstan.files": ("capstan.core",),
    "capstan.spool": ("capstan.core", "capstan.files"),
    "capstan.config": ("capstan.core", "capstan.errors"),
    "capstan.telemetry": ("capstan.core", "capstan.telemetry"),
    "capstan.runtime": ("capstan.core.halts",),
    "capstan.supervision": (
        "capstan.supervision",
        "capstan.runtime",
        "capstan.core.halts",
        "capstan.telemetry",
    ),
    "capstan.sources": ("capstan.sources", *EDGE),
    "capstan.stores": ("capstan.stores", "capstan.files", *EDGE),
    "capstan.sinks": ("capstan.sinks", "capstan.files", *EDGE),
    "capstan_pytest": ("capstan.testing",),
    "capstan.testing": (
        "capstan.testing",
        "capstan.core",
        "capstan.config",
        "capstan.pipeline",
        "capstan.runtime",
        "capstan.supervision.tree",
        "capstan.sinks.base",
        "capstan.stores.base",
        "capstan.stores.memory",
        "capstan.demo.mysql_server",
    ),
    "capstan.actors": (
        "capstan.actors.messages",
        "capstan.actors.backfill",
        "capstan.actors.comparing",
        "capstan.actors.reading",
        "capstan.runtime",
        "capstan.core",
        "capstan.config",
        "capstan.telemetry",
        *BASES,
    ),
}
"""Room → what it may import of capstan. A module outside every room is an offence."""

EXCEPTIONS = {
    ("capstan.config", "capstan.config_file", "from_toml"),
    ("capstan.config", "capstan.sinks.base", "TYPE_CHECKING"),
    ("capstan.config", "capstan.stores.base", "TYPE_CHECKING"),
}
"""Module, target, scope: what stands outside the table, by name."""


def room_of(name: str) -> str | None:
    """The room that a module belongs to: the longest that fits, `capstan` for its own file only."""
    fitting = [room for room in MAY_IMPORT if within(name, [room])]
    room = max(fitting, key=len, default=None)
    return None if room == "capstan" != name else room


def against_the_grain(sources: Iterable[Module]) -> list[str]:
    """Imports that the table does not allow."""
    found = []
    for module in sources:
        room = room_of(module.name)
        if room is None:
            found.append(f"{module.path}: in no room of the table")
            continue
        for one in imports(module):
            inward = one.target.startswith(".") or within(one.target, ["capstan"])
            named = (module.name, one.target, one.scope) in EXCEPTIONS
            if inward and not named and not within(one.target, MAY_IMPORT[room]):
                found.append(module.at(one, f"{room} may not import {one.target}"))
    return found


def test_imports_follow_the_table() -> None:
    """Every room imports only what the table allows it, lazily or not."""
    assert against_the_grain(package()) == []


def test_every_exception_to_the_table_is_used() -> None:
    """An exception that nothing needs any more is taken out."""
    used = {(m.name, one.target, one.scope) for m in package() for one in imports(m)}
    assert EXCEPTIONS - used == set()


PUBLIC = ("capstan", "capstan.binlog", "capstan.testing", "capstan.testing.misbehaviours")
"""The modules whose names users may rely on."""


def behind_the_scenes(sources: Iterable[Module]) -> list[str]:
    """Imports of anything but public names, by those who show how to use it."""
    return [
        module.at(one, f"imports {one.target}")
        for module in sources
        for one in imports(module)
        if within(one.target, ["capstan"]) and one.target not in PUBLIC
    ]


def test_examples_use_public_names_only() -> None:
    """What an example shows is what users may rely on."""
    assert behind_the_scenes(modules("examples")) == []


PURE = """
abc base64 bisect codecs collections contextlib datetime decimal enum functools hashlib itertools
json math operator re struct types typing zlib attrs zstandard pymysqlreplication.constants capstan
"""
IMPURE_CALLS = frozenset({"open", "print", "input", "breakpoint", "__import__", "globals"})
CLOCKS = frozenset({"now", "utcnow", "today"})


def impure(sources: Iterable[Module]) -> list[str]:
    """What core may not touch: files, sockets, threads, clocks, chance, logs."""
    found = []
    for module in sources:
        strangers = (one for one in imports(module) if not within(one.target, PURE.split()))
        found += [module.at(one, f"imports {one.target}") for one in strangers]
        for node in ast.walk(module.tree):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                    found.append(module.at(node, f"calls {name}()"))
                case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCKS:
                    found.append(module.at(node, f"asks the clock: {name}()"))
    return found


def test_core_is_pure() -> None:
    """R56: what core judges depends on its arguments alone."""
    assert impure(modules("capstan/core")) == []


DOORS: dict[str, tuple[str, ...]] = {
    "attrs": EVERYTHING,
    "pykka": ("capstan.runtime",),
    "pymysql": ("capstan.sources", "capstan.demo"),
    "tenacity": ("capstan.sources.redial",),
    "pymysqlreplication": ("capstan.core",),
    "zstandard": ("capstan.core",),
    "sqlite3": ("capstan.files", "capstan.stores", "capstan.sinks", "capstan.demo"),
    "click": ("capstan.cli",),
    "rich": ("capstan.cli", "capstan.demo"),
    "pytest": ("capstan_pytest",),
}
"""What comes from outside → the only places that import it."""


def beside_the_door(sources: Iterable[Module]) -> list[str]:
    """Dependencies imported where they have no door, or that have none at all."""
    found = []
    for module in sources:
        for one in imports(module):
            top = one.target.partition(".")[0]
            if top in DOORS:
                if not within(module.name, DOORS[top]):
                    found.append(module.at(one, f"{top} has another door"))
            elif top not in sys.stdlib_module_names and top not in ("capstan", ""):
                found.append(module.at(one, f"{top} has no door"))
    return found


def test_each_dependency_has_one_door() -> None:
    """Only one room knows that a library exists, so that only one has to follow its changes."""
    assert beside_the_door(package()) == []


# --- files and sizes ------------------------------------------------------------------------------

SHARED_NAMES = frozenset({"__init__.py", "__main__.py", "base.py", "conftest.py"})
LONGEST_FILE = 450
LONGEST_FUNCTION = 60


def twice_named(sources: Iterable[Module]) -> list[str]:
    """File names that two folders share."""
    counted = Counter(module.file for module in sources)
    return [name for name, count in counted.items() if count > 1 and name not in SHARED_NAMES]


def test_file_names_are_unique() -> None:
    """A file name in a traceback names one file and so one room."""
    assert twice_named(modules(*TREES)) == []


def speechless(sources: Iterable[Module]) -> list[str]:
    """Modules without a docstring."""
    return [module.path for module in sources if not ast.get_docstring(module.tree)]


def test_every_module_says_what_it_is() -> None:
    """Each file opens with a docstring."""
    assert speechless(modules(*TREES)) == []


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def overlong(sources: Iterable[Module]) -> list[str]:
    """Files and functions over the limit; module-level constants and docstrings do not count."""
    found = []
    for module in sources:
        constants = (n for n in module.tree.body if isinstance(n, ast.Assign | ast.AnnAssign))
        size = len(module.text.splitlines()) - sum(map(_lines, constants))
        if size > LONGEST_FILE:
            found.append(f"{module.path}: {size} lines")
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = _lines(node.body[0]) if ast.get_docstring(node) else 0
                if _lines(node) - docstring > LONGEST_FUNCTION:
                    found.append(module.at(node, f"{node.name}() has {_lines(node)} lines"))
    return found


def test_nothing_is_too_long_to_read() -> None:
    """A file has one subject, a function one thought."""
    assert overlong(modules("capstan", "capstan_pytest", "scripts", "examples", "bench")) == []


# --- habits ---------------------------------------------------------------------------------------

BROAD = frozenset({"Exception", "BaseException"})


def comments(module: Module) -> dict[int, str]:
    """Line → comment."""
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def _broad(caught: ast.expr | None) -> bool:
    match caught:
        case None:
            return True
        case ast.Tuple(elts=parts):
            return any(_broad(part) for part in parts)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in BROAD
    return False


def _swallows(node: ast.AST) -> bool:
    match node:
        case ast.ExceptHandler(body=[*_, ast.Raise(exc=None)]):
            return False
        case ast.ExceptHandler(type=caught):
            return _broad(caught)
        case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=caught):
            return any(_broad(one) for one in caught)
    return False


def unexplained(sources: Iterable[Module]) -> list[str]:
    """Broad excepts that neither raise again nor give a reason: `# noqa: BLE001 - why`."""
    found = []
    for module in sources:
        said = comments(module)
        for node in ast.walk(module.tree):
            if _swallows(node):
                comment = said.get(getattr(node, "lineno", 0), "")
                reason = comment.partition(" - ")[2] if "noqa" in comment else comment.lstrip("# ")
                if not reason:
                    found.append(module.at(node, "catches everything and does not say why"))
    return found


def test_broad_excepts_give_their_reason() -> None:
    """R266: whoever catches everything says why nothing is lost by it."""
    assert unexplained(modules(*TREES)) == []


def stops_everybody(sources: Iterable[Module]) -> list[str]:
    """Uses of pykka's stop_all, which ends the actors of the whole process."""
    return [
        module.at(node, "stop_all")
        for module in sources
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Attribute) and node.attr == "stop_all")
        or (isinstance(node, ast.Name) and node.id == "stop_all")
    ]


def test_nobody_stops_everybodys_actors() -> None:
    """A pipeline never touches actors that are not its own."""
    assert stops_everybody(package()) == []


EXCUSES = frozenset({"skip", "skipif", "xfail", "importorskip"})


def excused(sources: Iterable[Module]) -> list[str]:
    """Tests that may not run, or may fail."""
    return [
        module.at(node, f"pytest.{node.attr}")
        for module in sources
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr in EXCUSES
    ]


def test_no_test_is_excused() -> None:
    """Each test runs everywhere and must pass."""
    assert excused(modules("tests")) == []


def wordless(sources: Iterable[Module]) -> list[str]:
    """Tests without a docstring."""
    return [
        module.at(node, node.name)
        for module in sources
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]


def test_every_test_says_what_it_proves() -> None:
    """A test's docstring is a sentence: what holds, and the numbers it proves."""
    assert wordless(m for m in modules("tests") if m.file.startswith("test_")) == []


# --- public names ---------------------------------------------------------------------------------

PROMISED = """
ALL Change Column Config ConfigError Delivery FunctionSink Gtid GtidSet Halt HaltReason
JsonLinesSink Limits MemoryStore Op Pipeline PipelineHalted SchemaChange Sink SnapshotMeta Source
SqliteMirror SqliteStore Store Transaction
"""


def test_all_lists_the_public_names_and_nothing_else() -> None:
    """Each has a home, comes from there, and is told to whoever looks."""
    assert set(capstan.__all__) == capstan._HOME_OF.keys() | {"__version__"}
    assert len(set(capstan.__all__)) == len(capstan.__all__)
    assert set(capstan.__all__) <= set(dir(capstan))
    for name, home in capstan._HOME_OF.items():
        assert getattr(capstan, name) is getattr(importlib.import_module(home), name)
    with pytest.raises(AttributeError, match="pipelien"):
        capstan.pipelien  # noqa: B018 - the look is the test


def test_promised_names_are_public() -> None:
    """The names that users, examples and pages call stay."""
    assert set(PROMISED.split()) - set(capstan.__all__) == set()


# --- the rules see what they forbid ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (against_the_grain, "capstan/core/x.py", "import capstan.runtime"),
        (against_the_grain, "capstan/core/x.py", "from capstan import config"),
        (against_the_grain, "capstan/core/x.py", "from . import gtid"),
        (against_the_grain, "capstan/core/x.py", "from capstan import Pipeline"),
        (against_the_grain, "capstan/runtime.py", "from capstan.core.gtid import Gtid"),
        (
            against_the_grain,
            "capstan/actors/x.py",
            "from capstan.actors.assembler import Assembler",
        ),
        (against_the_grain, "capstan/actors/x.py", "from capstan.sinks.jsonl import JsonLinesSink"),
        (against_the_grain, "capstan/actors/x.py", "import capstan.supervision.child"),
        (against_the_grain, "capstan/sinks/x.py", "from capstan.stores import base"),
        (against_the_grain, "capstan/sinks/x.py", "def f():\n    import capstan.runtime"),
        (against_the_grain, "capstan/supervision/x.py", "from capstan import config"),
        (against_the_grain, "capstan/config.py", "import capstan.config_file"),
        (against_the_grain, "capstan/newcomer.py", ""),
        (behind_the_scenes, "examples/x.py", "from capstan.core.halts import Halt"),
        (impure, "capstan/core/x.py", "import os"),
        (impure, "capstan/core/x.py", "from time import monotonic"),
        (impure, "capstan/core/x.py", "def f():\n    import random"),
        (impure, "capstan/core/x.py", "import pymysqlreplication"),
        (impure, "capstan/core/x.py", "open('x')"),
        (impure, "capstan/core/x.py", "print('x')"),
        (impure, "capstan/core/x.py", "from datetime import datetime\ndatetime.now()"),
        (beside_the_door, "capstan/actors/x.py", "import pykka"),
        (beside_the_door, "capstan/pipeline.py", "from pymysql.connections import Connection"),
        (beside_the_door, "capstan/sources/live.py", "import tenacity"),
        (beside_the_door, "capstan/core/x.py", "import requests"),
        (speechless, "capstan/core/x.py", "# only a comment"),
        (overlong, "capstan/core/x.py", "x()\n" * 451),
        (overlong, "capstan/core/x.py", "def f():\n" + "    x()\n" * 60),
        (unexplained, "capstan/x.py", "try:\n    f()\nexcept Exception:\n    pass"),
        (unexplained, "capstan/x.py", "try:\n    f()\nexcept:  # noqa: E722\n    pass"),
        (unexplained, "capstan/x.py", "try:\n    f()\nexcept (KeyError, BaseException):\n    pass"),
        (unexplained, "capstan/x.py", "with contextlib.suppress(Exception):\n    f()"),
        (stops_everybody, "capstan/x.py", "pykka.ActorRegistry.stop_all()"),
        (excused, "tests/test_x.py", "@pytest.mark.skip\ndef test_x(): ..."),
        (wordless, "tests/test_x.py", "def test_x(): ..."),
    ],
)
def test_a_rule_sees_what_it_forbids(
    rule: Callable[[Iterable[Module]], list[str]], path: str, text: str
) -> None:
    """Each rule finds exactly one offence in a file that commits one."""
    assert len(rule([Module.of(path, text)])) == 1


def test_a_name_used_twice_is_seen() -> None:
    """Two files of one name in two folders are found; shared names are not."""
    paths = ["capstan/a/x.py", "capstan/b/x.py", "capstan/a/base.py", "capstan/b/base.py"]
    assert twice_named(Module.of(path, "") for path in paths) == ["x.py"]


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (against_the_grain, "capstan/actors/x.py", "from capstan.sinks.base import Sink"),
        (
            against_the_grain,
            "capstan/config.py",
            "def from_toml():\n    import capstan.config_file",
        ),
        (behind_the_scenes, "examples/x.py", "from capstan import Pipeline\nimport capstan, os"),
        (impure, "capstan/core/x.py", "from pymysqlreplication.constants import BINLOG"),
        (overlong, "capstan/core/x.py", "X = [\n" + "    1,\n" * 500 + "]"),
        (
            unexplained,
            "capstan/x.py",
            "try:\n    f()\nexcept Exception:  # noqa: BLE001 - x\n    g()",
        ),
        (unexplained, "capstan/x.py", "try:\n    f()\nexcept KeyError:\n    pass"),
        (unexplained, "capstan/x.py", "try:\n    f()\nexcept BaseException:\n    g()\n    raise"),
    ],
)
def test_a_rule_lets_pass_what_is_allowed(
    rule: Callable[[Iterable[Module]], list[str]], path: str, text: str
) -> None:
    """No rule cries wolf."""
    assert rule([Module.of(path, text)]) == []
