"""What the records say: their fields as JSON text, in the order a person wants to read them."""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from functools import lru_cache
from typing import Any

from ..raised import dump
from ..retry import DEFAULT_RETRY, Retry
from .lines import Record
from .reading import FORMAT, TITLE

_text = json.JSONEncoder().encode
"""JSON also of what only derives from str, int or float, and whose `repr` is something else."""

_raw = json.encoder.encode_basestring


def _quoted(text: str) -> str:
    """Return a text as JSON that people can read and grep, whatever their script."""
    if not text.isascii():
        text = text.encode(errors="backslashreplace").decode()  # no lone surrogates
    return _raw(text)


def packed(data: bytes | bytearray) -> str:
    """Return bytes as text."""
    return b2a_base64(data, newline=False).decode()


_packed_function = lru_cache(maxsize=256)(packed)


def unpacked(text: str) -> bytes:
    """Return the bytes that `packed` was given."""
    return a2b_base64(text)


def title(compacted: int, time: float) -> str:
    """Return the first record: up to `compacted`, numbers may be missing."""
    return f'"kind":"{TITLE}","format":{FORMAT},"time":{time:.3f},"compacted":{compacted}'


def opened(pid: int, time: float) -> str:
    """Return the record of a process that took the journal."""
    return f'"kind":"opened","time":{time:.3f},"pid":{pid}'


def closed(time: float) -> str:
    """Return the record of an orderly end: what is unfinished was not what killed the owner."""
    return f'"kind":"closed","time":{time:.3f}'


def submitted(
    *,
    id: str,
    named: bool,
    fn_name: str,
    time: float,
    priority: int,
    deadline: float | None,
    not_before: float | None,
    timeout: float | None,
    retry: Retry,
    function: bytes,
    payload: bytes,
    script: str | None = None,
) -> str:
    """Return the record of a job; times are seconds since the epoch, `timeout` a duration.

    `script` is the file of the main module, if the call refers to that.
    """
    extras = ""
    if priority:
        extras += f',"priority":{_text(priority)}'
    if deadline is not None:
        extras += f',"deadline":{_text(deadline)}'
    if not_before is not None:
        extras += f',"not_before":{_text(not_before)}'
    if timeout is not None:
        extras += f',"timeout":{_text(timeout)}'
    if retry is not DEFAULT_RETRY and retry != DEFAULT_RETRY:
        extras += f',"retry":{_text(_retry_fields(retry))}'
    if named:
        extras += ',"named":true'
    if script is not None:
        extras += f',"script":{_quoted(script)}'
    return (
        f'"kind":"submitted","id":{_quoted(id)},"function":{_quoted(fn_name)},"time":{time:.3f},'
        f'"state":"pending"{extras},"call":"{_packed_function(function)}","payload":"{packed(payload)}"'
    )


def _retry_fields(retry: Retry) -> dict[str, Any]:
    fields = {name: getattr(retry, name) for name in _PLAIN_RETRY}
    if retry.on != DEFAULT_RETRY.on:
        fields["on"] = packed(dump(retry.on))
    return fields


_PLAIN_RETRY = ("max_crashes", "max_errors", "delay", "factor", "max_delay", "jitter")


def retry_of(record: Record) -> tuple[Retry, bytes | None]:
    """Return the Retry of a submitted record, and its pickled `on` if that is not the default.

    Those classes are not loaded here: that would import the user's code.
    """
    fields = record.get("retry")
    if fields is None:
        return DEFAULT_RETRY, None
    retry = Retry(**{name: fields[name] for name in _PLAIN_RETRY})
    return retry, unpacked(fields["on"]) if "on" in fields else None


def sent(ids: list[str], time: float, worker: int, pid: int) -> str:
    """Return the record of jobs that are about to be written to a worker, in this order."""
    return (
        f'"kind":"sent","ids":[{",".join(map(_quoted, ids))}],"time":{time:.3f},"state":"sent",'
        f'"worker":{worker},"pid":{pid}'
    )


def requeued(id: str, time: float) -> str:
    """Return the record of a job that is back in the queue, as if it had never been sent."""
    return f'"kind":"requeued","id":{_quoted(id)},"time":{time:.3f},"state":"pending"'


def retried(
    id: str,
    time: float,
    attempt: str,
    *,
    crashes: int,
    errors: int,
    not_before: float | None = None,
) -> str:
    """Return the record of an attempt that was not the last."""
    later = f',"not_before":{_text(not_before)}' if not_before is not None else ""
    return (
        f'"kind":"retried","id":{_quoted(id)},"time":{time:.3f},"state":"retrying",'
        f'"attempt":{attempt},"crashes":{crashes},"errors":{errors}{later}'
    )


def finished(id: str, time: float, state: str, attempts: str, outcome: str) -> str:
    """Return the record of a job's end; `outcome` is one of the texts below."""
    return (
        f'"kind":"finished","id":{_quoted(id)},"time":{time:.3f},"state":"{state}",'
        f'"attempts":[{attempts}],{outcome}'
    )


def attempt(
    number: int,
    pid: int,
    started_at: float,
    ended_at: float | None,
    outcome: str,
    exit_code: int | None,
    signal: int | None,
) -> str:
    """Return an attempt, as it stands in `retried` and `finished` records."""
    ended = "null" if ended_at is None else f"{ended_at:.3f}"
    cause = "" if exit_code is None and signal is None else f",{_text(exit_code)},{_text(signal)}"
    return f'[{number},{pid},{started_at:.3f},{ended},"{outcome}"{cause}]'


# How a job ended

CANCELLED = '"outcome":"cancelled"'


def value(payload: bytes | bytearray) -> str:
    """The function returned this."""
    return f'"outcome":"value","payload":"{packed(payload)}"'


def error(payload: bytes | bytearray, said: str) -> str:
    """The function raised, which `said` tells to people."""
    return f'"outcome":"error","error":{_quoted(said)},"payload":"{packed(payload)}"'


def crash(death: dict[str, Any], pid: int, ran_for: float) -> str:
    """Too many workers died."""
    return f'"outcome":"crashed","pid":{pid},"ran_for":{ran_for:.6f},"death":{_text(death)}'


def overrun(limit: float | None, death: dict[str, Any] | None, pid: int | None) -> str:
    """It took longer than `limit` seconds, or (None) passed its deadline."""
    return f'"outcome":"timeout","timeout":{_text(limit)},"pid":{_text(pid)},"death":{_text(death)}'
