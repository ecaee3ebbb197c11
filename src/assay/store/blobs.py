"""Arrays as compact bytes with a checksum: the same bits come back, or an error."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.errors import StorageError

__all__ = ["Blob", "packed", "packed_json", "packed_texts", "unpacked", "unpacked_json",
           "unpacked_texts"]  # fmt: skip

_TYPES: Final = {"float64": np.dtype("<f8"), "int64": np.dtype("<i8"), "bool": np.dtype("|b1")}
_UTF8: Final = "surrogatepass"  # names of files may hold halves of surrogate pairs


@dataclass(frozen=True)
class Blob:
    """One array: what it is called, how it is written, how large it was, and its bytes."""

    kind: str
    position: int
    name: str
    encoding: str
    size: int
    raw_bytes: int
    checksum: str
    content: bytes


def packed(kind: str, array: NDArray[Any], *, position: int = 0, name: str = "") -> Blob:
    """An array of float64, int64 or bool."""
    encoding = array.dtype.name
    if encoding == "bool":
        raw = np.packbits(array).tobytes()
    else:
        # Bytes of equal weight lie together: few values repeat whole, but many share a sign.
        wide = np.ascontiguousarray(array, _TYPES[encoding])
        raw = wide.view(np.uint8).reshape(-1, 8).T.tobytes()
    return _blob(kind, position, name, encoding, len(array), raw)


def packed_texts(kind: str, texts: Sequence[str], *, position: int = 0, name: str = "") -> Blob:
    """Texts: their lengths in bytes, then their bytes."""
    coded = [text.encode("utf-8", _UTF8) for text in texts]
    lengths = np.asarray([len(text) for text in coded], "<u4")
    return _blob(kind, position, name, "texts", len(texts), lengths.tobytes() + b"".join(coded))


def packed_json(kind: str, text: str, position: int = 0, name: str = "") -> Blob:
    """A JSON text."""
    return _blob(kind, position, name, "json", 1, text.encode())


def _blob(kind: str, position: int, name: str, encoding: str, size: int, raw: bytes) -> Blob:
    content = zlib.compress(raw, 6)
    return Blob(kind, position, name, encoding, size, len(raw), _checksum(content), content)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def unpacked(blob: Blob) -> NDArray[Any]:
    """The array, read-only."""
    if blob.encoding not in _TYPES:
        raise _damaged(blob, f"is written as {blob.encoding!r}, which is not known")
    raw = _raw(blob)
    expected = (blob.size + 7) // 8 if blob.encoding == "bool" else 8 * blob.size
    if len(raw) != expected:
        raise _damaged(blob, f"has {len(raw)} bytes where {expected} are needed")
    bytes_ = np.frombuffer(raw, np.uint8)
    if blob.encoding == "bool":
        found = np.unpackbits(bytes_, count=blob.size).view(np.bool_)
    else:
        found = np.ascontiguousarray(bytes_.reshape(8, -1).T).reshape(-1).view(
            _TYPES[blob.encoding]
        )  # fmt: skip
    found.flags.writeable = False
    return found


def unpacked_texts(blob: Blob) -> list[str]:
    """The texts."""
    raw = _raw(blob)
    head = 4 * blob.size
    lengths = np.frombuffer(raw[:head], "<u4").astype(np.int64)
    ends = [0, *np.cumsum(lengths).tolist()]
    body = raw[head:]
    if blob.encoding != "texts" or len(lengths) != blob.size or ends[-1] != len(body):
        raise _damaged(blob, "does not hold the texts that it should")
    return [body[start:end].decode("utf-8", _UTF8) for start, end in pairwise(ends)]


def unpacked_json(blob: Blob) -> str:
    """The JSON text."""
    return _raw(blob).decode()


def _raw(blob: Blob) -> bytes:
    # A flipped bit of a SQLite file can make text of bytes, and numbers too.
    kinds = (type(blob.content), type(blob.size), type(blob.raw_bytes))
    if kinds != (bytes, int, int) or _checksum(blob.content) != blob.checksum:
        raise _damaged(blob, "does not match its checksum")
    reader = zlib.decompressobj()
    raw = reader.decompress(blob.content, blob.raw_bytes + 1)
    if len(raw) != blob.raw_bytes or not reader.eof:
        raise _damaged(blob, f"does not unpack to {blob.raw_bytes} bytes")
    return raw


def _damaged(blob: Blob, how: str) -> StorageError:
    what = f"{blob.kind} {blob.name}".strip()
    return StorageError(f"A stored array ({what!r}) {how}: the store is damaged there.")
