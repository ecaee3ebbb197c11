"""Read files anywhere: local ones in place, others by fsspec (s3, gs, http, memory, …)."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from assay.core.text import mask_secrets
from assay.errors import AssayError, MissingPackageError, StorageError, need
from assay.io.fingerprints import digest_of_file
from assay.io.streams import ScratchFolder, unreadable

_ABSENT: Final = (FileNotFoundError, LookupError)
_CHUNK: Final = 8 << 20
_PACKAGES: Final = {
    "s3": ("s3fs", "s3"),
    "s3a": ("s3fs", "s3"),
    "gs": ("gcsfs", "gs"),
    "gcs": ("gcsfs", "gs"),
    "http": ("aiohttp", ""),
    "https": ("aiohttp", ""),
}


def is_remote(name: str) -> bool:
    """Tell whether a name is a URL such as s3://bucket/file.

    >>> is_remote("s3://bucket/a.npy"), is_remote("folder/a.npy")
    (True, False)
    """
    return "://" in name


class Address(str):
    """Hold a URL that is shown without its password and its query.

    >>> f"{Address('https://me:secret@host/a.npy?sig=0a1b')}"
    'https://me:***@host/a.npy?***'
    """

    __slots__ = ()

    def __new__(cls, url: str) -> Address:
        """Take the whole URL, also that of another address."""
        return super().__new__(cls, url[:])

    def __str__(self) -> str:
        """Return what may be shown."""
        return mask_secrets(self[:])

    def __format__(self, spec: str) -> str:
        """Return what may be shown."""
        return format(str(self), spec)

    def __repr__(self) -> str:
        """Return what may be shown."""
        return repr(str(self))


def as_address(name: str) -> str:
    """Return the name, as an `Address` if it is a URL: every URL passes here when it enters."""
    return Address(name) if is_remote(name) else name


def without_query(name: str) -> str:
    """Return a URL up to its query; a `?` of a pattern begins none.

    >>> without_query("https://host/a.npy?sig=0a1b"), without_query("s3://bucket/part-?.npy")
    ('https://host/a.npy', 's3://bucket/part-?.npy')
    """
    path, _, query = name.partition("?")
    signed = is_remote(path) and ("=" in query or path.lower().startswith(("http:", "https:")))
    return path if signed else name


def join(folder: str, name: str) -> str:
    """Join a folder and a name; absolute paths and URLs stay as they are."""
    if is_remote(name) or os.path.isabs(name) or not folder:
        return name
    return f"{folder.rstrip('/')}/{name}"


def expand(pattern: str) -> list[str]:
    """List the files that a pattern (*, ?, [...]) names."""
    if not is_remote(pattern):
        return sorted(name for name in glob.glob(pattern, recursive=True) if os.path.isfile(name))
    with _faults_of(pattern):
        system, inside = _system(pattern)
        paths = system.glob(inside)
        return sorted(as_address(system.unstrip_protocol(name)) for name in paths)


def file_facts(name: str) -> tuple[int, str]:
    """Return size and a mark that changes with the file: time and inode, or the store's."""
    if not is_remote(name):
        try:
            stat = os.stat(name)
        except OSError as error:
            raise unreadable(name, error) from None
        return stat.st_size, f"{stat.st_mtime_ns}:{stat.st_ino}"
    with _faults_of(name):
        system, inside = _system(name)
        info = system.info(inside)
    marks = (info.get(key) for key in ("ETag", "etag", "md5Hash", "LastModified", "mtime"))
    return int(info.get("size") or 0), str(next((mark for mark in marks if mark), ""))


def remote_marks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return size and mark of remote files, or the digest where a store gives no mark."""
    marks = {}
    for name in map(Address, filter(is_remote, names)):
        n_bytes, mark = file_facts(name)
        if not mark:
            with local_file(name) as copy:
                mark = digest_of_file(copy)
        marks[str(name)] = {"bytes": n_bytes, "mark": mark}
    return marks


@contextmanager
def local_file(name: str) -> Iterator[str]:
    """Give a path to read: of a local file, or of a copy that is deleted afterwards."""
    if not is_remote(name):
        yield name
        return
    with ScratchFolder("shard") as folder:
        copy = os.path.join(folder, f"copy{os.path.splitext(without_query(name))[1]}")
        with _faults_of(name):
            system, inside = _system(name)
            with system.open(inside, "rb") as source, open(copy, "xb") as target:
                while chunk := source.read(_CHUNK):
                    target.write(chunk)
        yield copy


def _system(name: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    fsspec = need("fsspec", f"reading {name}", "cluster")
    # What is signed is sent as it is, letter by letter.
    signed = name.lower().startswith("http") and without_query(name) != name
    options = {"encoded": True} if signed else {}
    try:
        system, inside = fsspec.core.url_to_fs(name[:], **options)  # an Address as plain text
    except ImportError as error:
        package, extra = _PACKAGES.get(name.partition("://")[0], ("", ""))
        if package:
            how = None if extra else f"pip install {package}"
            raise MissingPackageError(package, f"reading {name}", extra, command=how) from None
        why = mask_secrets(str(error))
        raise StorageError(f"Cannot read {name}: {why}. Check the address.") from None
    return system, str(inside)


@contextmanager
def _faults_of(name: str) -> Iterator[None]:
    """Report whatever a file system raises as about this file."""
    try:
        yield
    except (AssayError, MemoryError):
        raise
    except Exception as error:  # every store has errors of its own
        raise StorageError(f"{name} {_explain(error)}") from None  # it may hold the whole URL


def _explain(error: BaseException) -> str:
    """Return why a file cannot be read; fsspec says "not found" of whatever a server answers."""
    causes = [error]
    while (cause := causes[-1].__cause__) and cause not in causes:
        causes.append(cause)
    status = next(filter(None, map(_status_of, causes)), 0)
    said = f" (HTTP {status})" if status else ""
    if status in (401, 403) or any(isinstance(each, PermissionError) for each in causes):
        return f"is not readable{said}. Check your credentials, or whether the link has expired."
    absent = isinstance(error, FileNotFoundError)
    if status in (404, 410) or (absent and not status and isinstance(causes[-1], _ABSENT)):
        return "does not exist. Check the name."
    if status:
        hint = "Try again later." if status >= 500 else "Check the address."
        return f"cannot be read: the server answered HTTP {status}. {hint}"
    cause = causes[1] if absent else error
    words = mask_secrets(f"{type(cause).__name__}: {cause}")
    if isinstance(cause, ConnectionError | TimeoutError) or absent:
        return f"cannot be reached: {words:.200}. Check the host and your network."
    return f"cannot be read: {words:.200}. Check the address."


def _status_of(error: BaseException) -> int:
    """Return the status of HTTP that an error of a client tells, or 0."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict):  # of botocore
        response = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    names = ("status", "status_code", "code")  # aiohttp warns of the last
    status = next((getattr(error, name) for name in names if hasattr(error, name)), response)
    return status if isinstance(status, int) and 400 <= status < 600 else 0
