"""Several items of a `map` as one job: each has its own value or exception."""

from collections.abc import Callable
from types import CoroutineType
from typing import Any

from .. import raised

Item = tuple[bool, Any]
"""True and the value, or False and the encoded exception."""


class Chunk:
    """Calls a function for each item of a chunk; bears the function's name."""

    def __init__(self, fn: Callable[..., Any], name: str) -> None:
        self.fn = fn
        self.__qualname__ = name

    def __call__(self, calls: list[tuple[Any, ...]]) -> list[Item]:
        return [self._call(args) for args in calls]

    def _call(self, args: tuple[Any, ...]) -> Item:
        try:
            value = self.fn(*args)
            if type(value) is CoroutineType:
                from . import coroutines

                value = coroutines.run(value)
        except BaseException as error:
            return False, raised.encode(error)
        return True, value
