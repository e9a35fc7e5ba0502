"""How an exception crosses from the worker to the caller, with all that `pickle` leaves out.

`pickle` keeps an exception's type, arguments, attributes, notes and group members, but drops
its cause and context, and the traceback cannot cross at all. So a raised exception travels as a
pickled tuple of plain text (type, message, traceback), which always arrives, around a second
pickle that holds the exception itself and how it is linked to others, which may fail to load.

This module is shared with the worker: what it imports is paid at every respawn.
"""

from types import TracebackType

try:
    from _pickle import dumps, loads  # pickle.py also imports `re`: 8 ms at each start
except ImportError:  # pragma: no cover - other Pythons
    from pickle import dumps, loads

PROTOCOL = 5

MAX_TEXT, MAX_TRACEBACK = 10_000, 100_000
"""How many characters of a message and of a traceback cross; an argument may be huge."""

OWN = "own"  # an Exception: it arrives as itself
EXITED = "exited"  # no Exception, so JobExited
EXCEPTION = "exception"  # SerializationError: an exception that does not pickle
RESULT = "result"  # SerializationError: a result that does not pickle
ARGUMENT = "argument"  # SerializationError: arguments that do not unpickle
FUNCTION = "function"  # SerializationError: a function that does not unpickle

Raised = tuple[str, str, str, str, "bytes | None"]
"""one of the six above, type name, message, traceback as text, pickled exception"""

Links = list[tuple[BaseException, "BaseException | None", "BaseException | None", bool]]


def dump(value: object) -> bytes:
    """Pickle `value`, by value where it is of the main script or made on the fly."""
    try:
        return dumps(value, PROTOCOL)
    except Exception as plain:
        from . import by_value

        try:
            return by_value.dumps(value)
        except Exception:
            raise plain from None


def type_name(kind: type) -> str:
    """Return the full name of a class, as tracebacks show it."""
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def encode(error: BaseException, kind: str = "", subject: str = "") -> bytes:
    """Return the bytes of a raised exception; never raises because of what it holds.

    Without a `kind`, it is the function's own. `subject` names the type of what did not pickle.
    """
    pickled = None
    kind = kind or (OWN if isinstance(error, Exception) else EXITED)
    if kind == OWN:
        pickled = _pickled(error, _links(error)) or _pickled(error, _alone(error))
        kind = EXCEPTION if pickled is None else OWN
    name = subject or type_name(type(error))
    raised: Raised = (kind, name, text(error), traceback_text(error), pickled)
    return dumps(raised, PROTOCOL)


def _pickled(error: BaseException, links: "Links") -> "bytes | None":
    try:
        return dump((error, links))
    except BaseException:  # whatever a user's __reduce__ raises
        return None


def _alone(error: BaseException) -> "Links":
    """Leave out the relatives: one of them may be what does not pickle."""
    return [(error, None, None, error.__suppress_context__)]


def decode(data: "bytes | bytearray") -> Raised:
    """Return what `encode` was given; the pickled exception in it is not loaded yet."""
    raised: Raised = loads(data)
    return raised


def load(pickled: bytes) -> BaseException:
    """Rebuild the exception and its relatives. Raises whatever their classes raise."""
    error, links = loads(pickled)
    for member, cause, context, suppress in links:
        relink = object.__setattr__  # a frozen dataclass refuses the ordinary way
        relink(member, "__cause__", cause)
        relink(member, "__context__", context)
        relink(member, "__suppress_context__", suppress)
    if not isinstance(error, Exception):
        raise TypeError(f"it turned into {type(error).__name__}, which is not an Exception")
    return error


def traceback_text(error: BaseException) -> str:
    """Format the traceback, without the worker's own frames at its top."""
    try:
        import traceback

        lines = traceback.format_exception(type(error), error, _users_part(error))
        return _clip("".join(lines), MAX_TRACEBACK)
    except BaseException as failed:  # a __str__ or __repr__ of the user may raise anything
        return f"{type_name(type(error))} (its traceback cannot be shown: {type(failed).__name__})"


def _users_part(error: BaseException) -> "TracebackType | None":
    """Skip the frames of the worker's loop, if anything is left below them."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_globals.get("__package__") == WORKER:
        traceback = traceback.tb_next
    return traceback or error.__traceback__


WORKER = "asyncpool.worker"


def _clip(text: str, most: int) -> str:
    """Leave out the middle of what is too long for anybody to read."""
    left_out = len(text) - most
    if left_out <= 0:
        return text
    return f"{text[: most // 2]} ... {left_out} characters ... {text[-most // 2 :]}"


def text(error: BaseException) -> str:
    """Return `str(error)`, whatever a user's `__str__` does."""
    try:
        return _clip(str.__str__(str(error)), MAX_TEXT)  # no subclass: it has to be packed
    except BaseException as failed:
        return f"<its __str__ raised {type(failed).__name__}>"


def _links(error: BaseException) -> Links:
    """List every exception that can be reached from this one, with its links."""
    links: Links = []
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        member = waiting.pop()
        if id(member) in seen:
            continue
        seen.add(id(member))
        links.append((member, member.__cause__, member.__context__, member.__suppress_context__))
        relatives = [member.__cause__, member.__context__]
        if isinstance(member, BaseExceptionGroup):
            relatives.extend(member.exceptions)
        waiting.extend(relative for relative in relatives if relative is not None)
    return links
