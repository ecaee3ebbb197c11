"""A folder of .txt and .md files: every file is a document, its path below the folder the id."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from urllib.parse import quote

from assay.errors import FormatError, StorageError
from assay.io.text_lines import read_text

__all__ = ["read_folder"]

_ENDINGS: Final = (".txt", ".md", ".markdown")


def read_folder(folder: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """Ids and texts of all text files below a folder, in the order of their ids.

    An id is the path with '/', white space written as %20: `guide/first%20steps.md`. Hidden files
    and folders, and links, are left out.
    """
    found = sorted(_files(Path(folder)))
    if not found:
        raise FormatError(f"{os.fspath(folder)} holds no {', '.join(_ENDINGS)} files.")
    return [name for name, _ in found], [_read(path) for _, path in found]


def _files(folder: Path) -> list[tuple[str, Path]]:
    def refuse(error: OSError) -> None:
        raise StorageError(f"{error.filename} cannot be read: {error.strerror}.") from error

    found = []
    for where, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(where, name)
            wanted = path.suffix.lower() in _ENDINGS and not name.startswith(".")
            if wanted and path.is_file() and not path.is_symlink():
                found.append((_id(path.relative_to(folder).as_posix()), path))
    return found


def _id(path: str) -> str:
    """White space would tear an id apart in a run file."""
    return "".join(quote(c) if c.isspace() or c == "%" else c for c in path)


def _read(path: Path) -> str:
    return read_text(path) if path.stat().st_size else ""
