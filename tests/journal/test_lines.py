"""A line holds one record, and tells by itself whether it is still as it was written."""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncpool.journal.lines import SEAL_SIZE, seal, unseal

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=5,
)
names = st.text().filter(lambda name: name not in ("seq", "kind", "crc"))
fields = st.dictionaries(names, values, max_size=5)

ANY_TEXT = "plain, \"quoted\", back\\slash, ümläut, 漢字, 🦆, \x00\x1f\x7f, \r\n, \u2028, ','"


def body_of(fields: dict[str, Any], *, ascii_only: bool = True) -> str:
    return json.dumps({"kind": "test", **fields}, ensure_ascii=ascii_only)[1:-1]


@given(st.integers(0, 2**70), fields)
def test_what_was_sealed_comes_out(seq: int, fields: dict[str, Any]) -> None:
    line = seal(seq, body_of(fields))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert unseal(line) == {"seq": seq, "kind": "test", **fields}


@pytest.mark.parametrize("ascii_only", [True, False])
def test_text_of_any_kind(ascii_only: bool) -> None:
    line = seal(1, body_of({"text": ANY_TEXT}, ascii_only=ascii_only))
    assert line.isascii() is ascii_only
    assert unseal(line) == {"seq": 1, "kind": "test", "text": ANY_TEXT}


def test_a_lone_surrogate_stays_what_it_is() -> None:
    record = unseal(seal(1, body_of({"text": "\ud800"})))
    assert record is not None
    assert record["text"] == "\ud800"


def test_a_line_is_plain_json_for_other_tools() -> None:
    line = seal(17, '"kind":"finished","id":"thumb-42"')
    assert line[-SEAL_SIZE:].startswith(b',"crc":"')
    other_tool = json.loads(line)
    assert len(other_tool.pop("crc")) == 8
    assert other_tool == {"seq": 17, "kind": "finished", "id": "thumb-42"}


@pytest.mark.parametrize("ascii_only", [True, False])
def test_every_flipped_bit_is_noticed(ascii_only: bool) -> None:
    line = seal(17, body_of({"text": ANY_TEXT}, ascii_only=ascii_only))
    assert unseal(line) is not None
    for at in range(len(line)):
        for bit in range(8):
            broken = bytearray(line)
            broken[at] ^= 1 << bit
            assert unseal(bytes(broken)) is None, f"bit {bit} of byte {at}"


def test_every_changed_byte_is_noticed() -> None:
    line = seal(5, '"kind":"closed","time":1.000')
    for at, was in enumerate(line):
        for byte in set(range(256)) - {was}:
            broken = line[:at] + bytes([byte]) + line[at + 1 :]
            assert unseal(broken) is None, f"byte {at} became {byte}"


def test_every_cut_is_noticed() -> None:
    line = seal(17, body_of({"text": ANY_TEXT}))
    for at in range(len(line)):
        assert unseal(line[:at]) is None, f"without what follows byte {at}"
        assert at == 0 or unseal(line[at:]) is None, f"without the first {at} bytes"


def test_a_line_without_its_newline_was_not_written_whole() -> None:
    line = seal(1, '"kind":"closed"')
    assert unseal(line[:-1]) is None
    assert unseal(line[:-1] + b"\0") is None
    assert unseal(line[:-1] + b"\r\n") is None


@given(st.binary(max_size=100))
def test_nonsense_is_no_record(data: bytes) -> None:
    assert unseal(data) is None
    assert unseal(data + b"\n") is None


@pytest.mark.parametrize(
    "body",
    [
        '"kind":"closed",',
        '"kind":"closed","time":inf',
        '"kind":"closed"}',
        '"time":1.0',
        '"kind":7',
        '"kind":null',
        '"kind":"closed","seq":"seventeen"',
        '"kind":"closed","seq":true',
        '"kind":"closed","deep":' + "[" * 100_000,
    ],
)
def test_a_right_seal_makes_nonsense_no_record(body: str) -> None:
    assert unseal(seal(17, body)) is None


def test_bytes_that_are_no_text_are_no_record() -> None:
    text = b'{"seq":1,"kind":"\xff"'
    assert unseal(b'%b,"crc":"%08x"}\n' % (text, crc32(text))) is None
