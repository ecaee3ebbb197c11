"""Files written beside and renamed: a reader sees the old file or the new one, never a half."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from assay.errors import AssayError, StorageError

_unfinished: set[str] = set()  # files of this process that have no name yet


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that takes its name only when all of it is on disk.

    If anything fails on the way, what was there before stays as it was.
    """
    name = os.fspath(path)
    target = check_target(name)
    beside = os.path.join(os.path.dirname(target), f".assay-{os.urandom(8).hex()}.part")
    _unfinished.add(beside)
    try:
        with open(beside, "xb") as file:
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
                f"{name} could not be written: {error.strerror or error}. "
                "What was there before is unchanged."
            ) from error
        raise
    _unfinished.discard(beside)
    _sync_folder(os.path.dirname(target))


def discard_unfinished() -> None:
    """Remove every file that is being written, where the process ends before they are whole."""
    for beside in tuple(_unfinished):
        _discard(beside)


def _discard(beside: str) -> None:
    with suppress(OSError):
        os.unlink(beside)
    _unfinished.discard(beside)


def check_target(name: str) -> str:
    """Where the file really goes, if it can be written: a link stays a link, a device a device."""
    try:
        target = os.path.realpath(name)
        mode = os.stat(target).st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = None
    except (OSError, ValueError) as error:
        raise StorageError(f"{name!r} cannot be written: {error}.") from None
    _check_folder(name, os.path.dirname(target))
    if mode is None:
        return target
    if stat.S_ISDIR(mode):
        raise StorageError(f"{name} is a directory. Give the path of a file.")
    if not stat.S_ISREG(mode):
        raise StorageError(f"{name} is a pipe or device, not a file. Give the path of a file.")
    return target


def check_folder(name: str) -> None:
    """Refuse a folder that is neither there nor can be made."""
    try:
        folder = os.path.realpath(name)
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
    except (OSError, ValueError) as error:
        raise StorageError(f"{name!r} cannot be written: {error}.") from None
    _check_folder(name, folder)


def _check_folder(name: str, folder: str) -> None:
    if os.path.isdir(folder):
        if os.access(folder, os.W_OK | os.X_OK):
            return
        why = f"no permission to write in {folder}"
    elif os.path.lexists(folder):
        why = f"{folder} is not a folder"
    else:
        why = f"there is no folder {folder}. Make it first"
    raise StorageError(f"{name} cannot be written: {why}.")


def _sync_folder(folder: str) -> None:
    """Make the new name durable, where the system lets a folder be synced."""
    with suppress(OSError):
        descriptor = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
