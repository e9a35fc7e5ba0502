"""Pickling by value, for what no other process can import: `__main__`, lambdas, closures.

cloudpickle does the work; here stand the cases in which it would silently send something else.
Both sides import this module only when a value needs it, since it costs 40 ms.
"""

from __future__ import annotations

import functools
import io
import sys
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar, NoReturn, cast
from weakref import WeakSet

import cloudpickle  # type: ignore[import-untyped]

PROTOCOL = 5

_CACHED: Any = type(functools.lru_cache(lambda: None))

# Each class has one home, the process whose code made it. Elsewhere it is a copy.
_at_home: WeakSet[type] = WeakSet()
_copies: WeakSet[type] = WeakSet()


def dumps(value: object) -> bytes:
    """Pickle by value whatever the main module or a function body defines."""
    out = io.BytesIO()
    _Pickler(out, protocol=PROTOCOL).dump(value)
    return out.getvalue()


def _refuse(value: object) -> NoReturn:
    # cloudpickle would send the text that a file holds now, as a StringIO.
    raise TypeError(f"cannot pickle {type(value).__name__!r} object: an open file")


def _code(code: CodeType) -> tuple[Any, ...]:
    # cloudpickle blanks the file name, which tracebacks in the worker need.
    make, args = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return make, tuple(code.co_filename if arg == "<dynamic-code>" else arg for arg in args)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle is not typed
    dispatch_table: ClassVar[Any] = ChainMap(
        {io.TextIOWrapper: _refuse, CodeType: _code}, cloudpickle.Pickler.dispatch_table
    )

    def reducer_override(self, value: Any) -> Any:
        # An lru_cache pickles as a reference to its name, which a worker's __main__ lacks.
        if type(value) is _CACHED and value.__module__ == "__main__":
            return _cached, (value.__wrapped__, value.cache_parameters())
        reduced = super().reducer_override(value)
        if issubclass(type(value), type) and isinstance(reduced, tuple) and len(reduced) == 6:
            if value not in _copies:
                _at_home.add(value)
            make, made_of = reduced[0], _with_slots(value, reduced[1])
            if value.__module__ == "__main__":
                make, made_of = _class_of_main, (make, made_of, value.__qualname__)
            return (make, made_of, *reduced[2:5], _fill)
        return reduced


def _class_of_main(make: Callable[..., type], made_of: tuple[Any, ...], name: str) -> type:
    """Find or make a class; what an earlier run of the main script sent is that of today's."""
    cls = make(*made_of)
    if cls in _at_home or cls in _copies:
        return cls
    found: object = sys.modules["__main__"]
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and found.__module__ == "__main__"):
        cls.__qualname__ = name  # cloudpickle leaves that out
        return cls
    _at_home.add(found)
    return found


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Callable[..., Any]:
    return cast("Callable[..., Any]", functools.lru_cache(**parameters)(function))


def _with_slots(cls: type, made_of: tuple[Any, ...]) -> tuple[Any, ...]:
    """Let the copy have slots as well, or its instances would not fit the original's."""
    slots = cls.__dict__.get("__slots__")
    if not slots or not isinstance(made_of[3], dict):
        return made_of
    namespace = {**made_of[3], "__slots__": slots}
    return (*made_of[:3], namespace, *made_of[4:])


def _fill(cls: type, state: Any) -> type:
    """Give a class that has just been found or made what it holds in the sender's process."""
    # What comes home brings copies of its own methods, with globals of their own: cloudpickle
    # would put them in place of the originals.
    if cls not in _at_home:
        _copies.add(cls)
        cloudpickle.cloudpickle._class_setstate(cls, state)
    return cls
