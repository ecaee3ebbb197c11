"""Running commands of Assay in this process, and keeping what they say without what passes.

Seconds, dates, uids, versions and temporary paths differ from call to call; everything else is
kept digit by digit.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.golden.inputs import make_inputs
from tests.schemas import check_printed

__all__ = [
    "GONE",
    "Command",
    "Renames",
    "Session",
    "digest_of",
    "digest_of_lines",
    "digest_of_numbers",
    "numbers_in",
    "shrunk",
]

GONE = "…"  # stands for what passes
# Values under these keys differ from call to call, or from machine to machine.
_PASSING_KEYS = re.compile(
    r"(\w+_)?seconds\w*|\w+_per_second|latency_ms|\w*time_ms|timings|created|updated|finished|"
    r"bytes_made|"  # how long the list of a shard is depends on which were searched before
    r"began|uid|batch|rerun_of|versions|commit|host|worker|folder|origin|digest"
)
_PASSING_TEXT = (
    (re.compile(r"\bversion:[^|\s]+"), f"version:{GONE}"),
    (re.compile(r"\bassay \d+\.\d+\.\d+\b"), f"assay {GONE}"),
    (re.compile(r"\bsignature [0-9a-f]{10}\b"), f"signature {GONE}"),  # it holds the version
    (re.compile(r"\b[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}\b"), GONE),  # a uid
    (re.compile(r"\b[0-9a-f]{64}(?=, since )"), GONE),  # the digest of a run
    (re.compile(r"(?<=stored run )(\d+) \([0-9a-f]{8}\)"), rf"\1 ({GONE})"),
    (re.compile(r"\b(\w*time_ms)=[^;\s]+"), rf"\1={GONE}"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?"), GONE),
)
_SHORTEST = 9  # letters: no shorter text passes, or holds the name of a folder
_NUMBER = re.compile(r"(?<![\w@#.])[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w@])")
_DATA_ENDINGS = (".run", ".csv", ".tsv", ".txt", ".trec", ".qrels", ".jsonl", ".ids")
_ENVIRONMENT = {"COLUMNS": "100", "NO_COLOR": "1", "HF_HUB_OFFLINE": "1", "ASSAY_CACHE": "cache"}
# Lists, dictionaries and texts that are longer are kept by their ends and a digest; the first of
# these lengths that makes an answer short enough is taken.
_LONGEST, _ENOUGH, _FEW, _LINE = (800, 400, 200, 100), 2000, 3, 120


@dataclass(frozen=True)
class Command:
    """A command line, the files it writes, and what must be there before."""

    name: str
    line: str
    files: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    digits: int = 0  # significant ones, where a package computes others on another processor

    @property
    def arguments(self) -> list[str]:
        """What follows `assay`."""
        return shlex.split(self.line)


@dataclass(frozen=True)
class Renames:
    """Old names by the new ones, for what was renamed on purpose."""

    names: Mapping[str, str]

    def old_key(self, key: str) -> str:
        """The key of a dictionary under its old name."""
        return self.names.get(key, key)

    def old_text(self, text: str) -> str:
        """A text with old names in it, the longest new ones first."""
        for new in sorted(self.names, key=len, reverse=True):
            old = self.names[new].replace("\\", r"\\")
            text = re.sub(rf"(?<!\w){re.escape(new)}(?!\w)", old, text)
        return text


class Session:
    """A folder with all inputs, in which commands run once each."""

    def __init__(
        self, folder: Path, commands: Mapping[str, Command], renames: Renames | None = None
    ) -> None:
        self._folder = folder.resolve()
        self._commands = commands
        self._renames = renames or Renames({})
        self._answers: dict[str, dict[str, Any]] = {}
        make_inputs(self._folder)

    def answer(self, name: str) -> dict[str, Any]:
        """What a command said; those before it run first."""
        if name not in self._answers:
            command = self._commands[name]
            for earlier in command.after:
                self.answer(earlier)
            self._answers[name] = self._run(command)
        return self._answers[name]

    def _run(self, command: Command) -> dict[str, Any]:
        with _within(self._folder):
            code, out, err = _called(command.arguments)
            check_printed(out)
            found = {"args": command.line, "exit": code, **self._plain(out, _kind(command))}
            if command.files:
                found["files"] = {file: self._file(file) for file in command.files}
        if command.digits:
            found = _rounded(found, command.digits)
        if err and code:
            found["stderr"] = self._lasting_text(err).splitlines()
        return found

    def _file(self, file: str) -> dict[str, Any]:
        """The content of a file; None where there is none."""
        path = Path(file)
        if not path.exists():
            return {"missing": True}
        kind = "data" if path.suffix in _DATA_ENDINGS else "text"
        text = path.read_text("utf-8")
        check_printed(text)
        return self._plain(text, kind)

    def _plain(self, text: str, kind: str) -> dict[str, Any]:
        """An output under its kind: JSON, data (lines that count letter by letter) or text."""
        if text[:1] in "{[":
            try:
                found = json.loads(text)
                if isinstance(found, dict):  # as its schema says, and as `assay verify` repeats
                    found = {k: v for k, v in found.items() if k not in ("schema", "made_by")}
                return {"json": self._lasting(found)}
            except ValueError:
                pass
        if not text:
            return {}
        lasting = self._lasting_text(text)
        return {kind: _lasting_columns(lasting) if kind == "data" else _lasting_lines(lasting)}

    def _lasting(self, value: Any) -> Any:
        if isinstance(value, dict):
            renamed = {self._renames.old_key(key): one for key, one in value.items()}
            # How far a stored run was heard to be depends on when it was asked.
            told = ("done", "total") if "uid" in renamed else ()
            return {
                self._lasting_text(key): GONE
                if one not in (None, "") and (key in told or _PASSING_KEYS.fullmatch(key))
                else self._lasting(one)
                for key, one in renamed.items()
            }
        if isinstance(value, list):
            return [self._lasting(one) for one in value]
        return self._lasting_text(value) if isinstance(value, str) else value

    def _lasting_text(self, text: str) -> str:
        if len(text) < _SHORTEST and not self._renames.names:
            return text
        folder = str(self._folder)
        for written in (folder, folder.replace("_", r"\_")):  # as it is, and in Markdown
            text = text.replace(written, "<folder>")
        text = self._renames.old_text(text)
        for pattern, put in _PASSING_TEXT:
            text = pattern.sub(put, text)
        return text


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item, digits) for item in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def _table(head: str) -> re.Pattern[str]:
    """A table of plain text or Markdown whose head holds some words."""
    return re.compile(rf"^[^\n]*{head}[^\n]*\n(?:[^\n]+\n?)*", re.MULTILINE)


# Tables that hold little but times.
_PASSING_TABLES = (
    (_table(r"texts/s\b"), f"{GONE}\n"),
    (_table(r"search \(ms per query\)"), f"{GONE}\n"),
    (_table(r"\bqueries/s\b"), f"{GONE}\n"),
    (_table(r"^(?:\| )?seconds\b[^\n]*\bdescribe\b"), f"{GONE}\n"),
    (re.compile(r"^expected time .*$", re.MULTILINE), GONE),
    (re.compile(r"^(?:\| )?(?:seconds|versions|finished|began)\b.*$", re.MULTILINE), GONE),
)


def _lasting_lines(text: str) -> str:
    """The same text without tables and lines of times."""
    for pattern, put in _PASSING_TABLES:
        text = pattern.sub(put, text)
    return text


def _lasting_columns(text: str) -> str:
    """The same table without the cells of columns that hold times."""
    head = text.partition("\n")[0]
    mark = "\t" if "\t" in head else ","
    passing = [row for row, name in enumerate(head.split(mark)) if _PASSING_KEYS.fullmatch(name)]
    if not passing:
        return text
    rows = list(csv.reader(io.StringIO(text), delimiter=mark))
    for cells in rows[1:]:
        for column in passing:
            cells[column] = GONE
    out = io.StringIO()
    csv.writer(out, delimiter=mark, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _kind(command: Command) -> str:
    """Whether stdout is data or text; JSON shows by itself."""
    layout = re.search(r"--format (\w+)|--(csv)\b", command.line)
    return "data" if layout and (layout[1] or layout[2]) in ("csv", "tsv", "trec") else "text"


@contextmanager
def _within(folder: Path) -> Iterator[None]:
    """Inside a folder, with an environment that does not depend on the caller's."""
    here, before = os.getcwd(), dict(os.environ)
    os.environ.update(_ENVIRONMENT)
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])  # tests.golden.models
    os.environ.pop("ASSAY_STORE", None)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(before)


def _called(arguments: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command line."""
    from assay.cli.main import main

    written = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(bytes_, "utf-8", newline="") for bytes_ in written)
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    for stream in (out, err):
        stream.flush()
    texts = [bytes_.getvalue().decode("utf-8") for bytes_ in written]
    return code, texts[0], texts[1]


# What is too long is kept by its ends


def shrunk(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The same with digests in place of most of what is long; the longer, the more."""
    for longest in _LONGEST:
        found = _shrunk(answer, longest)
        if len(_dumped(found)) <= _ENOUGH:
            break
    return found


def _shrunk(answer: Mapping[str, Any], longest: int) -> dict[str, Any]:
    by_kind: dict[str, Callable[[Any, int], Any]] = {
        "json": _short_json,
        "data": _short_data,
        "text": _short_text,
        "files": lambda files, _: {name: _shrunk(one, longest) for name, one in files.items()},
    }
    return {
        key: by_kind[key](one, longest) if key in by_kind else one for key, one in answer.items()
    }


def _short_json(value: Any, longest: int) -> Any:
    if not isinstance(value, dict | list) or len(_dumped(value)) <= longest:
        return value
    alike = len({*map(_shape, _inside(value))}) == 1
    if (alike and len(value) > _FEW) or len(value) > longest // 10:
        return {**digest_of(value), "ends": _ends(value, longest // 2)}
    if isinstance(value, list):
        return [_short_json(one, longest) for one in value]
    return {key: _short_json(one, longest) for key, one in value.items()}


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _shape(value: Any) -> Any:
    """What entries of a table have in common, in contrast to the parts of an outline."""
    return tuple(value) if isinstance(value, dict) else type(value)


def _ends(value: Any, longest: int) -> Any:
    """The first and the last entry."""
    if isinstance(value, list):
        return [_short_json(value[0], longest), _short_json(value[-1], longest)]
    ends = (next(iter(value)), next(reversed(value)))
    return {key: _short_json(value[key], longest) for key in ends}


def digest_of(value: Any) -> dict[str, Any]:
    """How many entries a long list or dictionary has, and the digest of their numbers."""
    return {GONE: len(value), "sha256": _digest(_dumped(words_left_out(value)))}


def digest_of_lines(text: str) -> dict[str, Any]:
    """How many lines data has, and the digest of all of them."""
    return {"lines": len(text.splitlines()), "sha256": _digest(text)}


def digest_of_numbers(text: str) -> dict[str, Any]:
    """How many numbers a text has, and the digest of them."""
    found = numbers_in(text)
    return {"numbers": len(found), "sha256": _digest(" ".join(found))}


def _short_data(text: str, longest: int) -> Any:
    lines = text.splitlines()
    if len(text) <= longest:
        return text
    return {**digest_of_lines(text), "ends": [_cut(lines[0]), _cut(lines[-1])]}


def _short_text(text: str, longest: int) -> Any:
    """Of a text the numbers count, not the words."""
    lines = text.splitlines()
    if len(text) <= 2 * longest:
        return text
    ends = [*lines[: longest // 100], lines[-1]]
    return {**digest_of_numbers(text), "ends": [_cut(line) for line in ends]}


def _cut(line: str) -> str:
    return line if len(line) <= _LINE else f"{line[:_LINE]}{GONE}"


def words_left_out(value: Any) -> Any:
    """The same with the numbers only where a text is a sentence, since wording may change."""
    if isinstance(value, dict):
        return {key: words_left_out(one) for key, one in value.items()}
    if isinstance(value, list):
        return [words_left_out(one) for one in value]
    return numbers_in(value) if isinstance(value, str) and " " in value else value


def numbers_in(text: str) -> list[str]:
    """The numbers of a text that stand by themselves, digit by digit.

    >>> numbers_in("nDCG@10 of d7 is 0.5000 [-0.1, 1e-05], n=26; 1,200 resamples")
    ['0.5000', '-0.1', '1e-05', '26', '1,200']
    """
    return _NUMBER.findall(text)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]
