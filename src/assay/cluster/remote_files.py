"""Files anywhere: local ones where they lie, others by fsspec (s3, gs, http, memory, …)."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from assay.errors import AssayError, MissingPackageError, StorageError, need

__all__ = ["expand", "file_facts", "is_remote", "join", "local_file"]

_CHUNK: Final = 8 << 20
_PACKAGES: Final = {
    "s3": ("s3fs", "s3"),
    "s3a": ("s3fs", "s3"),
    "gs": ("gcsfs", "gs"),
    "gcs": ("gcsfs", "gs"),
}


def is_remote(name: str) -> bool:
    """Whether a name is a URL such as s3://bucket/file.

    >>> is_remote("s3://bucket/a.npy"), is_remote("folder/a.npy")
    (True, False)
    """
    return "://" in name


def join(folder: str, name: str) -> str:
    """A name in a folder; absolute paths and URLs stay as they are."""
    if is_remote(name) or os.path.isabs(name) or not folder:
        return name
    return f"{folder.rstrip('/')}/{name}"


def expand(pattern: str) -> list[str]:
    """The files that a pattern (*, ?, [...]) names."""
    if not is_remote(pattern):
        return sorted(name for name in glob.glob(pattern, recursive=True) if os.path.isfile(name))
    with _faults_of(pattern):
        system, inside = _system(pattern)
        return sorted(system.unstrip_protocol(name) for name in system.glob(inside))


def file_facts(name: str) -> tuple[int, str]:
    """Size, and what changes when the file does: its time of change or the store's own mark."""
    if not is_remote(name):
        try:
            stat = os.stat(name)
        except OSError as error:
            raise StorageError(f"{name} cannot be read: {error.strerror}.") from None
        return stat.st_size, str(stat.st_mtime_ns)
    with _faults_of(name):
        system, inside = _system(name)
        info = system.info(inside)
    marks = (info.get(key) for key in ("ETag", "etag", "md5Hash", "LastModified", "mtime"))
    return int(info["size"]), str(next((mark for mark in marks if mark), ""))


@contextmanager
def local_file(name: str) -> Iterator[str]:
    """A path to read: that of a local file, or of a copy that is deleted afterwards."""
    if not is_remote(name):
        yield name
        return
    with tempfile.TemporaryDirectory(prefix="assay-shard-") as folder:
        copy = os.path.join(folder, f"copy{os.path.splitext(name)[1]}")
        with _faults_of(name):
            system, inside = _system(name)
            with system.open(inside, "rb") as source, open(copy, "xb") as target:
                while chunk := source.read(_CHUNK):
                    target.write(chunk)
        yield copy


def _system(name: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    fsspec = need("fsspec", f"reading {name}", "cluster")
    try:
        system, inside = fsspec.core.url_to_fs(name)
    except ImportError as error:
        package, extra = _PACKAGES.get(name.partition("://")[0], ("", ""))
        if package:
            raise MissingPackageError(package, f"reading {name}", extra) from None
        raise StorageError(f"{name} cannot be read: {error}.") from None
    return system, str(inside)


@contextmanager
def _faults_of(name: str) -> Iterator[None]:
    """Whatever a file system raises is about this file."""
    try:
        yield
    except (AssayError, MemoryError):
        raise
    except FileNotFoundError:
        raise StorageError(f"{name} does not exist. Check the name.") from None
    except Exception as error:  # every store has errors of its own
        words = f"{type(error).__name__}: {error}"
        raise StorageError(f"{name} cannot be read: {words:.200}.") from error
