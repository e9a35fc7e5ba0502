"""Calls that a process started later can make again: pickled by reference only.

A journal outlives the program, so it must not hold code: what it names is imported, or found in
the main script, when the job runs again.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from . import by_value, raised
from .errors import SerializationError
from .raised import PROTOCOL


class Call(NamedTuple):
    """A function and its `(args, kwargs)`, pickled by reference."""

    function: bytes
    payload: bytes


def function_reference(name: str, fn: Callable[..., Any]) -> bytes:
    """Pickle a function by reference. Raises SerializationError, with advice, if that is none."""
    advice = "define it at the top level of a module, or of a script that is run from a file"
    return _reference(f"{name} cannot be recorded in a journal", name, fn, advice)


def arguments_reference(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Pickle arguments by reference. Raises SerializationError, with advice."""
    advice = "functions and classes in them must be at the top level of a module or a script file"
    what = f"the arguments of {name} cannot be recorded in a journal"
    return _reference(what, name, (args, kwargs), advice)


def _reference(what: str, name: str, value: object, advice: str) -> bytes:
    why = "a restarted program could not import it"
    try:
        data = pickle.dumps(value, PROTOCOL)
        if b"__main__" not in data or main_file() is not None:
            return data
        finder = _Finder()
        finder.dump(value)
        if finder.found is None:
            return data
    except Exception as error:
        text = f"{what}, {why} ({type(error).__name__}: {raised.text(error)}): {advice}"
        raise SerializationError(text, fn_name=name) from error
    raise SerializationError(
        f"{what}, {why} ({finder.found} is of no file): {advice}", fn_name=name
    )


class _Finder(pickle.Pickler):
    """Looks for what is defined in the main module."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), PROTOCOL)
        self.found: str | None = None

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, FunctionType)) and value.__module__ == "__main__":
            self.found = value.__qualname__
        return NotImplemented


def script_of(call: Call) -> str | None:
    """Return the file of the main module, if the call refers to something in it."""
    if b"__main__" not in call.function and b"__main__" not in call.payload:
        return None
    return main_file()


def main_file() -> str | None:
    """Return the file of the main module, if it has one."""
    file: str | None = getattr(sys.modules["__main__"], "__file__", None)
    if file is None or file.startswith("<"):  # as "<stdin>" does
        return None
    return os.path.abspath(file)


# Back


def is_found(call: Call) -> bool:
    """Whether all is there that the call refers to, as far as this program has it loaded."""
    try:
        load(call.function)
        load(call.payload)
    except (Exception, SystemExit):
        return False
    return True


def revived(reference: bytes) -> bytes:
    """Return what a worker can unpickle: by value whatever the main script of today defines.

    What the script has no more is left as it is: then the worker says so. Imports nothing but
    the standard library.
    """
    if b"__main__" not in reference:
        return reference
    try:
        return by_value.dumps(load(reference))
    except (Exception, SystemExit):  # of a user's __setstate__: its worker will meet it, too
        return reference


def load(reference: bytes) -> Any:
    """Unpickle with what is imported already. Raises whatever unpickling raises."""
    return _Reviver(io.BytesIO(reference)).load()


class _Reviver(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        if module in sys.modules or module.partition(".")[0] in sys.stdlib_module_names:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module} is not imported here")


# Telling calls apart


def is_same(one: Call, other: Call) -> bool:
    """Whether two calls are of the same function with equal arguments, types included.

    Equal values need not pickle to equal bytes: a set has another order in another process.
    """
    try:
        return all(map(_is_same_pickle, one, other))
    except (Exception, SystemExit):  # what cannot be rebuilt is not known to be the same
        return False


def _is_same_pickle(one: bytes, other: bytes) -> bool:
    return one == other or _equal(load(one), load(other))


def _equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind in (tuple, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if kind is dict:
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if kind is float:
        return repr(one) == repr(other)  # NaN is the same, 0.0 and -0.0 are not
    if kind is MethodType:
        return _equal((one.__func__, one.__self__), (other.__func__, other.__self__))
    if getattr(kind, "__eq__", None) is object.__eq__ and not isinstance(one, (type, FunctionType)):
        return _equal(one.__reduce_ex__(PROTOCOL), other.__reduce_ex__(PROTOCOL))
    return bool(one == other)
