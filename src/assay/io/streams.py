"""Files as streams of bytes: read in chunks, decompressed on the way; written beside and renamed.

A file is gzip or Zstandard if its first bytes say so; a name that does not match the bytes is an
error. What is wrong with the file system is a StorageError, what is wrong with the content a
FormatError. Memory is bounded. Of a file that is written, a reader sees the old one or the new one,
never a half.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Protocol

from assay.core.text import did_you_mean, mask_secrets
from assay.core.work import tell
from assay.errors import AssayError, FormatError, MissingPackageError, StorageError, UsageError

FilePath = str | os.PathLike[str]

CHUNK_SIZE = 4 << 20
LONGEST_LINE = 1 << 20
# What a file becomes in memory is refused as a bomb when it exceeds both of these; the variable
# holds another number of bytes for the first.
BOMB_BYTES = 2 << 30
BOMB_RATIO = 200
LIMIT_VARIABLE: Final = "ASSAY_MAX_BYTES"
# Bytes of memory that a character of structured text stands for: an object, a list, an entry, half
# a text, a row.
_WEIGHTS: Final = {b"{": 190, b"[": 64, b",": 36, b":": 90, b'"': 20, b"\n": 80}
_WEIGHT_OF_TEXT: Final = 3  # bytes, text, and a piece of it

_LISTED: Final = 2000  # names of a folder among which a mistyped one is looked for
_NO_PIPES = (
    "Pipes are not read by name. Pass '-' for standard input, or write the data to a file (.gz "
    "and .zst too) and pass its path."
)
FORMATS: Final = ("trec", "csv", "tsv", "json", "jsonl", "parquet", "npz", "npy")
_SUFFIXES: Final = {f".{name}": name for name in FORMATS} | {".ndjson": "jsonl", ".pq": "parquet"}
MAGIC: Final = {b"PAR1": "parquet", b"PK\x03\x04": "npz", b"\x93NUMPY": "npy"}
_HEAD_BYTES: Final = 1 << 16  # enough to tell a format
_GZIP_MAGIC = b"\x1f\x8b"
# A frame of data, or one to skip: pzstd writes such before each.
_ZSTD_MAGIC = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
# Compressed bytes to expand at once. At the worst deflate makes 1032 bytes of one, and a zstd
# block of 4 bytes holds 128 KiB: no bite grows beyond 64 MiB.
_GZIP_BITE = 32 << 10
_ZSTD_BITE = 2 << 10
# Sound files that are not read, by what libzstd says of them.
_SOUND: Final = {
    "too much memory": "whose window is larger than 128 MiB (2^27 bytes), the largest accepted. "
    "Compress it again with a smaller one: zstd -dc --long=31 OLD.zst | zstd -o NEW.zst.",
    "Dictionary mismatch": "made with a dictionary. Compress it again without: "
    "zstd -dc -D DICTIONARY OLD.zst | zstd -o NEW.zst.",
}


class StandardInput(str):
    """The path of the copy; in messages it calls itself standard input."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        """Return what it is, in place of where the copy lies."""
        return format("standard input", spec)

    def __repr__(self) -> str:
        """Return what it is."""
        return "standard input"


def as_typed(value: Any) -> Any:
    """Return the value of a parameter as it was typed: `-` for standard input.

    >>> as_typed(("a.run", StandardInput("/tmp/x/stdin.txt")))
    ('a.run', '-')
    """
    if isinstance(value, tuple | list):
        return type(value)(map(as_typed, value))
    return "-" if isinstance(value, StandardInput) else value


def split_array(path: FilePath) -> tuple[str, str | None]:
    """Return the file and the array in `FILE.npz:NAME`; None where only a file is named.

    >>> split_array("both.npz:queries"), split_array("both.npz")
    (('both.npz', 'queries'), ('both.npz', None))
    """
    name = os.fspath(path)
    match = re.fullmatch(r"(.*?\.npz):(.*)", name, re.IGNORECASE | re.DOTALL)
    return (match[1], match[2]) if match and not os.path.exists(name) else (name, None)


def list_folder(folder: FilePath) -> list[Path]:
    """List what a folder holds, by name."""
    try:
        return sorted(Path(folder).iterdir(), key=lambda path: path.name)
    except (OSError, ValueError) as error:  # ValueError: NUL in the name
        raise unreadable(repr(os.fspath(folder)), error) from None


class FilePart(tuple[int, int, int]):
    """Descriptor of an open file, start and stop: bytes that whoever takes them reads."""

    def __len__(self) -> int:
        """Return the number of bytes."""
        return self[2] - self[1]


def open_chunks(path: FilePath, chunk_size: int = CHUNK_SIZE) -> Iterator[Any]:
    """Read a plain, .gz or .zst file in chunks of at most about `chunk_size` bytes.

    With 0, a plain file is not read, and its chunks are `FilePart`s. Nothing is opened before the
    first chunk is asked for.
    """
    name = os.fspath(path)
    with _open_regular(name) as file:
        size = os.fstat(file.fileno()).st_size
        chunks = _expand(file, name, chunk_size)
        total = weight = 0
        while chunk := _next_chunk(chunks, name):
            total += len(chunk)
            if total > size:  # compressed; a plain file never weighs more than the ratio
                weight += _weigh(chunk)
                refuse_bomb(max(weight, total), size, name)
            tell(f"reading {os.path.basename(name)} (kB)", file.tell() // 1000, size // 1000)
            yield chunk
    if not total:
        raise FormatError(f"{name} is empty. Check that it was written completely.")


def _open_regular(name: str) -> BinaryIO:
    # Without O_NONBLOCK the opening of a pipe would wait for somebody to write into it.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(name, flags)
    except (OSError, ValueError) as error:
        raise _open_error(error, name) from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb", buffering=0)
    is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
    os.close(descriptor)
    if is_folder:
        raise _is_directory(name)
    raise StorageError(f"{name} is a pipe or device, not a file. {_NO_PIPES}")


def _open_error(error: OSError | ValueError, name: str) -> StorageError:
    number = getattr(error, "errno", None)
    if number == errno.ENOENT and name == "-":
        return StorageError(f"There is no file called '-'. {_NO_PIPES}")
    if number == errno.ENOENT:
        return missing_file(name)
    if number == errno.EACCES and not os.path.isdir(name):
        return StorageError(f"{name} is not readable. Check its permissions.")
    if os.path.isdir(name):  # Windows refuses to open one
        return _is_directory(name)
    return unreadable(repr(name), error)


def unreadable(name: str, error: Exception) -> StorageError:
    """Return the error of a file or folder that the system does not read."""
    why = getattr(error, "strerror", None) or error
    return StorageError(f"Cannot read {name}: {why}. Check the path and its permissions.")


def unwritable(name: str, why: object) -> StorageError:
    """Return the error of a file or folder that cannot be written or made."""
    why = getattr(why, "strerror", None) or why
    return StorageError(f"Cannot write {name}: {why}. Choose another path.")


def make_folder(folder: FilePath) -> Path:
    """Make a folder and those above it; return its path."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: NUL in the name
        raise unwritable(str(folder), error) from None
    return Path(folder)


def missing_file(name: str) -> StorageError:
    """Return the error of a file or folder that is not there, with the nearest names that are."""
    if "://" in name:
        address = mask_secrets(name)
        return StorageError(f"{address} is a web address, not a local file. Download it first.")
    folder, last = os.path.split(name)
    near = ""
    try:
        with os.scandir(folder or ".") as entries:
            there = [entry.name for entry in islice(entries, _LISTED)]
        whole = {name_there: os.path.join(folder, name_there) for name_there in there}
        near = did_you_mean(last, there, most=2, forms=whole)
    except (OSError, ValueError):
        near = f" There is no folder {folder} either." if folder else ""
    return StorageError(f"{name} does not exist.{near or ' Check the path.'}")


def _is_directory(name: str) -> StorageError:
    return StorageError(f"{name} is a directory, not a file. Give the path of a regular file.")


def _next_chunk(chunks: Iterator[Any], name: str) -> Any:
    """Return the next chunk, which is never empty; nothing at the end."""
    try:
        return next(chunks, b"")
    except OSError as error:
        raise unreadable(name, error) from error


def _weigh(chunk: bytes) -> int:
    """Estimate the bytes that text takes as objects, lists and rows."""
    heavy = sum(weight * chunk.count(character) for character, weight in _WEIGHTS.items())
    return _WEIGHT_OF_TEXT * len(chunk) + heavy


def refuse_bomb(needed: int, size: int, name: str, what: str = "what it expands to") -> None:
    """Refuse a file of `size` bytes that would take far more memory than it holds."""
    limit = _memory_limit()
    if needed > max(limit, BOMB_RATIO * size):
        raise FormatError(
            f"{name} holds {size} bytes, but {what} takes more than {limit} bytes of "
            f"memory and more than {BOMB_RATIO} times its size; it is refused as a decompression "
            f"bomb. If it is sound, set {LIMIT_VARIABLE} to more bytes."
        )


def _memory_limit() -> int:
    limit = os.environ.get(LIMIT_VARIABLE, "")
    if not limit:
        return BOMB_BYTES
    if not re.fullmatch("[0-9]{1,18}", limit):
        raise UsageError(f"{LIMIT_VARIABLE} is {limit[:40]!r}. Set it to a whole number of bytes.")
    return int(limit)


class _Member(Protocol):
    """One compressed stream inside a file; a file may hold several in a row."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class _Codec(NamedTuple):
    name: str
    bite: int
    start: Callable[[], _Member]
    error: type[Exception]


def need_zstd(purpose: str) -> Any:
    """Import Zstandard of Python 3.14, or its module for older versions."""
    for module in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(module)
        except ImportError:
            continue
    raise MissingPackageError("backports.zstd", purpose, "zst")


def _expand(file: BinaryIO, name: str, chunk_size: int) -> Iterator[Any]:
    magic = file.read(4)
    file.seek(0)
    if magic.startswith(_GZIP_MAGIC):
        gzip = _Codec("gzip", _GZIP_BITE, lambda: zlib.decompressobj(wbits=31), zlib.error)
        return _gather(_inflate(file, name, gzip), chunk_size or CHUNK_SIZE)
    if _ZSTD_MAGIC.match(magic):
        module = need_zstd("reading .zst files")
        zstd = _Codec("zstd", _ZSTD_BITE, module.ZstdDecompressor, module.ZstdError)
        return _gather(_inflate(file, name, zstd), chunk_size or CHUNK_SIZE)
    suffix = Path(name).suffix.lower()
    if magic and suffix in (".gz", ".zst"):
        raise FormatError(
            f"{name} is named {suffix} but does not begin like such a file. "
            "Rename it if it is plain text; fetch it again if it is damaged."
        )
    if chunk_size:
        return iter(lambda: file.read(chunk_size), b"")
    starts = range(0, os.fstat(file.fileno()).st_size, 16 * CHUNK_SIZE)
    stops = (file.seek(min(start + starts.step, starts.stop)) for start in starts)
    return (FilePart((file.fileno(), *part)) for part in zip(starts, stops, strict=True))


def _inflate(file: BinaryIO, name: str, codec: _Codec) -> Iterator[bytes]:
    """Expand all members of a file; zeros between and after them are padding."""
    member: _Member | None = None
    while data := file.read(codec.bite):
        while data := data if member else data.lstrip(b"\0"):
            member = member or codec.start()
            try:
                yield member.decompress(data)
            except codec.error as error:
                what = f"damaged {codec.name} file ({error}). Fetch it again."
                flaws = (flaw for sign, flaw in _SOUND.items() if sign in str(error))
                what = next(map(f"{codec.name} file {{}}".format, flaws), what)
                raise FormatError(f"{name} is a {what}") from error
            data = member.unused_data if member.eof else b""
            member = None if member.eof else member
    if member is not None:
        raise FormatError(f"{name} is a truncated {codec.name} file. Fetch it again.")


def _gather(pieces: Iterable[bytes], chunk_size: int) -> Iterator[bytes]:
    """Join small pieces into chunks of about `chunk_size`; no chunk is empty."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= chunk_size:
            yield b"".join(waiting)
            waiting, size = [], 0
    if size:
        yield b"".join(waiting)


def read_lines(path: FilePath, *, longest: int = LONGEST_LINE) -> Iterator[str]:
    """Go through the lines of a file; each keeps its line feed."""
    number = 0
    rest = b""
    for chunk in _without_mark(path):
        whole, feed, rest = (rest + chunk).rpartition(b"\n")
        lines = _split(_decode(whole + feed, path, number))
        if max(len(rest), *map(len, lines), 0) > longest:
            at = next((at for at, line in enumerate(lines) if len(line) > longest), len(lines))
            raise FormatError(
                f"{os.fspath(path)}, line {number + at + 1}: the line is longer than "
                f"{longest >> 20} MiB. Check the file and its format."
            )
        number += len(lines)
        yield from lines
    yield from _split(_decode(rest, path, number))


def read_text(path: FilePath) -> str:
    """Read a whole file."""
    return _decode(b"".join(_without_mark(path)), path, 0)


def _split(text: str) -> list[str]:
    """Split after each line feed and nowhere else: an id may hold U+2028 and the like."""
    parts = text.split("\n")
    last = parts.pop()
    return [f"{part}\n" for part in parts] + ([last] if last else [])


def _without_mark(path: FilePath) -> Iterator[bytes]:
    chunks = open_chunks(path)
    first = next(chunks, b"")
    return chain([first.removeprefix(codecs.BOM_UTF8)], chunks)


def _decode(data: bytes, path: FilePath, lines_before: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = lines_before + data.count(b"\n", 0, error.start) + 1
        excerpt = ascii(data[max(error.start - 10, 0) : error.start + 10])
        raise FormatError(
            f"{os.fspath(path)}, line {line}: the text is not UTF-8: {excerpt}. "
            "Convert the file to UTF-8."
        ) from None


# Formats


def find_format(path: FilePath, format: str | None = None) -> str:
    """Tell the format of a file: as given, by the name's ending, or by the first bytes.

    >>> find_format("run.tsv.gz")
    'tsv'
    """
    if format is not None:
        if format not in FORMATS:
            raise UsageError(f"Unknown format {format!r}. Known: {', '.join(FORMATS)}.")
        return format
    return named_format(path) or _format_of_content(path)


def named_format(path: FilePath) -> str | None:
    """Return the format that the name's ending stands for, if any."""
    return _SUFFIXES.get(ending_of(path))


def ending_of(path: FilePath) -> str:
    """Return the name's ending in small letters, that of the compression left out.

    >>> ending_of("run.TSV.gz")
    '.tsv'
    """
    name = Path(split_array(path)[0]).name.lower()
    for packed in (".gz", ".zst"):
        name = name.removesuffix(packed)
    return Path(name).suffix


def _format_of_content(path: FilePath) -> str:
    head = next(open_chunks(path, 16))
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), "trec")


# Standard input in place of a file: copied to one, because files are looked at more than once.


@contextmanager
def keep_standard_input() -> Iterator[StandardInput]:
    """Keep standard input in a file as long as it is needed."""
    if sys.stdin is None or sys.stdin.closed:
        raise StorageError("Standard input is closed. Name a file instead of '-'.")
    with ScratchFolder("stdin") as folder:
        path = os.path.join(folder, "stdin")
        try:
            with open(path, "xb") as file:
                while chunk := sys.stdin.buffer.read(CHUNK_SIZE):
                    file.write(chunk)
        except OSError as error:
            words = error.strerror or error
            raise StorageError(f"Cannot store standard input: {words}. Name a file.") from error
        name = f"{path}{_ending_of_content(path)}"
        os.rename(path, name)
        yield StandardInput(name)


def _ending_of_content(path: str) -> str:
    """Return the ending that a file with this content would have."""
    head = _head_of(path)
    format = next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)
    if format is not None:
        return f".{format}"
    lines = head.decode(errors="replace").lstrip("\ufeff").splitlines()
    text = [line for line in lines if line.strip() and not line.startswith("#")]
    return _ending_of_text(*islice([*text, ""], 2)) if text else ".txt"


def _head_of(path: str) -> bytes:
    try:
        return (
            next(iter(open_chunks(path, _HEAD_BYTES)))[:_HEAD_BYTES]
            if os.path.getsize(path)
            else b""
        )
    except FormatError:  # whoever reads all of it says what is wrong
        return b""


def _ending_of_text(first: str, second: str) -> str:
    if first.lstrip()[0] in "[{":
        return ".jsonl" if second and _is_json(first) else ".json"
    cells = first.split()
    if len(cells) in (4, 6) and _is_decimal(cells[3 if len(cells) == 4 else 4]):
        return ".txt"
    return ".tsv" if "\t" in first else ".csv" if "," in first else ".txt"


def _is_json(line: str) -> bool:
    import json

    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _is_decimal(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# Writing


_unfinished: set[str] = set()  # files of this process that have no name yet


@contextmanager
def atomic_write(path: FilePath) -> Iterator[BinaryIO]:
    """Open a file for writing that takes its name only when all of it is on disk.

    A folder that is not there is made. If anything fails on the way, what was there before stays
    as it was.
    """
    name = os.fspath(path)
    target = check_target(name)
    folder = os.path.dirname(target)
    remove_leftovers(folder)
    beside = os.path.join(folder, f".assay-{os.urandom(8).hex()}.part")
    _unfinished.add(beside)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(beside, "xb") as file:
            with suppress(OSError):  # not every file system has locks
                lock_file(file.fileno())
            yield file
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target):
            os.chmod(beside, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(beside, target)
    except BaseException as error:
        _discard(beside)
        if isinstance(error, OSError) and not isinstance(error, AssayError):
            raise StorageError(
                f"Cannot write {name}: {error.strerror or error}. The old file is unchanged; "
                "choose another place."
            ) from error
        raise
    _unfinished.discard(beside)
    _sync_folder(folder)


def discard_unfinished() -> None:
    """Remove every file that is being written, where the process ends before they are whole."""
    for beside in tuple(_unfinished):
        _discard(beside)


def _discard(beside: str) -> None:
    with suppress(OSError):
        os.unlink(beside)
    _unfinished.discard(beside)


def check_target(name: str) -> str:
    """Return the place where a file will be written: a link stays a link, a device a device."""
    try:
        target = os.path.realpath(name)
        mode = os.stat(target).st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = None
    except (OSError, ValueError) as error:
        raise unwritable(repr(name), error) from None
    check_folder(os.path.dirname(target), name)
    if mode is None:
        return target
    if stat.S_ISDIR(mode):
        raise StorageError(f"{name} is a directory. Give the path of a file.")
    if not stat.S_ISREG(mode):
        raise StorageError(f"{name} is a pipe or device, not a file. Give the path of a file.")
    return target


def check_folder(folder: str, name: str = "") -> None:
    """Refuse a folder, or that of the file `name`, which is neither there nor can be made.

    An address is no folder: it would become one called `https:`.
    """
    address = re.match(r"([a-z][a-z0-9+.-]+:)//?(.*)", name or folder, re.DOTALL)
    if address is not None and not os.path.isdir(address[1]):
        raise StorageError(
            f"{mask_secrets('//'.join(address.groups()))} is a web address, and results are "
            "written to local files. Name a file or folder."
        )
    try:
        parent = os.path.realpath(folder)
        while not os.path.lexists(parent):
            parent = os.path.dirname(parent)
    except (OSError, ValueError) as error:
        raise unwritable(repr(name or folder), error) from None
    if os.path.isdir(parent) and os.access(parent, os.W_OK | os.X_OK):
        return
    why = f"no permission to write in {parent}"
    if not os.path.isdir(parent):
        why = f"{parent} is not a folder"
    raise unwritable(name or folder, why)


def _sync_folder(folder: str) -> None:
    """Make the new name durable, where the system lets a folder be synced."""
    with suppress(OSError):
        descriptor = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# Files and folders for a while: locked as long as their process lives, however it ends. Those that
# nobody has locked were left by one that was killed.


_LEFTOVER: Final = re.compile(r"\.assay-[0-9a-f]{16}\.part|assay-[a-z]+-[a-z0-9_]{8}\.tmp")
_MOMENT: Final = 2.0  # seconds
tidied_folders: set[str] = set()  # folders that this process has looked through


class ScratchFolder:
    """A folder of this user that goes with its process, or with the next one after a kill."""

    def __init__(self, purpose: str, place: str | None = None) -> None:
        """Make a folder below `place`, by default the one of the system for such files."""
        from tempfile import gettempdir, mkdtemp
        from weakref import finalize

        remove_leftovers(place or gettempdir())
        self.name = mkdtemp(prefix=f"assay-{purpose}-", suffix=".tmp", dir=place)
        lock = -1
        with suppress(OSError):  # Windows opens no folders
            lock = os.open(self.name, os.O_RDONLY)
            lock_file(lock)
        self.cleanup = finalize(self, _remove_scratch, self.name, lock)

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *_: object) -> None:
        self.cleanup()


def _remove_scratch(path: str, lock: int) -> None:
    from shutil import rmtree

    rmtree(path, ignore_errors=True)
    if lock >= 0:
        os.close(lock)


def lock_file(descriptor: int, *, wait: bool = False) -> None:
    """Lock an open file or folder; where another process has, wait, or raise OSError."""
    with suppress(ImportError):  # Windows deletes nothing that is open
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def remove_leftovers(folder: str) -> None:
    """Remove what processes of this user that were killed have left in a folder."""
    if folder in tidied_folders or os.name != "posix":
        return
    tidied_folders.add(folder)
    with suppress(OSError):
        for name in filter(_LEFTOVER.fullmatch, os.listdir(folder or ".")):
            with suppress(OSError):
                _remove_leftover(os.path.join(folder, name))


def _remove_leftover(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        state = os.fstat(descriptor)
        # One that was made this moment is not locked yet.
        if state.st_uid == os.getuid() and time.time() - state.st_mtime > _MOMENT:
            lock_file(descriptor)
            _remove_scratch(path, -1) if stat.S_ISDIR(state.st_mode) else os.unlink(path)
    finally:
        os.close(descriptor)


_ENDINGS: Final = (
    *(".gz", ".zst", ".txt", ".run", ".trec", ".csv", ".tsv"),
    *(".json", ".jsonl", ".parquet", ".npy", ".npz"),
)


def unique_names(paths: Sequence[str]) -> list[str]:
    """Return names of runs from their files: as short as they can be while no two are equal.

    >>> unique_names(["a/bm25.txt.gz", "a/dense.txt"]), unique_names(["a/run.txt", "b/run.txt"])
    (['bm25', 'dense'], ['a/run', 'b/run'])
    """
    parts = [Path(path).parts for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        names = [_without_endings("/".join(part[-depth:])) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{path} ({number})" for number, path in enumerate(paths, 1)]


def _without_endings(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    while stem and not stem.endswith("/") and dot + ending.lower() in _ENDINGS:
        name = stem
        stem, dot, ending = name.rpartition(".")
    return name
