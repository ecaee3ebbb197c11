"""Embedding cache: every text is computed once for each model, whatever run asks for it.

A vector is found by the digest of its text and the fingerprint of what made it; texts themselves
are not stored. Each process writes files of its own, so any number may run at once; what two of
them compute at the same moment is stored twice and does no harm. A block that is damaged is
noticed by its checksum and computed again.
"""

from __future__ import annotations

import os
import secrets
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Bytes, Floats32
from assay.errors import UsageError

KEY_TYPE: Final = np.dtype("S16")
_MAGIC: Final = b"AEB1"
_HEAD: Final = struct.Struct("<4sIIII")
_SIZES: Final = struct.Struct("<II")

VARIABLE: Final = "ASSAY_CACHE"
_LAYOUT: Final = "embeddings-1"
_ENDING: Final = ".segment"
_NO_NUMBERS: Final = np.empty(0, np.float32)

Keys = NDArray[np.bytes_]
Tell = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Block:
    """Hold keys and flags of one batch, and where its vectors are."""

    keys: Keys
    flags: Bytes
    dimension: int
    start: int
    checksum: int

    @property
    def end(self) -> int:
        """Return where the next block begins."""
        return self.start + 4 * len(self.keys) * self.dimension

    def vectors(self, file: BinaryIO) -> Floats32 | None:
        """Return the vectors, or None where they are not what was written."""
        file.seek(self.start)
        raw = file.read(self.end - self.start)
        if len(raw) != self.end - self.start or crc32(raw) != self.checksum:
            return None
        return np.frombuffer(raw, "<f4").reshape(len(self.keys), self.dimension)


def append_block(path: Path, keys: Keys, flags: Bytes, vectors: Floats32) -> None:
    """Write a block at the end of a segment; if it cannot be written whole, none of it stays."""
    sizes = _SIZES.pack(*vectors.shape)
    names = keys.tobytes() + flags.tobytes()
    body = np.ascontiguousarray(vectors, "<f4").tobytes()
    head = _HEAD.pack(_MAGIC, *vectors.shape, crc32(names, crc32(sizes)), crc32(body))
    with open(path, "ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            view = memoryview(head + names + body)
            while view:
                view = view[file.write(view) :]
        except BaseException:
            file.truncate(before)
            raise


def read_blocks(file: BinaryIO) -> Iterator[Block]:
    """Yield the blocks of a segment up to its end, or to the first that is not sound."""
    length, at = os.fstat(file.fileno()).st_size, 0
    while True:
        file.seek(at)
        raw = file.read(_HEAD.size)
        if len(raw) < _HEAD.size:
            return
        magic, n, dimension, of_head, of_body = _HEAD.unpack(raw)
        start = at + _HEAD.size + 17 * n
        if magic != _MAGIC or start + 4 * n * dimension > length:
            return
        names = file.read(17 * n)
        if len(names) != 17 * n or crc32(names, crc32(_SIZES.pack(n, dimension))) != of_head:
            return
        keys, flags = np.frombuffer(names, KEY_TYPE, n), np.frombuffer(names, np.uint8, n, 16 * n)
        block = Block(keys, flags, dimension, start, of_body)
        yield block
        at = block.end


def content_keys(texts: Sequence[str]) -> Keys:
    """Return the digest of each text."""
    digests = (blake2b(text.encode(), digest_size=16).digest() for text in texts)
    return np.frombuffer(b"".join(digests), KEY_TYPE, len(texts))


def default_folder() -> Path:
    """Return ASSAY_CACHE, else `assay` in the system's folder for caches."""
    folder = os.environ.get(VARIABLE)
    if folder:
        return Path(folder)
    home = Path.home()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
        return Path(local) / "assay" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "assay"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "assay"


@dataclass(frozen=True)
class CacheSize:
    """Tell how much a cache holds.

    Example:
        >>> CacheSize(n_bytes=0, n_models=0, n_files=0).n_files
        0
    """

    n_bytes: int
    n_models: int
    n_files: int


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=2)


class EmbeddingCache:
    """Keep vectors of all models under one folder.

    Args:
        folder: Where vectors are kept, by default `default_folder()`.
        tell: Function that hears of troubles that are survived.

    Raises:
        UsageError: `folder` is no path.

    Example:
        cache = EmbeddingCache("vectors")
        text_model("wordllama", cache=cache).encode_docs(["a text"])
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, tell: Tell = _warn) -> None:
        if not isinstance(folder, str | os.PathLike | None):
            raise UsageError(f"Invalid cache {type(folder).__name__}. Pass a folder.")
        self.folder = default_folder() if folder is None else Path(folder)
        self.tell = tell

    def of_model(self, fingerprint: str, spec: str = "") -> ModelCache:
        """Return the vectors of one model; `spec` is for people who look into the folder."""
        return ModelCache(self.folder / _LAYOUT / fingerprint, spec, self.tell)

    def size(self) -> CacheSize:
        """Count bytes, models and files."""
        files = [(file, file.stat().st_size) for file in self._segments()]
        models = {file.parent for file, _ in files}
        return CacheSize(sum(size for _, size in files), len(models), len(files))

    def clear(self) -> CacheSize:
        """Remove all vectors, and no other file; return what was removed."""
        before = self.size()
        for file in list(self._segments()):
            with suppress(FileNotFoundError):
                file.unlink()
        for folder in self._models():
            with suppress(OSError):
                (folder / "model.txt").unlink(missing_ok=True)
                folder.rmdir()
        return before

    def _models(self) -> list[Path]:
        with suppress(OSError):
            return sorted(path for path in (self.folder / _LAYOUT).iterdir() if path.is_dir())
        return []

    def _segments(self) -> Iterator[Path]:
        for folder in self._models():
            yield from folder.glob(f"*{_ENDING}")


class ModelCache:
    """Find and add vectors of one model on disk."""

    def __init__(self, folder: Path, spec: str, tell: Tell) -> None:
        self._folder, self._spec, self._tell = folder, spec, tell
        self._lock, self._writes = threading.Lock(), True
        self._name = ""  # given at the first write, so that names are in the order of time

    def find(self, keys: Keys, *, ragged: bool = False) -> CacheLookup:
        """Look these texts up; newer files count before older ones."""
        lookup = CacheLookup(keys, ragged=ragged)
        paths: list[Path] = []
        with suppress(OSError):
            paths = sorted(self._folder.glob(f"*{_ENDING}"), reverse=True)
        for path in paths:
            if lookup.known.all():
                break
            try:
                with open(path, "rb") as file:
                    sound = lookup.take_from(file)
            except OSError as error:
                self._tell(f"{path} in the cache cannot be read ({error.strerror}); recomputing.")
                continue
            if not sound:
                self._tell(f"{path} in the cache is damaged; recomputing.")
        return lookup

    def add(self, keys: Keys, vectors: Floats32 | Sequence[Floats32], flags: Bytes) -> None:
        """Put a finished batch on disk; where that fails, go on without, after saying so.

        Rows of different lengths are written as a block for each length.
        """
        with self._lock:
            if not self._writes:
                return
            try:
                if not self._folder.is_dir():
                    self._folder.mkdir(0o700, parents=True, exist_ok=True)
                    (self._folder / "model.txt").write_text(f"{self._spec}\n", "utf-8")
                self._name = self._name or f"{time.time_ns():020d}-{secrets.token_hex(6)}"
                path = self._folder / f"{self._name}-{os.getpid()}{_ENDING}"
                if isinstance(vectors, np.ndarray):
                    append_block(path, keys, flags, vectors)
                    return
                lengths = np.array([len(row) for row in vectors])
                for length in np.unique(lengths):
                    some = np.flatnonzero(lengths == length)
                    rows = np.stack([vectors[row] for row in some.tolist()])
                    append_block(path, keys[some], flags[some], rows)
            except OSError as error:
                self._writes = False
                self._tell(
                    f"The embedding cache {self._folder} cannot be written "
                    f"({error.strerror or error}). Continuing without it; set {VARIABLE} to a "
                    "folder with room."
                )


class CacheLookup:
    """Look distinct keys up, file after file: which are known, their vectors and flags.

    Keys are compared as two whole numbers, which is far faster than as bytes: they are sorted by
    the first, and two that share it (one chance in 10^7 among a million) are at worst not found.
    Ragged vectors are a list of rows, each of any length.
    """

    def __init__(self, keys: Keys, *, ragged: bool = False) -> None:
        halves = as_halves(keys)
        self._order = np.argsort(halves[:, 0], kind="stable")
        self._first, self._second = halves[self._order].T.copy()
        self.known, self.flags = np.zeros(len(keys), bool), np.zeros(len(keys), np.uint8)
        self.vectors: Any = [_NO_NUMBERS] * len(keys) if ragged else None
        self._ragged = ragged

    def take_from(self, file: BinaryIO) -> bool:
        """Take what a segment has; False if some of it is not what was written."""
        sound = True
        for block in read_blocks(file):
            places, held = self._matches(block)
            if not len(places):
                continue
            rows = block.vectors(file)
            if rows is None:
                sound = False
                continue
            self.known[places], self.flags[places] = True, block.flags[held]
            if self._ragged:
                for place, row in zip(places.tolist(), rows[held], strict=True):
                    self.vectors[place] = row
                continue
            if self.vectors is None:
                self.vectors = np.zeros((len(self.known), block.dimension), np.float32)
            self.vectors[places] = rows[held]
        return sound

    def _matches(self, block: Block) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which missing keys a block holds, and at which of its rows."""
        other_width = isinstance(self.vectors, np.ndarray) and (
            self.vectors.shape[1] != block.dimension
        )
        if other_width:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        first, second = as_halves(block.keys).T
        place = np.minimum(np.searchsorted(self._first, first), len(self._first) - 1)
        rows = self._order[place]
        same = (self._first[place] == first) & (self._second[place] == second)
        held = np.flatnonzero(same & ~self.known[rows])
        return rows[held], held


def as_halves(keys: Keys) -> NDArray[np.uint64]:
    """Return each key as two whole numbers."""
    return np.frombuffer(keys.tobytes(), "<u8").reshape(len(keys), 2)
