"""Functions and arguments on their way out: pickled once, checked where they were given.

A function crosses to each worker once and is called by number from then on. What can be imported
is pickled by reference; what cannot (`__main__`, lambdas, closures) by value, together with the
globals it refers to.
"""

from __future__ import annotations

import functools
import inspect
import pickle
import sys
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, NoneType
from typing import Any

from . import by_value, raised, references
from .errors import SerializationError
from .raised import PROTOCOL, type_name

UNKNOWN_SECONDS = 1e9
"""The expected duration of a function that has not returned yet."""


class Function:
    """A function as workers know it.

    `seconds` is how long a call is expected to take, `users` how many unfinished jobs call it,
    `reference` what stands for it in a journal, once that is known.
    """

    __slots__ = ("name", "number", "payload", "reference", "seconds", "users")

    def __init__(self, name: str, number: int, payload: bytes) -> None:
        self.name = name
        self.number = number
        self.payload = payload
        self.reference: bytes | None = None
        self.seconds = UNKNOWN_SECONDS
        self.users = 0

    def __repr__(self) -> str:
        return f"<Function {self.number} {self.name}>"


class FunctionTable:
    """Numbers the functions of a pool, and forgets those that no job has called for long."""

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._next_number = 1
        self._by_payload: dict[bytes, Function] = {}  # least recently used first
        self._importable: dict[object, Function] = {}
        self._adopted: dict[bytes, Function] = {}
        self._captured: dict[object, tuple[Function, tuple[object, ...]]] = {}
        self.forgotten: list[int] = []
        """Numbers that workers need not remember; whoever tells them empties the list."""

    def __len__(self) -> int:
        return len(self._by_payload)

    def find(self, fn: Callable[..., Any]) -> Function:
        """Return the entry of `fn`. Raises SerializationError, or TypeError for no function."""
        plain = _is_plain(fn)
        if plain:
            known = self._importable.get(fn) or self._still_captured(fn)
            if known is not None:
                return known
        check_callable(fn)
        payload, importable = pickle_function(fn)
        function = self._enter(function_name(fn), payload)
        if plain and importable:
            self._importable[fn] = function
        elif plain and (surroundings := _surroundings(fn)) is not None:
            self._captured[fn] = (function, surroundings)
        self._shrink(function)
        return function

    def adopt(self, name: str, reference: bytes) -> Function:
        """Return the entry of a function that a journal names, without importing it."""
        function = self._adopted.get(reference)
        if function is None:
            function = self._enter(name, references.revived(reference))
            function.reference = reference
            self._adopted[reference] = function
            self._shrink(function)
        return function

    def _enter(self, name: str, payload: bytes) -> Function:
        function = self._by_payload.pop(payload, None)
        if function is None:
            function = Function(name, self._next_number, payload)
            self._next_number += 1
        self._by_payload[payload] = function
        return function

    def find_importable(self, fn: Callable[..., Any]) -> Function | None:
        """Return the entry of a function that was found before and can be imported."""
        return self._importable.get(fn) if _is_plain(fn) else None

    def recapture(self) -> None:
        """From now on pickle functions by value anew: what they refer to may have changed."""
        self._captured.clear()

    @property
    def has_captured(self) -> bool:
        """Whether `recapture` has something to do."""
        return bool(self._captured)

    def _still_captured(self, fn: object) -> Function | None:
        known = self._captured.get(fn)
        if known is None:
            return None
        function, before = known
        now = _surroundings(fn)
        if now is None:
            return None
        same = len(now) == len(before) and all(map(_is, now, before))
        return function if same else None

    def _shrink(self, newest: Function) -> None:
        if len(self._by_payload) <= self._capacity:
            return
        # The newest has no user yet, but is about to be called.
        idle = [one for one in self._by_payload.values() if not one.users and one is not newest]
        gone = set(idle[: len(self._by_payload) - self._capacity])
        for function in gone:
            del self._by_payload[function.payload]
            self.forgotten.append(function.number)
        self._importable = {f: e for f, e in self._importable.items() if e not in gone}
        self._captured = {f: e for f, e in self._captured.items() if e[0] not in gone}
        self._adopted = {r: e for r, e in self._adopted.items() if e not in gone}


def _is(one: object, other: object) -> bool:
    return one is other


def _is_plain(fn: object) -> bool:
    """Whether what it stands for cannot change behind its back."""
    if type(fn) is FunctionType:
        return True
    # The method of a list or dict is a builtin function, too, and carries it along.
    return type(fn) is BuiltinFunctionType and isinstance(fn.__self__, ModuleType)


_UNCHANGING = (int, float, complex, str, bytes, bool, NoneType, ModuleType, BuiltinFunctionType)


def _surroundings(fn: object) -> tuple[object, ...] | None:
    """List all that a function by value takes along; None if some of it can change unseen."""
    if type(fn) is not FunctionType:
        return None
    found: list[object] = []
    waiting, seen = [fn], {fn}
    while waiting:
        for value in _taken_along(waiting.pop()):
            found.append(value)
            if type(value) is FunctionType:
                if value not in seen and value.__module__ == "__main__":
                    seen.add(value)
                    waiting.append(value)
            elif not (type(value) in _UNCHANGING or _is_class_of_a_module(value)):
                return None
    return tuple(found)


def _is_class_of_a_module(value: object) -> bool:
    return isinstance(value, type) and value.__module__ != "__main__"


def _taken_along(fn: FunctionType) -> Iterable[object]:
    """List globals, cells and defaults of one function."""
    yield from (fn.__globals__.get(name) for name in _names(fn.__code__))
    yield from map(_cell_value, fn.__closure__ or ())
    yield from fn.__defaults__ or ()
    yield from (fn.__kwdefaults__ or {}).values()


def _names(code: CodeType) -> Iterable[str]:
    """List the names that the code, or code within it, may look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _names(constant)


def _cell_value(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def function_name(fn: object) -> str:
    """Return a short name for people: `fib`, `Model.predict`, `partial(fib)`."""
    if isinstance(fn, functools.partial):
        return f"partial({function_name(fn.func)})"
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None)
    return name if isinstance(name, str) else type(fn).__qualname__


def check_callable(fn: object) -> None:
    """Raise TypeError, with advice, for what cannot run as a job."""
    if inspect.iscoroutine(fn):
        fn.close()  # or it would warn that it was never awaited
        raise TypeError(
            f"{fn.__qualname__}(...) was called already: this is its coroutine object. "
            f"Give the coroutine function and its arguments: submit({fn.__name__}, ...)"
        )
    if not callable(fn):
        raise TypeError(f"a job needs a function, not {fn!r}")
    inner: object = fn
    while isinstance(inner, functools.partial):
        inner = inner.func
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        name = function_name(fn)
        whole = f"list({name}(...))"
        if inspect.isasyncgenfunction(inner):
            whole = f"[item async for item in {name}(...)]"
        raise TypeError(
            f"{name} is a generator function, and a job returns one value: "
            f"let a function return {whole}"
        )


def pickle_function(fn: Callable[..., Any]) -> tuple[bytes, bool]:
    """Return the pickled function and whether it went by reference."""
    try:
        payload = pickle.dumps(fn, PROTOCOL)
        if b"__main__" not in payload:
            return payload, True
    except Exception as error:
        if _shadowed(fn):
            raise SerializationError(
                f"{function_name(fn)} cannot be sent to a worker: {fn.__module__} holds "
                f"another object under that name (is it decorated?), and the worker would run "
                f"that one",
                fn_name=function_name(fn),
            ) from error
    try:
        return by_value.dumps(fn), False
    except Exception as error:
        raise SerializationError(
            f"{function_name(fn)} cannot be sent to a worker: {_said(error)}. "
            f"A function that is sent by value takes along the globals and variables it refers "
            f"to: create such objects inside the function, or move it into a module",
            fn_name=function_name(fn),
        ) from error


def _shadowed(fn: object) -> bool:
    """Whether a worker that looks for this function by its name would find another object."""
    if not isinstance(fn, FunctionType) or fn.__module__ == "__main__":
        return False
    found: object = sys.modules.get(fn.__module__)
    for name in fn.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is not None and found is not fn


def pickle_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, bool]:
    """Return the pickled `(args, kwargs)` and whether they went by reference.

    Raises SerializationError naming the culprit.
    """
    try:
        payload = pickle.dumps((args, kwargs), PROTOCOL)
        if b"__main__" not in payload:
            return payload, True
    except Exception:
        pass
    try:
        return by_value.dumps((args, kwargs)), False
    except Exception as error:
        raise _argument_error(name, args, kwargs, error) from error


def _argument_error(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> SerializationError:
    for where, value in _places(args, kwargs):
        try:
            by_value.dumps(value)
        except Exception as alone:
            kind = type_name(type(value))
            return SerializationError(
                f"{where} of {name} ({kind}) cannot be sent to a worker: {_said(alone)}",
                fn_name=name,
            )
    return SerializationError(
        f"the arguments of {name} cannot be sent to a worker: {_said(error)}", fn_name=name
    )


def _places(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    yield from ((f"argument {number}", value) for number, value in enumerate(args, 1))
    yield from ((f"argument {key!r}", value) for key, value in kwargs.items())


def _said(error: BaseException) -> str:
    text = raised.text(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def pickle_initializer(initializer: Callable[..., object], args: tuple[Any, ...]) -> bytes:
    """Return the pickled `(initializer, args)`. Raises SerializationError or TypeError."""
    if not callable(initializer):
        raise TypeError(f"initializer must be callable, not {initializer!r}")
    if not isinstance(args, tuple):
        raise TypeError(f"initargs must be a tuple, not {args!r}")
    pickle_function(initializer)
    return pickle_call(function_name(initializer), (initializer, args), {})[0]
