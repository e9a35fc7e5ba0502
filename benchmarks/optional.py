"""The peers that the standard library does not have, which the extra `bench` installs."""

from __future__ import annotations

import importlib
from typing import Any

HOW_TO_INSTALL = "pip install -e '.[bench]'"


class NotInstalled(Exception):
    """A peer is not here to be measured; the text says how to get it."""


def optional(name: str) -> Any:
    """Import a module of a peer. Raises NotInstalled."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotInstalled(f"skipped, there is no {name}: {HOW_TO_INSTALL}") from error
