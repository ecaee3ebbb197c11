"""Standard input in place of a file: copied to one, because files are looked at more than once.

The format is told by the content, as no name tells it, and then by the ending of the copy's name.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

from assay.errors import FormatError, StorageError
from assay.io.formats import MAGIC
from assay.io.streams import StandardInput, open_chunks

__all__ = ["keep_standard_input"]

_HEAD: Final = 1 << 16  # bytes that tell a format


@contextmanager
def keep_standard_input() -> Iterator[StandardInput]:
    """Standard input as a file that is there as long as it is needed."""
    if sys.stdin is None or sys.stdin.closed:
        raise StorageError("Standard input is closed, so there is nothing to read for '-'.")
    folder = tempfile.mkdtemp(prefix="assay-")
    try:
        path = os.path.join(folder, "stdin")
        _copy_to(path)
        name = f"{path}{_ending_of_content(path)}"
        os.rename(path, name)
        yield StandardInput(name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy_to(path: str) -> None:
    try:
        with open(path, "xb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
    except OSError as error:
        words = error.strerror or error
        raise StorageError(f"Standard input cannot be kept in a file: {words}.") from error


def _ending_of_content(path: str) -> str:
    """The ending that a file with this content would have."""
    head = _head_of(path)
    found = next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)
    if found is not None:
        return f".{found}"
    lines = head.decode(errors="replace").lstrip("\ufeff").splitlines()
    text = [line for line in lines if line.strip() and not line.startswith("#")]
    return _ending_of_text(*islice([*text, ""], 2)) if text else ".txt"


def _head_of(path: str) -> bytes:
    try:
        return next(iter(open_chunks(path, _HEAD)))[:_HEAD] if os.path.getsize(path) else b""
    except FormatError:  # whoever reads all of it says what is wrong
        return b""


def _ending_of_text(first: str, second: str) -> str:
    if first.lstrip()[0] in "[{":
        return ".jsonl" if second and _is_json(first) else ".json"
    cells = first.split()
    if len(cells) in (4, 6) and _is_number(cells[3 if len(cells) == 4 else 4]):
        return ".txt"
    return ".tsv" if "\t" in first else ".csv" if "," in first else ".txt"


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
