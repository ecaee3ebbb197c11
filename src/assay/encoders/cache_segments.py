"""Segments: files of vectors that only grow, each written by one process, checked block by block.

A segment is a row of blocks; a block is one finished batch:

    5 × 4 bytes   magic, texts n, dimension d, CRC of (n, d, keys, flags), CRC of the vectors
    n × 16 bytes  keys: BLAKE2b of each text
    n × 1 byte    flags: 0 read whole, 1 truncated, 2 the model cannot tell
    n × d × 4     vectors, float32, little-endian

A process that is killed leaves at most half a block at the end of its own segment; readers stop
there. Keys are read without the vectors, so that what is not wanted costs 17 bytes a text.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

__all__ = ["KEY_TYPE", "Block", "append_block", "read_blocks"]

KEY_TYPE: Final = np.dtype("S16")
_MAGIC: Final = b"AEB1"
_HEAD: Final = struct.Struct("<4sIIII")
_SIZES: Final = struct.Struct("<II")

Keys = NDArray[np.bytes_]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Block:
    """Keys and flags of one batch, and where its vectors are."""

    keys: Keys
    flags: Bytes
    dimension: int
    start: int
    checksum: int

    @property
    def end(self) -> int:
        """Where the next block begins."""
        return self.start + 4 * len(self.keys) * self.dimension

    def vectors(self, file: BinaryIO) -> Floats | None:
        """The vectors, or None where they are not what was written."""
        file.seek(self.start)
        raw = file.read(self.end - self.start)
        if len(raw) != self.end - self.start or crc32(raw) != self.checksum:
            return None
        return np.frombuffer(raw, "<f4").reshape(len(self.keys), self.dimension)


def append_block(path: Path, keys: Keys, flags: Bytes, vectors: Floats) -> None:
    """Write a block at the end of a segment; if it cannot be written whole, none of it stays."""
    sizes = _SIZES.pack(*vectors.shape)
    names = keys.tobytes() + flags.tobytes()
    body = np.ascontiguousarray(vectors, "<f4").tobytes()
    head = _HEAD.pack(_MAGIC, *vectors.shape, crc32(names, crc32(sizes)), crc32(body))
    with open(path, "ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            _write_all(file, head + names + body)
        except BaseException:
            file.truncate(before)
            raise


def _write_all(file: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def read_blocks(file: BinaryIO) -> Iterator[Block]:
    """The blocks of a segment up to its end, or to the first that is not sound."""
    length = os.fstat(file.fileno()).st_size
    at = 0
    while (block := _block_at(file, at, length)) is not None:
        yield block
        at = block.end


def _block_at(file: BinaryIO, at: int, length: int) -> Block | None:
    file.seek(at)
    raw = file.read(_HEAD.size)
    if len(raw) < _HEAD.size:
        return None
    magic, n, dimension, of_head, of_body = _HEAD.unpack(raw)
    start = at + _HEAD.size + 17 * n
    if magic != _MAGIC or start + 4 * n * dimension > length:
        return None
    names = file.read(17 * n)
    if len(names) != 17 * n or crc32(names, crc32(_SIZES.pack(n, dimension))) != of_head:
        return None
    keys = np.frombuffer(names, KEY_TYPE, n)
    return Block(keys, np.frombuffer(names, np.uint8, n, 16 * n), dimension, start, of_body)
