"""Arrays of a .safetensors file, read with numpy alone and without trusting the header.

The file is 8 bytes with the length of a JSON header, the header, and the bytes of all tensors.
The format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.errors import FormatError
from assay.io.arrays import is_shape
from assay.io.mapped import WatchedFile, steady_files
from assay.io.plain_data import parse_json
from assay.io.streams import open_chunks

_LONGEST_HEADER: Final = 100_000_000
_TYPES: Final = "F64=<f8 F32=<f4 F16=<f2 BF16=<u2 I64=<i8 I32=<i4 I16=<i2 I8=<i1 U8=<u1 BOOL=?"
_DTYPES: Final = dict(pair.split("=") for pair in _TYPES.split())


def load_safetensors(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Read the tensors by name, and the file's notes (`__metadata__`)."""
    name = os.fspath(path)
    next(open_chunks(name, 1))  # refuses empty files and what is not a regular file
    file = WatchedFile(name)
    header, start = _header(name)
    notes = header.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
        raise FormatError(f"{name}: __metadata__ must hold text only.")
    size = max(file.size - start, 0)
    with steady_files(file):
        data = file.map(start, (size,), np.uint8)
        tensors = {key: _tensor(data, entry, f"{name}, {key!r}") for key, entry in header.items()}
    return tensors, notes


def _header(name: str) -> tuple[dict[str, Any], int]:
    with open(name, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        room = os.fstat(file.fileno()).st_size - 8
        if not 2 <= length <= min(room, _LONGEST_HEADER):
            raise FormatError(
                f"{name} is not a valid .safetensors file: the header needs {length} of "
                f"{max(room, 0)} bytes. Fetch it again."
            )
        raw = file.read(length)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise FormatError(f"{name}: the header is not UTF-8. Fetch or write it again.") from None
    header = parse_json(text, f"{name}, header")
    if not isinstance(header, dict):
        raise FormatError(f"{name}: the header must be a JSON object.")
    return header, 8 + length


def _tensor(data: NDArray[Any], entry: Any, place: str) -> NDArray[Any]:
    try:
        dtype, shape = entry["dtype"], entry["shape"]
        first, last = entry["data_offsets"]
        kind = np.dtype(_DTYPES[dtype])
        whole = all(is_shape([offset], 1) for offset in (first, last))
        if not isinstance(shape, list) or not is_shape(shape, kind.itemsize) or not whole:
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise FormatError(
            f"{place}: {entry!r:.120} does not describe a tensor. Known types are "
            f"{', '.join(_DTYPES)}."
        ) from None
    size = math.prod(shape) * kind.itemsize
    if not first <= last <= len(data) or last - first != size:
        raise FormatError(
            f"{place}: the shape {shape} of {dtype} takes {size} bytes, but bytes {first} to "
            f"{last} of {len(data)} are named. The file is truncated or damaged."
        )
    raw = np.frombuffer(data[first:last].tobytes(), kind).reshape(shape)
    # A bfloat16 is the upper half of a float32.
    return (raw.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else raw
