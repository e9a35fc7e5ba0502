"""Runs pytest on modules written for it, under the same checks as the tests that do so."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from .scripts import ROOT, Finished, Script

_CONFTEST = """
    pytest_plugins = ["tests.support.loops", "tests.support.leaks", "tests.support.limits"]
    def pytest_configure() -> None:
        from tests.support import leaks, limits
        leaks.GRACE_SECONDS = 0.5
        limits.LIMIT_SECONDS = {limit!r}
    """

_RUNNER = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
_OPTIONS = (
    *("-c", str(ROOT / "pyproject.toml"), "--numprocesses=0"),
    *("-p", "no:cacheprovider", "--junitxml=report.xml"),
)


@dataclass(frozen=True)
class InnerRun:
    """What came of a run; `reports` has all that was reported of a module, "" if it passed."""

    finished: Finished
    reports: dict[str, str]


def run_pytest(modules: Mapping[str, str], directory: Path, *, limit: float = 60.0) -> InnerRun:
    """Run these test modules, given as name and text, with so many seconds for each test."""
    for name, text in modules.items():
        (directory / f"test_{name}.py").write_text(dedent(text))
    (directory / "conftest.py").write_text(dedent(_CONFTEST.format(limit=limit)))
    finished = Script(_RUNNER, directory, argv=[*_OPTIONS, "."]).run(within=90)
    return InnerRun(finished, _read_reports(directory / "report.xml", modules))


def _read_reports(file: Path, modules: Mapping[str, str]) -> dict[str, str]:
    reports = dict.fromkeys(modules, "")
    if file.exists():  # a run that ends early has none
        for case in ET.parse(file).iter("testcase"):
            reports[case.attrib["classname"].rpartition("test_")[2]] += "".join(case.itertext())
    return reports
