"""Text files as decoded lines, plain or compressed: UTF-8, a byte order mark skipped."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from itertools import chain

from assay.errors import FormatError
from assay.io.streams import open_chunks

__all__ = ["read_lines", "read_text"]

Path = str | os.PathLike[str]
LONGEST_LINE = 1 << 20


def read_lines(path: Path, *, longest: int = LONGEST_LINE) -> Iterator[str]:
    """Go through the lines of a file; each keeps its line feed."""
    number = 0
    rest = b""
    for chunk in _without_mark(path):
        whole, feed, rest = (rest + chunk).rpartition(b"\n")
        lines = _split(_decoded(whole + feed, path, number))
        number += len(lines)
        if max(len(rest), *map(len, lines), 0) > longest:
            raise FormatError(
                f"{os.fspath(path)}, line {number} or before: a line is longer than "
                f"{longest >> 20} MiB. Is this the right file and format?"
            )
        yield from lines
    yield from _split(_decoded(rest, path, number))


def read_text(path: Path) -> str:
    """Read a whole file."""
    return _decoded(b"".join(_without_mark(path)), path, 0)


def _split(text: str) -> list[str]:
    """Split after each line feed and nowhere else: an id may hold U+2028 and the like."""
    parts = text.split("\n")
    last = parts.pop()
    return [f"{part}\n" for part in parts] + ([last] if last else [])


def _without_mark(path: Path) -> Iterator[bytes]:
    chunks = open_chunks(path)
    first = next(chunks, b"")
    return chain([first.removeprefix(codecs.BOM_UTF8)], chunks)


def _decoded(data: bytes, path: Path, lines_before: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = lines_before + data.count(b"\n", 0, error.start) + 1
        shown = ascii(data[max(error.start - 10, 0) : error.start + 10])
        raise FormatError(
            f"{os.fspath(path)}, line {line}: the text is not UTF-8: {shown}. "
            "Convert the file to UTF-8."
        ) from None
