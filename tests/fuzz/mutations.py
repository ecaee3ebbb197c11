"""Changes of bytes, and of the numbers, words and structure that text formats are made of."""

from __future__ import annotations

import gzip
import io
import random
import re
import zipfile
import zlib
from collections.abc import Callable
from typing import Final

# What has broken a reader of numbers, names or structure somewhere.
WORDS: Final = (
    b"1e999", b"-1e999", b"1" + b"0" * 30, b"-1" + b"0" * 400, b"9" * 5000, b"0x" + b"f" * 5000,
    b"1_0", b"nan", b"inf", b"-0", b"2147483648", b"9223372036854775808", b"-1", b"0", b"1.5",
    b"2020-13-45", b"2020-01-01", b"[1, 2]", b"? [a, b]\n: c", b"\r", b"\0", b"\xff",
    b"\xed\xa0\x80",
    b'"', b"'", b"\n\n", b",", b"{", b"}", b"[" * 300, b"a." * 300, b"null", b"true", b'"\\ud800"',
    b"\xc2\x85", b"\xe2\x80\xa8", b"=1+1", b"\t", b"..", b"/", b"", b"*a", b"&a [*a]",
    b"!!python/none",
)  # fmt: skip
_NUMBER: Final = re.compile(rb"-?[0-9][0-9.]*")


def mutate(data: bytes, chance: random.Random) -> bytes:
    """The data with one to four changes."""
    for _ in range(chance.randint(1, 4)):
        data = chance.choice(_CHANGES)(data, chance)
    return data


def _flip(data: bytes, chance: random.Random) -> bytes:
    return _put(data, chance, bytes([chance.randrange(256)]), 1)


def _insert(data: bytes, chance: random.Random) -> bytes:
    return _put(data, chance, chance.choice(WORDS), 0)


def _replace_number(data: bytes, chance: random.Random) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return _insert(data, chance)
    at = chance.choice(found)
    return data[: at.start()] + chance.choice(WORDS) + data[at.end() :]


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)] if chance.random() < 0.3 else _drop(data, chance)


def _drop(data: bytes, chance: random.Random) -> bytes:
    return _put(data, chance, b"", chance.randint(1, 12))


def _repeat(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    piece = data[start : start + chance.randint(1, 40)]
    return _put(data, chance, piece * chance.randint(1, 3), 0)


def _swap_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    chance.shuffle(lines)
    return b"".join(lines)


def _inside(data: bytes, chance: random.Random) -> bytes:
    """The same inside an archive or a compressed file, with a right checksum."""
    if data[:2] == b"\x1f\x8b":
        try:
            return gzip.compress(mutate(gzip.decompress(data), chance), mtime=0)
        except (OSError, EOFError, ValueError, zlib.error):
            return _flip(data, chance)
    if data[:2] == b"PK":
        return _inside_zip(data, chance)
    return _replace_number(data, chance)


def _inside_zip(data: bytes, chance: random.Random) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {one.filename: archive.read(one) for one in archive.infolist()}
    except Exception:  # whatever zipfile says of an archive that was broken before
        return _flip(data, chance)
    buffer = io.BytesIO()
    chosen = chance.choice([*members, ""])
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, _header(content, chance) if name == chosen else content)
    return buffer.getvalue()


def _header(data: bytes, chance: random.Random) -> bytes:
    """An .npy file whose header is changed and keeps its length, or any change."""
    head, rest = data[:128], data[128:]
    shape = chance.choice(
        [b"(0, 10**30)", b"(%d,)" % 2**62, b"(0, %d)" % 2**62, b"(1,)" * 65, b"()"]
    )
    kind = chance.choice([b"'<U1'", b"'<f8'", b"'|O'", b"'<i8'", b"'<U0'", b"'>f4'", b"'|b1'"])
    if chance.random() < 0.5:
        head = re.sub(rb"'shape': \([^)]*\)", b"'shape': " + shape, head)
    if chance.random() < 0.5:
        head = re.sub(rb"'descr': '[^']*'", b"'descr': " + kind, head)
    if chance.random() < 0.5:
        rest = bytes(chance.randrange(256) for _ in rest)
    return head[:127].ljust(127) + b"\n" + rest if len(data) > 128 else mutate(data, chance)


def _put(data: bytes, chance: random.Random, piece: bytes, over: int) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + piece + data[at + over :]


_CHANGES: Final[tuple[Callable[[bytes, random.Random], bytes], ...]] = (
    _flip, _insert, _replace_number, _replace_number, _cut, _repeat, _swap_lines, _inside, _inside,
)  # fmt: skip
