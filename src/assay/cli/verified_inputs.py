"""Inputs of a result that is computed again: where they are, and a folder that holds nothing else.

A result may come from a stranger, so that what it names is read only where the user says.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from assay.core.checks import name_few
from assay.errors import StorageError
from assay.io.fingerprints import fingerprints
from assay.io.json_text import check_against
from assay.io.streams import split_array

_MARK: Final = {
    "type": "object",
    "properties": {"bytes": {"type": "integer"}, "sha256": {"type": "string"}},
    "required": ["bytes", "sha256"],
    "additionalProperties": False,
}
_CACHE: Final = "ASSAY_CACHE"
# A path ends a text or a word, or follows the letter of an option: -r/tmp/qrels.txt.
_ALONE: Final = r"(?:(?<![\w./\\~-])|(?<=^-\w))(?:{})(?![\w/\\~-]|\.\w)"
_COPIED: Final = 1 << 24  # bytes up to which an input is copied, not linked


@dataclass(frozen=True)
class VerifiedInput:
    """A file that a result was made of, and where it was found."""

    path: str
    stored: Mapping[str, Any]
    found: str
    now: Mapping[str, Any]

    @property
    def is_same(self) -> bool:
        """Whether it is the file that it was."""
        return self.stored == self.now

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        marks = {"stored": dict(self.stored), "found": dict(self.now)}
        return {"path": self.path, "file": self.found, "same": self.is_same, **marks}


class InputPlaces:
    """Where inputs are looked for."""

    def __init__(self, files: Sequence[str], folder: str, *, outside: bool) -> None:
        if not os.path.isdir(folder):
            raise StorageError(f"{folder} is not a folder.")
        self._marks = fingerprints(files)
        self._folder = folder
        self.outside = outside

    def find(self, inputs: Mapping[str, Any], result: str) -> list[VerifiedInput]:
        """Where each input is, and what it is now; an error names those that are not there."""
        for path, mark in inputs.items():
            check_against(mark, _MARK, f"{result}: made_by: inputs: {path}")
        if "-" in inputs:
            raise StorageError(
                f"{result} was made of standard input, which cannot be read again. "
                "Compute it from a file, then it can be verified."
            )
        verified = {path: self._locate(path, mark) for path, mark in inputs.items()}
        absent = [path for path, file in verified.items() if not file]
        if absent:
            raise StorageError(
                f"{result} was made of {len(inputs)} files, of which {len(absent)} are not here: "
                f"{name_few(absent)}. Name them after {result}, or say --folder DIR"
                + (", or --outside to read what lies elsewhere." if _any_out(absent) else ".")
            )
        here = {path: os.path.abspath(file) for path, file in verified.items() if file}
        now = {path: fingerprints([file])[file] for path, file in here.items()}
        return [VerifiedInput(path, mark, here[path], now[path]) for path, mark in inputs.items()]

    def _locate(self, path: str, mark: Mapping[str, Any]) -> str | None:
        file = split_array(path)[0]
        name = PurePath(file).name
        paths = [place for place, base in self._marks.items() if base == mark]
        paths += [place for place in self._marks if PurePath(place).name == name]
        inside = [os.path.join(self._folder, name if leads_out(file) else file)]
        inside += [file] if self.outside else []
        return next((place for place in (*paths, *inside) if os.path.isfile(place)), None)


def _any_out(paths: Iterable[str]) -> bool:
    return any(map(leads_out, paths))


def leads_out(text: str) -> bool:
    """Whether a text may name a file outside the folder where a command runs."""
    parts = re.split("[=:,]", text.replace("\\", "/"))
    return any(part.startswith(("/", "~")) or ".." in PurePath(part).parts for part in parts)


@contextlib.contextmanager
def own_folder(
    inputs: Sequence[VerifiedInput], arguments: Sequence[str], name: str = "inputs"
) -> Iterator[tuple[list[str], dict[str, str], str]]:
    """A folder with the inputs alone, large ones as links, made the current one.

    Gives the arguments as they hold there, which inputs have other paths in it, because their own
    would lead out of it, and a folder apart for output, where no link can lead to a file of the
    user. All others keep their paths, so that names in results are the same.
    """
    with tempfile.TemporaryDirectory(prefix="assay-verify-") as whole:
        folder, apart = Path(whole, "in", name), Path(whole, "output")
        folder.mkdir(parents=True)
        apart.mkdir()
        renamed: dict[str, str] = {}
        placed: dict[Path, str] = {}
        for file in inputs:
            path = inner = split_array(file.path)[0]
            if leads_out(path):
                inner = renamed[path] = _inner_path(path)
            if placed.setdefault(folder / inner, file.found) != file.found:
                raise StorageError(f"The inputs have two files for one place, {inner!r:.80}.")
            _link(folder / inner, file)
        with contextlib.chdir(folder), _own_cache(str(apart)):
            yield [_replace(word, renamed) for word in arguments], renamed, str(apart)


def _inner_path(path: str) -> str:
    """Return a path that does not lead out, from one that does.

    Files stay where they are to each other: a manifest names its shards from its own folder.
    """
    parts = PurePath(os.path.normpath(path)).parts
    words = (part.replace("..", "up").strip("/\\:") or "root" for part in parts)
    return os.path.join("outside", *words)


@contextlib.contextmanager
def _own_cache(folder: str) -> Iterator[None]:
    """Vectors of texts that a stranger names do not go into the cache of the user."""
    before = os.environ.get(_CACHE)
    os.environ[_CACHE] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ[_CACHE]
        else:
            os.environ[_CACHE] = before


def _link(target: Path, file: VerifiedInput) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            return
        if os.path.getsize(file.found) > _COPIED:
            with contextlib.suppress(OSError):  # not every system makes links for everybody
                target.symlink_to(file.found)
                return
        shutil.copyfile(file.found, target)  # readers of folders pass links over
    except (OSError, ValueError) as error:
        raise StorageError(
            f"The input {file.path!r:.80} has no place of its own: {error}."
        ) from None


def _replace(text: str, renamed: Mapping[str, str]) -> str:
    """The text with the new paths, where an old one stands alone and not in a longer name."""
    paths = "|".join(re.escape(old) for old in sorted(renamed, key=len, reverse=True))
    return re.sub(_ALONE.format(paths), lambda match: renamed[match[0]], text) if paths else text


def with_paths(data: Any, renamed: Mapping[str, str]) -> Any:
    """The same data with the paths that inputs had while it was computed again."""
    if not renamed:
        return data
    if isinstance(data, dict):
        return {_replace(key, renamed): with_paths(value, renamed) for key, value in data.items()}
    if isinstance(data, list):
        return [with_paths(value, renamed) for value in data]
    return _replace(data, renamed) if isinstance(data, str) else data
