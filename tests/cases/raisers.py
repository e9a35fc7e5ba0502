"""Jobs that raise what does not cross easily, and what is not an Exception."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from tests.support.marks import mark


class NeedsTwo(Exception):
    """Only one of its arguments reaches `args`, with which `pickle` makes it anew."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(f"{code}: {detail}")


class NeedsKeyword(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")


class Response:
    status = 503


class NeedsResponse(Exception):
    def __init__(self, response: Response) -> None:
        super().__init__(f"status {response.status}")


class BadSetState(Exception):
    def __setstate__(self, state: object) -> None:
        raise RuntimeError("this state is not for me")


class BadReduce(Exception):
    def __reduce__(self) -> NoReturn:
        raise RuntimeError("no reduction")


class Chameleon(Exception):
    """Turns into a cancellation while it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return asyncio.CancelledError, ("caught you",)


class Unspeakable(Exception):
    """Has no text, neither here nor as the reason why it cannot be rebuilt."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __setstate__(self, state: object) -> None:
        raise self


class Holder(Exception):
    """Holds what no other process can have."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.held = (text for text in text)


@dataclass(frozen=True)
class Frozen(Exception):
    number: int

    def __reduce__(self) -> tuple[Any, ...]:
        return Frozen, (self.number,)


class Direct(BaseException):
    pass


STUBBORN: dict[str, Callable[[], Exception]] = {
    "NeedsTwo": lambda: NeedsTwo(3, "bad"),
    "NeedsKeyword": lambda: NeedsKeyword(code=4),
    "NeedsResponse": lambda: NeedsResponse(Response()),
    "BadSetState": lambda: _with_state(BadSetState("text")),
    "BadReduce": lambda: BadReduce("text"),
    "Chameleon": lambda: Chameleon("text"),
    "Holder": lambda: Holder("text"),
    "Unspeakable": lambda: _with_state(Unspeakable("text")),
}

NOT_EXCEPTIONS: dict[str, Callable[[], object]] = {
    "sys.exit()": sys.exit,
    "sys.exit(3)": lambda: sys.exit(3),
    "sys.exit('msg')": lambda: sys.exit("msg"),
    "KeyboardInterrupt": lambda: _raise(KeyboardInterrupt()),
    "GeneratorExit": lambda: _raise(GeneratorExit()),
    "Direct": lambda: _raise(Direct("straight")),
    "CancelledError": lambda: _raise(asyncio.CancelledError("me")),
    "group": lambda: _raise(BaseExceptionGroup("both", [KeyboardInterrupt(), ValueError(1)])),
}


def _with_state(error: Exception) -> Exception:
    error.extra = 1  # type: ignore[attr-defined]
    return error


def _raise(error: BaseException) -> NoReturn:
    raise error


def raise_stubborn(path: str, name: str) -> NoReturn:
    mark(path, name)
    error = STUBBORN[name]()
    raise error


def leave(path: str, how: str) -> None:
    mark(path, how)
    NOT_EXCEPTIONS[how]()


async def leave_softly(path: str, how: str) -> None:
    await asyncio.sleep(0)
    leave(path, how)


def raise_of_a_local_class() -> NoReturn:
    class Local(Exception):
        pass

    raise Local("made here")


def raise_from_a_key_error() -> None:
    table: dict[str, int] = {}
    try:
        table["absent"]
    except KeyError as cause:
        error = ValueError("first", 2)
        error.add_note("a note")
        raise error from cause


def raise_within_a_handler() -> None:
    try:
        _ = 1 / 0
    except ZeroDivisionError:
        raise KeyError("second")  # noqa: B904 - the context is the point


def raise_a_group() -> NoReturn:
    inner = ExceptionGroup("inner", [TypeError("t")])
    first = ValueError(1)
    first.add_note("of a member")
    raise ExceptionGroup("outer", [first, inner])


def raise_a_frozen() -> NoReturn:
    raise Frozen(5)


def raise_stop_iteration() -> NoReturn:
    raise StopIteration(4)


def raise_with_a_big_argument(size: int) -> NoReturn:
    payload = bytes(size)
    error = ValueError(payload)
    error.me = error  # type: ignore[attr-defined]
    raise error


def overflow() -> int:
    return overflow() + 1
