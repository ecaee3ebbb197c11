"""The same data in another way: two command lines that have to say the same.

A family (`test_same_*.py`) has a row for each of its commands: for each kind of change, the pairs
of command lines, or why there are none. Everything that a command says is compared, letter by
letter, but for times, the names of files and the names of kernels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from assay import __version__, native
from tests.golden.differences import differences
from tests.golden.recording import Command, Session
from tests.properties.variants import write_variants

__all__ = ["DIGEST", "KINDS", "Same", "Sayings", "Table", "cases_of", "check_same", "swapped"]

KINDS: Final = {
    "format": "another format, type or compression of the same data",
    "lines": "lines or rows in another order",
    "renamed": "ids with other names in the same order",
    "unordered": "ids with other names in another order, where nothing ties",
    "threads": "another number of threads or workers",
    "engine": "the kernels' twins in numpy",
    "scaled": "vectors or scores times a factor",
    "split": "one file in several",
    "blocks": "other batches, blocks and caches",
}

# Of the query set, how many there are without the digest of their ids.
DIGEST: Final = (r"\b(\d+)-[0-9a-f]{8}\b", r"\1")


class Same(NamedTuple):
    """Two command lines; `back` has words of the second in those of the first.

    `words` are replaced in both. Where there is a `file`, it counts too. What must be there
    `before` is done first, once.
    """

    line: str
    other: str
    back: tuple[tuple[str, str], ...] = ()
    file: str = ""
    other_file: str = ""
    engine: str = ""
    words: tuple[tuple[str, str], ...] = ()
    before: tuple[str, ...] = ()
    slow: bool = False


# Of each command, for each kind: pairs of command lines, or why there are none.
Table = Mapping[str, Mapping[str, list[Same] | str]]


def swapped(line: str, *pairs: tuple[str, str], **further: Any) -> Same:
    """The line with other files in it; answers name the old ones."""
    other, back = line, tuple((re.escape(new), old) for old, new in pairs)
    for old, new in pairs:
        other = re.sub(rf"(?<![\w./-]){re.escape(old)}(?![\w./])", lambda _, new=new: new, other)
    assert other != line
    return Same(line, other, back, **further)


def cases_of(table: Table, needs: Mapping[str, str]) -> Iterator[Any]:
    """Parameters of a test: each pair once, skipped where a package is absent."""
    for command, row in table.items():
        for kind, same in row.items():
            for number, one in enumerate(same if isinstance(same, list) else []):
                marks = [pytest.mark.slow] if one.slow else []
                if command in needs and find_spec(needs[command]) is None:
                    marks.append(pytest.mark.skip(reason=f"needs {needs[command]}"))
                yield pytest.param(one, id=f"{command} {kind} {number}", marks=marks)


class Sayings:
    """What command lines say, each once, in a folder with inputs in many layouts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lines: dict[str, Command] = {}
        self._session = Session(folder, self._lines)
        write_variants(folder)

    def answer(self, line: str, file: str = "", engine: str = "") -> dict[str, Any]:
        """Exit code, output and the written file."""
        name = f"{engine} {line} > {file}"
        self._lines[name] = Command(name, line, (file,) if file else ())
        with _numpy_kernels() if engine else nullcontext():
            found = self._session.answer(name)
        assert found["exit"] in (0, 1), f"{line}\n{found.get('stderr')}"
        return {key: value for key, value in found.items() if key != "args"}

    def spoken(self, line: str) -> Any:
        """The JSON that a command prints, with the version of the program in it."""
        data = self.answer(line)["json"]
        return _in_words(data, ((r"version:…", f"version:{__version__}"),))


@contextmanager
def _numpy_kernels() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_NATIVE", "0")
        _forget_engine()
        yield
    _forget_engine()


def _forget_engine() -> None:
    native.engine_name.cache_clear()
    native.kernels.cache_clear()


def check_same(same: Same, sayings: Sayings) -> None:
    """Fail with the places where the answers differ."""
    for line in same.before:
        sayings.answer(line)
    old = sayings.answer(same.line, same.file)
    new = sayings.answer(same.other, same.other_file or same.file, same.engine)
    back = [*same.back, (re.escape(same.other_file), same.file)] if same.other_file else same.back
    words = (*same.words, *_WORDS)
    found = differences(_in_words(old, words), _in_words(new, (*back, *words)))
    if wrong := [f"{one.path}: {one.old!r} {one.new!r}"[:300] for one in found]:
        pytest.fail("\n".join([same.line, same.other, *wrong[:10]]), pytrace=False)
    said = {key: value for key, value in old.items() if key != "exit"}
    assert re.search(r"\d", str(said)), "nothing was said"


# Names of kernels and tags of runs.
_WORDS: Final = ((r'\b(engine|search):[^|"\s]+', r"\1"), (r'"tag": "[^"]*"', '"tag": ""'))


def _in_words(answer: Any, words: Iterable[tuple[str, str]]) -> Any:
    """The answer with other words in it."""
    text = json.dumps(answer, ensure_ascii=False, sort_keys=True)
    for pattern, put in words:
        text = re.sub(pattern, put, text)
    return json.loads(text)
