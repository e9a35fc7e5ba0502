"""One record, one line: a JSON object that begins with its number and ends with its checksum.

    {"seq":17,"kind":"finished","id":"thumb-42",...,"crc":"8d0e2a31"}

`crc` is the CRC-32, in hexadecimal, of the bytes of the line before `,"crc"`.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias
from zlib import crc32

Record: TypeAlias = "dict[str, Any]"

SEAL_SIZE = len(b',"crc":"00000000"}\n')

_decode = json.JSONDecoder().decode


def seal(seq: int, body: str) -> bytes:
    """Return the line of a record, whose fields after `seq` are `body` (JSON without braces)."""
    text = f'{{"seq":{seq},{body}'.encode()
    return b'%b,"crc":"%08x"}\n' % (text, crc32(text))


def is_sealed(line: bytes) -> bool:
    """Whether a line, its newline included, is as it was sealed."""
    return line[-SEAL_SIZE:] == b',"crc":"%08x"}\n' % crc32(line[:-SEAL_SIZE])


def unseal(line: bytes) -> Record | None:
    """Return the record on a line, its newline included; None if it is not as it was sealed."""
    if not is_sealed(line):
        return None
    try:
        record = _decode(line[:-SEAL_SIZE].decode() + "}")
    except (ValueError, RecursionError):  # never sealed by us, though its checksum is right
        return None
    return record if type(record.get("seq")) is int and type(record.get("kind")) is str else None
