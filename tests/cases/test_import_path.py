"""MAIN-4, FLAGS-1: workers find what the parent finds, and are started as the parent was."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import programs

FRAME = """\
import asyncio, os, sys
sys.path.insert(0, {home!r})
import asyncpool
{definitions}

async def main():
    async with asyncpool.Pool(1) as pool:
{body}
    print("all well")

asyncio.run(main())
"""


def program(definitions: str, body: str) -> str:
    indented = "".join(f"        {line}\n" for line in body.splitlines())
    return FRAME.format(home=programs.HOME, definitions=definitions, body=indented)


PATHS = """
os.mkdir("late"), os.mkdir("later"), os.mkdir("elsewhere")
open("late/tools_a.py", "w").write("def f(): return 'a'")
open("later/tools_b.py", "w").write("def f(): return 'b'")
def path(): return sys.path
def die(): os._exit(3)
def where(): return os.getcwd()
"""


def test_what_the_parent_added_to_its_path(tmp_path: Path) -> None:
    """MAIN-4: a relative and an absolute folder, before and after the workers started."""
    body = """
sys.path.insert(0, "late")
import tools_a
assert await pool.submit(tools_a.f) == "a"
sys.path.append(os.path.abspath("later"))
import tools_b
assert await pool.submit(tools_b.f) == "b"
view = pool.options(retry=asyncpool.Retry(max_crashes=1))
[crash] = await asyncio.gather(view.submit(die), return_exceptions=True)
assert isinstance(crash, asyncpool.WorkerCrashed)
assert await pool.submit(tools_b.f) == "b" and await pool.submit(tools_a.f) == "a"
expected = [os.path.abspath(entry) for entry in sys.path]
assert await pool.submit(path) == expected, (await pool.submit(path), expected)
"""
    assert programs.run("-c", program(PATHS, body), cwd=tmp_path).out == "all well\n"


def test_the_folder_from_which_the_parent_moved(tmp_path: Path) -> None:
    """MAIN-4: jobs stand where the parent stood when it opened the pool."""
    body = """
assert await pool.submit(where) == os.getcwd()
"""
    text = program(PATHS + 'os.chdir("elsewhere")\n', body)
    (tmp_path / "program.py").write_text(text)
    assert programs.run("program.py", cwd=tmp_path).out == "all well\n"


def test_a_relative_entry_means_the_same_folder_after_a_move(tmp_path: Path) -> None:
    """MAIN-4: the parent chdirs between an import and the submit."""
    body = """
sys.path.insert(0, os.path.abspath("late"))
import tools_a
os.chdir("elsewhere")
assert await pool.submit(tools_a.f) == "a"
"""
    assert programs.run("-c", program(PATHS, body), cwd=tmp_path).out == "all well\n"


@pytest.mark.parametrize("names", [("queue", "json", "logging", "traceback", "pickle", "asyncio")])
def test_modules_that_look_like_the_standard_library(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    """MAIN-4: beside the place where workers start, they hide nothing."""
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('the wrong {name}')\n")
    folder = tmp_path / "scripts"
    folder.mkdir()
    text = program(
        "def f():\n    import queue, json, logging, traceback, pickle, asyncio\n    return 1\n",
        "assert await pool.submit(f) == 1",
    )
    (folder / "program.py").write_text(text)
    assert programs.run("scripts/program.py", cwd=tmp_path).out == "all well\n"


def test_the_package_is_not_on_the_path_by_accident(tmp_path: Path) -> None:
    """MAIN-4: neither its folder nor what is inside of it."""
    body = f"""
sys.path.remove({programs.HOME!r})
found = await pool.submit(path)
assert found == [os.path.abspath(entry) for entry in sys.path]
assert not any(entry.startswith(os.path.dirname(asyncpool.__file__)) for entry in found)
"""
    env = {"PYTHONPATH": ""}
    text = program(PATHS, body)
    assert programs.run("-c", text, cwd=tmp_path, env=env).out == "all well\n"


FLAGS = """
import warnings, ctypes, pickle
def flags():
    return tuple(sys.flags), sys._xoptions, sys.warnoptions, sys.prefix, sys.base_prefix
class Warns:
    def __reduce__(self): return warn, ()
def warn():
    warnings.warn("from a job", UserWarning)
    return 1
def echo(value): return value
def crash(): ctypes.string_at(0)
"""
OPTIONS = ["-W", "error::UserWarning", "-X", "faulthandler", "-X", "utf8", "-O", "-B"]


@pytest.mark.parametrize("more", [[], ["-I"], ["-E", "-s"], ["-X", "dev"]])
def test_the_flags_of_the_parent(tmp_path: Path, more: list[str]) -> None:
    """FLAGS-1: the same flags, and the same environment of packages."""
    body = """
mine, theirs = flags(), await pool.submit(flags)
if mine != theirs: raise SystemExit(f"{mine}, {theirs}")
"""
    finished = programs.run(*OPTIONS, *more, "-c", program(FLAGS, body), cwd=tmp_path)
    assert finished.out == "all well\n", finished.err


def test_variables_of_the_environment(tmp_path: Path) -> None:
    """FLAGS-1: PYTHON* settings, too, and what `env` adds."""
    body = """
theirs = await pool.submit(flags)
if flags() != theirs: raise SystemExit(f"{flags()}, {theirs}")
async with asyncpool.Pool(1, env={"COLOR": "blue"}) as other:
    if await other.submit(os.getenv, "COLOR") != "blue": raise SystemExit("no color")
if await pool.submit(os.getenv, "COLOR"): raise SystemExit("a color")
"""
    env = {"PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONOPTIMIZE": "2"}
    finished = programs.run("-c", program(FLAGS, body), cwd=tmp_path, env=env)
    assert finished.out == "all well\n"


def test_a_warning_that_is_an_error_fails_one_job(tmp_path: Path) -> None:
    """FLAGS-1: raised while arguments are unpickled, or by the function."""
    body = """
for fn, args in ((echo, (Warns(),)), (warn, ())):
    try:
        await pool.submit(fn, *args)
    except (UserWarning, asyncpool.SerializationError) as error:
        print(type(error).__name__)
assert await pool.submit(echo, 1) == 1
if pool.stats().crashes: raise SystemExit("a crash")
"""
    finished = programs.run(*OPTIONS, "-c", program(FLAGS, body), cwd=tmp_path)
    assert finished.out == "SerializationError\nUserWarning\nall well\n"


@pytest.mark.parametrize(("options", "dumps"), [(["-X", "faulthandler"], 1), ([], 0)])
def test_a_fatal_signal_is_dumped(tmp_path: Path, options: list[str], dumps: int) -> None:
    """FLAGS-1: to the parent's stderr, if it uses faulthandler; into the error in any case."""
    body = """
try:
    await pool.options(retry=asyncpool.Retry(max_crashes=1)).submit(crash)
except asyncpool.WorkerCrashed as error:
    assert error.signal == 11 and "in crash" in error.stack
"""
    text = program(FLAGS, body)
    finished = programs.run(*options, "-c", text, cwd=tmp_path)
    assert finished.out == "all well\n"
    assert finished.err.count("Fatal Python error: Segmentation fault") == dumps
    assert finished.err.count("in crash") == dumps
