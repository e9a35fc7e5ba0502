"""Imports between the modules run downwards only, and a worker starts with little.

Read from the source, not by importing. An import under `if TYPE_CHECKING` is no dependency. One
inside a function is, but costs nothing when a worker starts; neither does one that only stands in
for what this Python lacks (`except ImportError`).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.support.scripts import ROOT

PACKAGE = "asyncpool"

# A module may import from its own floor and from those below. "x.*" is all of a folder.
FLOORS = {
    "words": ["errors", "retry", "jobs", "events", "options"],
    "bytes": [
        *["frames", "raised", "functions", "by_value", "references"],
        *["journal.lines", "journal.reading", "journal.records", "journal.index"],
    ],
    "decisions": ["dispatch.*"],
    "child": ["worker.*"],  # and has rules of its own, see below
    "shells": [
        *["processes.*", "crew", "journal.__init__", "journal.disk", "journal.file"],
        *["journal.ledger", "journal.options", "journal.scribe", "journal.recorder"],
        *["journal.endings", "journal.interrupts", "journal.crew"],
    ],
    "face": [
        *["job", "hub", "mapping", "pool", "testing", "demo.*", "cli", "__main__", "__init__"],
        *["submitter", "intake", "delivery", "narrator", "memory", "explain", "room", "views"],
        *["journal.command", "journal.repair", "journal.survey"],
        *["journal.session"],
    ],
}

# The decisions are pure.
NOT_FOR_DECISIONS = {"asyncio", "os", "time", "random", "socket", "threading", "subprocess"}

# The child's room: of the package it has only itself and what it shares with the parent.
CHILD = ["worker.*"]
SHARED = ["frames", "raised", "by_value"]
CHILD_STARTS_WITH = "worker.main"

# What is imported before the first job is paid at every respawn.
NOT_AT_CHILDS_START = {
    *["asyncio", "dataclasses", "enum", "inspect", "logging", "pickle", "signal"],
    *["subprocess", "threading", "traceback", "typing"],
}


@dataclass(frozen=True)
class Import:
    """An import statement that can be executed; `name` is relative to the package if `ours`."""

    name: str
    ours: bool
    line: int
    deferred: bool
    fallback: bool

    @property
    def at_start(self) -> bool:
        return not (self.deferred or self.fallback)


class Importing(ast.NodeVisitor):
    """Collects the imports of one module."""

    def __init__(self, module: str, modules: set[str]) -> None:
        self.found: list[Import] = []
        self._parents = module.split(".")[:-1]
        self._modules = modules
        self._deferred = self._fallback = False

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._note(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            above = self._parents[: len(self._parents) - node.level + 1]
            base = ".".join([PACKAGE, *above, *filter(None, [base])])
        for alias in node.names:
            self._note(base, node.lineno, alias.name)

    def visit_If(self, node: ast.If) -> None:
        typing_only = ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
        for statement in node.orelse if typing_only else [*node.body, *node.orelse]:
            self.visit(statement)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        outer, self._fallback = self._fallback, "ImportError" in ast.unparse(node.type or node)
        self.generic_visit(node)
        self._fallback = outer

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer, self._deferred = self._deferred, True
        self.generic_visit(node)
        self._deferred = outer

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast's name

    def _note(self, module: str, line: int, member: str = "") -> None:
        """Note an import of the module, or of the module's member, which may be one, too."""
        top, _, inner = module.partition(".")
        ours = top == PACKAGE
        name = self._resolve(inner, member) if ours else top
        self.found.append(Import(name, ours, line, self._deferred, self._fallback))

    def _resolve(self, inner: str, member: str) -> str:
        candidates = [[inner, member], [inner, member, "__init__"], [inner], [inner, "__init__"]]
        names = [".".join(filter(None, parts)) for parts in candidates]
        return next((name for name in names if name in self._modules), names[0])


def source_files() -> dict[str, Path]:
    """Return the package's modules, named without it: "pool", "worker.main", "__init__"."""
    home = ROOT / PACKAGE
    files = sorted(home.rglob("*.py"))
    return {".".join(file.relative_to(home).with_suffix("").parts): file for file in files}


def imports_of(module: str, file: Path, modules: set[str]) -> list[Import]:
    visitor = Importing(module, modules)
    visitor.visit(ast.parse(file.read_text()))
    return visitor.found


FILES = source_files()
IMPORTS = {module: imports_of(module, file, set(FILES)) for module, file in FILES.items()}


def is_among(module: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(module, pattern) for pattern in patterns)


def floor_of(module: str) -> int:
    """Return the number of the module's floor, or -1 if the table does not have it."""
    floors = [n for n, members in enumerate(FLOORS.values()) if is_among(module, members)]
    return floors[0] if len(floors) == 1 else -1


def started_with(module: str) -> Iterator[str]:
    """Yield the package's modules that are loaded with this one, itself included."""
    waiting, seen = [module], {module}
    while waiting:
        module = waiting.pop()
        yield module
        above = module.split(".")
        packages = [".".join([*above[:depth], "__init__"]) for depth in range(len(above))]
        direct = [i.name for i in IMPORTS.get(module, []) if i.ours and i.at_start]
        new = [name for name in (*packages, *direct) if name not in seen]
        seen.update(new)
        waiting.extend(new)


def complain(rule: str, offences: list[str]) -> None:
    if offences:
        pytest.fail("\n".join([rule, *offences]), pytrace=False)


def place(module: str, imported: Import) -> str:
    return f"{FILES[module].relative_to(ROOT)}:{imported.line}: {module} imports {imported.name}"


def test_every_module_has_its_floor() -> None:
    homeless = [f"{module}: add it, once, to FLOORS" for module in FILES if floor_of(module) < 0]
    complain("the table of floors does not know its place:", homeless)


def test_imports_run_downwards_only() -> None:
    offences = [
        place(module, imported)
        for module in FILES
        for imported in IMPORTS[module]
        if imported.ours and floor_of(imported.name) > floor_of(module)
    ]
    complain("imported from a floor above:", offences)


def test_the_decisions_are_pure() -> None:
    offences = [
        place(module, imported)
        for module in FILES
        if is_among(module, FLOORS["decisions"])
        for imported in IMPORTS[module]
        if imported.name in NOT_FOR_DECISIONS and not imported.ours
    ]
    complain("decisions do no I/O, know no clock and draw no lots:", offences)


def test_the_child_keeps_to_its_room() -> None:
    offences = [
        place(module, imported)
        for module in FILES
        if is_among(module, CHILD)
        for imported in IMPORTS[module]
        if not is_allowed_in_child(imported)
    ]
    complain("a worker has the standard library, itself and what it shares:", offences)


def is_allowed_in_child(imported: Import) -> bool:
    if imported.ours:
        return is_among(imported.name, [*CHILD, *SHARED])
    return imported.name in sys.stdlib_module_names


def test_a_child_starts_with_little() -> None:
    at_start = {"frames", "raised", *started_with(CHILD_STARTS_WITH)}
    offences = [
        place(module, imported)
        for module in sorted(at_start)
        for imported in IMPORTS.get(module, [])
        if imported.at_start and not imported.ours and is_heavy(imported.name)
    ]
    complain("paid at every start of a worker:", offences)


def is_heavy(name: str) -> bool:
    return name in NOT_AT_CHILDS_START or name not in sys.stdlib_module_names


SAMPLE = """
from __future__ import annotations
from typing import TYPE_CHECKING
import os.path
import asyncpool.frames
from . import context, main
from .. import frames
from ..dispatch import decisions
from ..dispatch.records import Death
if TYPE_CHECKING:
    from ..pool import Pool
else:
    from ..hub import Feed
try:
    import _pickle
except ImportError:
    import pickle
def later():
    from asyncpool import raised
"""


def test_imports_are_read_as_python_means_them(tmp_path: Path) -> None:
    file = tmp_path / "sample.py"
    file.write_text(SAMPLE)
    modules = {"frames", "raised", "hub", "pool", "worker.context", "dispatch.records"}
    found = imports_of("worker.sample", file, modules | {"dispatch.decisions", "worker.main"})
    assert [i.name for i in found if i.ours] == [
        *["frames", "worker.context", "worker.main", "frames"],
        *["dispatch.decisions", "dispatch.records", "hub", "raised"],
    ]
    assert [i.name for i in found if not i.ours and i.at_start] == [
        *["__future__", "typing", "os", "_pickle"],
    ]
    assert [i.name for i in found if i.fallback] == ["pickle"]
    assert [i.name for i in found if i.deferred] == ["raised"]
