"""A count of executions that does not trust the pool: every run appends a line to a file."""

from __future__ import annotations

import os
from pathlib import Path


def mark(path: str | os.PathLike[str], text: str = "") -> None:
    """Append one line, in one write; to be called by jobs, in whatever process they run."""
    if "\n" in text:
        raise ValueError(f"a mark is one line, not {text!r}")
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(fd, f"{text}\n".encode())
    finally:
        os.close(fd)


class Marks:
    """The file that `mark` writes to, as the test reads it. Jobs are given its `path`."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __repr__(self) -> str:
        return f"<Marks {self.lines()}>"

    def lines(self) -> list[str]:
        """Return the texts of all marks made so far."""
        try:
            return Path(self.path).read_text().splitlines()
        except FileNotFoundError:
            return []

    def count(self, text: str | None = None) -> int:
        """Return how many marks were made, or how many of this text."""
        lines = self.lines()
        return len(lines) if text is None else lines.count(text)
