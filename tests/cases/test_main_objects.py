"""What the main module defines, on its way to the workers and back.

These are programs of their own, since a test module is not the main module.
"""

from __future__ import annotations

from pathlib import Path

from . import programs

FRAME = """\
import asyncio, asyncpool
{definitions}

async def main():
    global LEVEL, f, Point
    async with asyncpool.Pool(2) as pool:
{body}
        assert pool.stats().crashes == 0
    print("all well")

asyncio.run(main())
"""


def check(tmp_path: Path, definitions: str, body: str) -> None:
    """Run a program whose assertions must hold."""
    program = FRAME.format(definitions=definitions, body="".join(map(_indent, body.splitlines())))
    (tmp_path / "program.py").write_text(program)
    assert programs.run("program.py", cwd=tmp_path).out.endswith("all well\n")


def _indent(line: str) -> str:
    return f"        {line}\n"


GLOBALS = """
LEVEL = 1
class Config: depth = 1
config = {"a": 1}
def helper(): return LEVEL
def f(): return LEVEL, helper(), config["a"], Config.depth
"""


def test_globals_that_changed_are_seen(tmp_path: Path) -> None:
    """Also through a helper, inside a container, on a class, and the function itself."""
    body = """
assert await pool.submit(f) == (1, 1, 1, 1)
LEVEL = 2
assert await pool.submit(f) == (2, 2, 1, 1)
config["a"] = Config.depth = 3
assert await pool.submit(f) == (2, 2, 3, 3)
def f(): return "another"
assert await pool.submit(f) == "another"
"""
    check(tmp_path, GLOBALS, body)


def test_globals_that_changed_between_two_submits(tmp_path: Path) -> None:
    """Without the loop having a turn in between."""
    body = """
jobs = []
for LEVEL in range(5):
    jobs.append(pool.submit(f))
assert [value[0] for value in await asyncio.gather(*jobs)] == list(range(5))
"""
    check(tmp_path, GLOBALS, body)


def test_a_closure_that_changed(tmp_path: Path) -> None:
    body = """
jobs = []
level = 0
def nested(): return level
for level in range(5):
    jobs.append(pool.submit(nested))
assert await asyncio.gather(*jobs) == list(range(5))
jobs = [pool.submit(lambda x=x: x * level) for x in range(5)]
assert await asyncio.gather(*jobs) == [0, 4, 8, 12, 16]
"""
    check(tmp_path, "", body)


CLASSES = """
import dataclasses, enum, typing, collections
LEVEL = 1
@dataclasses.dataclass(slots=True)
class Light:
    a: int
    b: list = dataclasses.field(default_factory=list)
@dataclasses.dataclass(slots=True, frozen=True)
class Fixed:
    a: int
class LightSub(Light):
    __slots__ = "c",
class OneSlot:
    __slots__ = "__hidden", "__weakref__"
    def __init__(self): self.__hidden = 3
    def get(self): return self.__hidden
@dataclasses.dataclass(order=True)
class Point:
    x: int
    tags: list = dataclasses.field(default_factory=list)
    def level(self): return LEVEL
    def raise_level(self):
        global LEVEL
        LEVEL += 1
class Sub(Point):
    def level(self): return super().level() * 10
class Color(enum.Enum):
    RED = 1
    BLUE = 2
class Pair(typing.NamedTuple):
    a: int
    b: Color
class Base(Exception): pass
class Failure(Base):
    def __init__(self, code, point):
        super().__init__(code, point)
        self.code, self.point = code, point
class Slotted:
    __slots__ = ("a",)
    def __eq__(self, other): return type(other) is Slotted and other.a == self.a
    __hash__ = None
def make(x): return Point(x), Sub(x), Color.RED, Pair(x, Color.BLUE), [Point], {Color.RED: Point}
def inspect(point):
    assert type(point) is Point
    return dataclasses.asdict(point), [f.name for f in dataclasses.fields(point)]
def fail(): raise Failure(7, Point(1))
def echo(value): return value
def fill(slotted):
    slotted.a = 5
    return slotted
"""


def test_classes_keep_their_identity(tmp_path: Path) -> None:
    body = """
point, sub, red, pair, points, colors = await pool.submit(make, 3)
assert type(point) is Point and point == Point(3)
assert type(sub) is Sub and isinstance(sub, Point)
assert red is Color.RED and type(pair) is Pair and pair.b is Color.BLUE
assert points[0] is Point and colors == {Color.RED: Point}
assert await pool.submit(Point, 4) == Point(4)
assert await pool.submit(Point(4).level) == 1
assert await pool.submit(inspect, Point(1, ["t"])) == ({"x": 1, "tags": ["t"]}, ["x", "tags"])
assert await pool.submit(fill, Slotted()) == fill(Slotted())
assert await pool.submit(Light, 4) == Light(4) and await pool.submit(LightSub, 4) == LightSub(4)
assert await pool.submit(echo, Fixed(4)) == Fixed(4)
assert (await pool.submit(echo, OneSlot())).get() == 3
assert await pool.submit(lambda: hasattr(Light(1), "__dict__")) is False
for value in [Point(1), Sub(2), Color.RED, Pair(1, Color.RED), Point, Color, Base]:
    assert await pool.submit(echo, value) == value
assert max([Point(1), await pool.submit(Point, 9), Point(3)]).x == 9
"""
    check(tmp_path, CLASSES, body)


def test_classes_are_not_changed_by_their_visits(tmp_path: Path) -> None:
    """Their methods go on to use this module's globals, not those of the worker's copy."""
    body = """
methods = Point.level, Point.raise_level, Sub.level
for _ in range(3):
    await pool.submit(make, 3)
    await pool.submit(echo, Sub(1))
assert methods == (Point.level, Point.raise_level, Sub.level)
assert Point.level.__globals__ is globals()
LEVEL = 5
assert Point(1).level() == 5 and Sub(1).level() == 50
Point(1).raise_level()
assert LEVEL == 6
Point.extra = "here"
point = await pool.submit(Point, 1)
assert point.extra == "here"
assert await pool.submit(lambda: Point.extra) == "here"
"""
    check(tmp_path, CLASSES, body)


def test_exceptions_keep_their_identity(tmp_path: Path) -> None:
    body = """
try:
    await pool.submit(fail)
except Base as error:
    assert type(error) is Failure and error.code == 7 and error.point == Point(1)
    assert "program.py" in "".join(error.__notes__)
    assert "raise Failure(7, Point(1))" in "".join(error.__notes__)
retry = asyncpool.Retry(max_errors=1, on=(Base,))
job = pool.options(retry=retry).submit(fail)
await asyncio.wait({job})
assert type(job.exception()) is Failure and len(job.attempts) == 2
"""
    check(tmp_path, CLASSES, body)


CALLABLES = """
import functools
class Counter:
    def __init__(self, start): self.start = start
    def plus(self, n): return self.start + n
    def __call__(self, n): return self.start * n
    @classmethod
    def make(cls, n): return cls(n)
    @staticmethod
    def half(n): return n / 2
    async def later(self, n): return self.start - n
def twice(fn):
    @functools.wraps(fn)
    def wrapper(n): return fn(fn(n))
    return wrapper
@twice
def plus_two(n): return n + 1
@functools.lru_cache
def cached(n): return n + 1
def factorial(n): return n * factorial(n - 1) if n else 1
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n - 1)
def plain(n): return n
kept = plain
def plain(n): return "replaced"
"""


def test_all_kinds_of_callables(tmp_path: Path) -> None:
    """MAIN-5, in the main module."""
    body = """
counter = Counter(3)
assert await pool.submit(counter.plus, 1) == 4
assert await pool.submit(counter, 2) == 6
assert type(await pool.submit(Counter.make, 2)) is Counter
assert await pool.submit(Counter.half, 2) == 1
assert await pool.submit(counter.later, 1) == 2
assert await pool.submit(functools.partial(functools.partial(counter.plus), n=2)) == 5
assert await pool.submit(plus_two, 1) == 3
assert await pool.submit(cached, 1) == 2
assert await pool.submit(factorial, 5) == 120
assert await pool.submit(even, 10) is True
assert await pool.submit(kept, 1) == 1 and await pool.submit(plain, 1) == "replaced"
results = pool.map(lambda n: n * counter.start, range(4), chunksize=2)
assert [value async for value in results] == [0, 3, 6, 9]
"""
    check(tmp_path, CALLABLES, body)


def test_an_initializer_of_the_main_module(tmp_path: Path) -> None:
    definitions = """
import os
class Limits: depth = 5
def prepare(limits): os.environ["DEPTH"] = str(limits.depth)
def depth(): return os.environ["DEPTH"]
"""
    body = """
async with asyncpool.Pool(1, initializer=prepare, initargs=(Limits(),)) as other:
    assert await other.submit(depth) == "5"
"""
    check(tmp_path, definitions, body)
