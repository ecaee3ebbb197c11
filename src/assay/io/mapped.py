"""Files in memory maps: one that changes while it is read is an error, never a wrong number.

Size, time of change and inode are compared before and after. Pages that a file loses while it is
mapped read as zeros, which the compiled kernels note; without these, maps are copied by the system,
which reports a lost page instead of ending the process.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, Literal, NamedTuple, Protocol
from weakref import WeakSet

import numpy as np

from assay.arrays import Array, Bytes, Ints32
from assay.errors import StorageError
from assay.io.streams import unreadable
from assay.native import engine_name, kernels

_SPREAD: Final = 4  # bytes that are copied for each one that is wanted
_CHUNK_BYTES: Final = 1 << 20  # stays in the cache on its way through the system


class FileState(NamedTuple):
    """The state of a file when it was opened: identity, size, time."""

    size: int
    mtime_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, stat: os.stat_result) -> FileState:
        """Take what matters from the answer of the system."""
        return cls(stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_dev)


class Watched(Protocol):
    """A source that must not change while it is read."""

    def check(self, cause: Exception | None = None) -> None:
        """Raise StorageError if it changed."""

    def release(self) -> None:
        """End the watch."""


class WatchedFile:
    """A file that must stay as it was when this was made; `map` gives its content."""

    def __init__(self, name: str, stat: os.stat_result | None = None) -> None:
        self.name = name
        self._state = FileState.of(_stat(name) if stat is None else stat)
        self._lost: Ints32 = np.zeros(1, np.int32)

    @property
    def watched_files(self) -> tuple[WatchedFile, ...]:
        """Return itself."""
        return (self,)

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return self._state.size

    def map(
        self, start: int, shape: tuple[int, ...], dtype: Any, order: Literal["C", "F"] = "C"
    ) -> Array:
        """Return an array that begins at a byte of the file, read-only."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if not n_bytes:
            return np.empty(shape, dtype, order)
        with self._open() as file:
            first = start - start % mmap.ALLOCATIONGRANULARITY
            content = self._map_bytes(file, first, start - first + n_bytes)
            if content is not None:
                return np.ndarray(shape, dtype, content, start - first, order=order)
        return self.read(start, shape, dtype, order)

    def read(
        self, start: int, shape: tuple[int, ...], dtype: Any, order: Literal["C", "F"] = "C"
    ) -> Array:
        """Return a copy of such an array, which outlives every change of the file."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        with self._open() as file:
            copy = self.read_bytes(file, start, n_bytes)
        self.check()
        return np.ndarray(shape, dtype, copy.data, order=order)

    def check(self, cause: Exception | None = None) -> None:
        """Raise StorageError if the file changed since this was made."""
        try:
            state = FileState.of(os.stat(self.name))
        except OSError:
            state = None
        if state != self._state or self._lost[0]:
            raise _changed(self.name, self._state, state) from cause

    def release(self) -> None:
        """Do nothing: maps are watched for as long as they live."""

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        try:
            file = open(self.name, "rb", buffering=0)  # noqa: SIM115 - closed below
        except OSError:
            raise _changed(self.name, self._state, None) from None
        with file:
            state = FileState.of(os.fstat(file.fileno()))
            if state != self._state:
                raise _changed(self.name, self._state, state)
            yield file

    def _map_bytes(self, file: BinaryIO, start: int, n_bytes: int) -> _Map | None:
        """Map bytes; None where a loss of pages would not be noticed."""
        if needs_copies():
            return None
        try:
            content = _Map(file.fileno(), n_bytes, access=mmap.ACCESS_READ, offset=start)
        except ValueError:  # the file became shorter in this very moment
            raise _changed(self.name, self._state, _state_of(file)) from None
        content.file = self
        content.number = kernels().watch_map(_address(content), n_bytes, self._lost)
        return content if content.number >= 0 else None

    def read_bytes(self, file: BinaryIO, start: int, n_bytes: int) -> Bytes:
        """Read a part of the file, whole."""
        content = np.empty(n_bytes, np.uint8)
        rest = content.data
        file.seek(start)
        while rest:
            count = file.readinto(rest)  # type: ignore[attr-defined]
            if not count:
                raise _changed(self.name, self._state, _state_of(file))
            rest = rest[count:]
        content.flags.writeable = False
        return content


class _Map(mmap.mmap):
    """A map of a watched file."""

    file: WatchedFile
    number = -1

    def __del__(self) -> None:
        """End the watch before the memory is given back."""
        if self.number >= 0:
            kernels().unwatch_map(self.number)


# Maps in which pages were lost: they hold zeros for good, whatever becomes of the file.
_DAMAGED: WeakSet[mmap.mmap] = WeakSet()


class _ForeignMap:
    """A map that a caller made, of a file whose name may be known."""

    def __init__(self, content: mmap.mmap, name: str | None, offset: int) -> None:
        self._content, self._path = content, name
        self._lost: Ints32 = np.zeros(1, np.int32)
        self._number = -1
        self._before = self._look()
        if content in _DAMAGED or content.size() < offset + len(content):
            raise StorageError(f"{self._name} became shorter after it was mapped. Map it again.")
        if not needs_copies():
            self._number = kernels().watch_map(_address(content), len(content), self._lost)

    @property
    def _name(self) -> str:
        return self._path or "A memory-mapped file"

    def _look(self) -> tuple[int, FileState | None]:
        state = None
        if self._path is not None:
            try:
                state = FileState.of(os.stat(self._path))
            except OSError:  # a file that has no name any more may well be mapped
                state = None
        return self._content.size(), state

    def check(self, cause: Exception | None = None) -> None:
        """Raise StorageError if the file changed since this was made."""
        if self._lost[0]:
            _DAMAGED.add(self._content)
        if self._lost[0] or self._look() != self._before:
            raise _changed(self._name, self._before[1], self._look()[1]) from cause

    def release(self) -> None:
        """End the watch."""
        if self._number >= 0:
            kernels().unwatch_map(self._number)
            self._number = -1
        if self._lost[0]:
            _DAMAGED.add(self._content)


class steady_files:  # noqa: N801 - it is used as a function; a generator takes longer
    """Raise StorageError where a file behind these arrays changes meanwhile, whatever else fails.

    Rows of files are compared with what they were when they were opened.
    """

    def __init__(self, *sources: Any) -> None:
        self._files = [file for source in sources for file in watches_of(source)]
        self._block: tuple[Watched, ...] = ()  # of a stream: the one that it gave last

    def __enter__(self) -> steady_files:
        """Compare once before anything is read."""
        try:
            self._check()
        except StorageError:
            self._release()
            raise
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Compare again, unless the user interrupted."""
        try:
            if error is None or isinstance(error, Exception):
                self._check(error)
        finally:
            self._release()

    def block(self, source: Any) -> Any:
        """Return the next block of a stream, with which the one before it is done."""
        self._check()
        for file in self._block:
            file.release()
        self._block = watches_of(source)
        return source

    def _check(self, cause: Exception | None = None) -> None:
        for file in (*self._files, *self._block):
            file.check(cause)

    def _release(self) -> None:
        for file in (*self._files, *self._block):
            file.release()


def watches_of(source: Any) -> tuple[Watched, ...]:
    """Begin to watch the files behind an array, or a list of arrays."""
    if isinstance(source, list | tuple) and source and isinstance(source[0], np.ndarray):
        return tuple(watch for part in source for watch in watches_of(part))
    if not isinstance(source, np.ndarray):
        return tuple(getattr(source, "watched_files", ()))
    content, name, offset = _map_of(source)
    if content is None:
        return ()
    if isinstance(content, _Map):
        return (content.file,)
    try:
        return (_ForeignMap(content, name, offset),)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        return ()  # memory without a file


def named_files(source: Any) -> tuple[WatchedFile, ...]:
    """Return the file of an array that a caller mapped, as it is now, where its name is known."""
    array = source.array if isinstance(source, CopiedRows) else source
    if not isinstance(array, np.ndarray):
        return ()
    content, name, _ = _map_of(array)
    if isinstance(content, _Map) or name is None or not os.path.exists(name):
        return ()
    return (WatchedFile(name),)


def is_mapped(array: Any) -> bool:
    """Tell whether the elements of an array lie in a memory map."""
    return isinstance(array, np.ndarray) and _map_of(array)[0] is not None


def _map_of(array: Array) -> tuple[mmap.mmap | None, str | None, int]:
    """Find the map that holds an array, the name of its file, and where it begins in that."""
    holder: Any = array
    name, offset = None, 0
    while holder is not None and not isinstance(holder, mmap.mmap):
        if isinstance(holder, np.memmap) and name is None and holder.filename is not None:
            name = os.fspath(holder.filename)
            offset = holder.offset - holder.offset % mmap.ALLOCATIONGRANULARITY
        holder = holder.obj if isinstance(holder, memoryview) else getattr(holder, "base", None)
    return holder, name, offset


# Without compiled kernels ------------------------------------------------------------------------


def needs_copies() -> bool:
    """Tell whether maps must be copied, because a page that is lost would end the process."""
    return engine_name() != "native"


class CopiedRows:
    """Rows of a mapped array that are copied, by the system, as they are used."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self.nbytes = array.nbytes

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.array)

    def __getitem__(self, rows: Any) -> Array:
        """Return some rows."""
        if isinstance(rows, slice):
            return copy_mapped(self.array[rows])
        numbers = np.arange(len(self))[rows]
        return np.concatenate([self[:0], *(self[row : row + 1] for row in numbers)])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return all rows."""
        return np.array(self[:], dtype, copy=copy)

    @property
    def watched_files(self) -> tuple[Watched, ...]:
        """Return what must not change meanwhile."""
        return watches_of(self.array)


def copy_mapped(array: Array) -> Array:
    """Copy an array that lies in a map; a lost page is a StorageError."""
    if not array.size or os.name == "nt":  # there a mapped file cannot become shorter
        return array.copy()
    at = int(array.__array_interface__["data"][0])
    steps = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    low = at + sum(min(step, 0) for step in steps)
    n_bytes = sum(map(abs, steps)) + array.itemsize
    if array.ndim > 1 and n_bytes > _SPREAD * array.nbytes:  # much between is not wanted
        if abs(array.strides[0]) < abs(array.strides[-1]):
            return np.ascontiguousarray(copy_mapped(array.T).T)
        return np.stack([copy_mapped(part) for part in array])
    copy = _copy_bytes(low, n_bytes, _map_of(array)[1])
    return np.ndarray(array.shape, array.dtype, copy.data, at - low, array.strides)


def _copy_bytes(address: int, n_bytes: int, name: str | None) -> Bytes:
    """Copy bytes through a file: the system reports what it cannot read, and nothing is killed."""
    import ctypes  # few maps are copied

    source = memoryview((ctypes.c_char * n_bytes).from_address(address)).cast("B")
    copy = np.empty(n_bytes, np.uint8)
    with _passing_file() as file:
        start = 0
        while start < n_bytes:
            try:
                count = os.pwrite(file.fileno(), source[start : start + _CHUNK_BYTES], 0)
            except OSError as error:
                raise StorageError(
                    f"Cannot read {name or 'a memory-mapped file'} to its end: "
                    f"{error.strerror}. It became shorter after it was mapped. Map the complete "
                    "file again."
                ) from None
            os.preadv(file.fileno(), [copy[start : start + count].data], 0)
            start += count
    return copy


def _passing_file() -> BinaryIO:
    """Open a file without a name; in memory, where the system offers that."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("assay"), "w+b", buffering=0)
    import tempfile  # where the system has no files in memory

    return tempfile.TemporaryFile(buffering=0)


def _address(content: mmap.mmap) -> int:
    return int(np.frombuffer(content, np.uint8).__array_interface__["data"][0])


def _stat(name: str) -> os.stat_result:
    try:
        return os.stat(name)
    except OSError as error:
        raise unreadable(name, error) from None


def _state_of(file: BinaryIO) -> FileState:
    return FileState.of(os.fstat(file.fileno()))


def _changed(name: str, before: FileState | None, after: FileState | None) -> StorageError:
    if before is None or after is None:
        how = "" if before is None else ": it is gone"
    elif (before.inode, before.device) != (after.inode, after.device):
        how = ": another file took its place"
    elif before.size != after.size:
        how = f": it had {before.size} bytes and has {after.size}"
    else:
        how = ": it was written to" if before != after else ": parts of it could not be read"
    return StorageError(f"{name} changed while it was read{how}. Start again once it is complete.")
