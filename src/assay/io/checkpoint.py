"""Checkpoint: finished parts of unfinished work in a folder, from which a killed process resumes.

A part is a file: the SHA-256 of what follows, then an .npz with the arrays of the part and a JSON
head. It is written whole or not at all. A part that is damaged, or that belongs to another job
(another fingerprint), counts as absent and is computed again.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Array
from assay.errors import FormatError, StorageError
from assay.io.arrays import unpack_npz
from assay.io.plain_data import parse_json
from assay.io.streams import FilePath, atomic_write, make_folder, read_text, unreadable

_HEAD: Final = "head"  # the array that holds the JSON head
_DIGEST: Final = 32  # bytes of a SHA-256
_JOB: Final = "job.json"


class Part(NamedTuple):
    """The content of a part: arrays, and what JSON can hold."""

    arrays: dict[str, Array]
    notes: Any


class Checkpoint:
    """The parts of one job in one folder; without a folder nothing is stored and nothing found.

    `fingerprint` tells all that the parts depend on. Where the checkpoint is `optional`, a folder
    that cannot be read or written is not an error: the work continues, it only cannot be resumed.
    """

    def __init__(
        self, folder: FilePath | None, fingerprint: str = "", *, optional: bool = False
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self.fingerprint = fingerprint
        self.optional = optional
        self.damaged = 0

    def path(self, name: str) -> Path | None:
        """Return the file of a part."""
        return None if self.folder is None else self.folder / name

    def load(self, name: str) -> Part | None:
        """Return a part; None where it is absent, damaged or of another job."""
        path = self.path(name)
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            if self.optional:
                return None
            raise unreadable(str(path), error) from None
        fingerprint, part = _unpack(content)
        if part is None:
            self.damaged += 1
        return part if fingerprint == self.fingerprint else None

    def save(self, name: str, arrays: Mapping[str, Array], notes: Any = None) -> None:
        """Write a part, whole or not at all."""
        path = self.path(name)
        if path is None:
            return
        try:
            self.make_folder()
            with atomic_write(path) as file:
                file.write(pack_part(arrays, {"fingerprint": self.fingerprint, "notes": notes}))
        except OSError:  # StorageError is one
            if not self.optional:
                raise

    def make_folder(self) -> None:
        """Make the folder, with those above it."""
        if self.folder is None:
            return
        make_folder(self.folder)

    def forget(self, names: Iterable[str]) -> None:
        """Delete some parts."""
        for name in names:
            path = self.path(name)
            if path is not None:
                path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete the folder: the work is complete."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def read_job(self) -> dict[str, Any] | None:
        """Return what the folder was made for; None if new. Refuse a folder of other files."""
        if self.folder is None or not self.folder.exists():
            return None
        path = self.folder / _JOB
        if path.exists():
            job = parse_json(read_text(path), str(path))
            if not isinstance(job, dict):
                raise StorageError(f"{self.folder} is not a checkpoint: bad {_JOB}. Name another.")
            return job
        if any(self.folder.iterdir()):
            raise StorageError(
                f"{self.folder} is not a checkpoint: it has files, but no {_JOB}. Give an empty "
                "or new folder."
            )
        return None

    def write_job(self, job: Mapping[str, Any]) -> None:
        """Record what the folder is for."""
        if self.folder is not None:
            with atomic_write(self.folder / _JOB) as file:
                file.write(json.dumps(job, indent=1).encode())


def pack_part(arrays: Mapping[str, Array], head: Mapping[str, Any]) -> bytes:
    """Return the bytes of a part: its arrays, and what it was computed from."""
    buffer = io.BytesIO()
    content: dict[str, Any] = {_HEAD: np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays}
    np.savez(buffer, **content)
    body = buffer.getvalue()
    return hashlib.sha256(body).digest() + body


def _unpack(content: bytes) -> tuple[str | None, Part | None]:
    """Return fingerprint and content of a part; None if damaged."""
    digest, body = content[:_DIGEST], content[_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        return None, None
    with suppress(FormatError, UnicodeDecodeError, KeyError, TypeError):
        arrays = unpack_npz(body, "part")
        head = parse_json(arrays.pop(_HEAD).tobytes().decode(), "head", constants=True)
        return head["fingerprint"], Part(arrays, head["notes"])
    return None, None


def file_label(name: str) -> str:
    """Return a readable part of a file name that differs for different names.

    >>> file_label("a/b")
    'a_b-c14cddc0'
    """
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)[:40]
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
