"""`assay verify`: Compute a stored result again and say whether it is the same."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import click

from assay import __version__
from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.repeating import StoredCommand
from assay.core.checks import name_few
from assay.core.text import printable
from assay.errors import AssayError, FormatError, StorageError, UsageError
from assay.io.fingerprints import fingerprints
from assay.io.json_text import check_against, parse_json
from assay.io.streams import read_text, split_array
from assay.runs.reproduction import Difference, compare_results, compare_signatures
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.core.consent import Consent
    from assay.store import Run

__all__ = ["command"]

_MARK: Final = {
    "type": "object",
    "properties": {"bytes": {"type": "integer"}, "sha256": {"type": "string"}},
    "required": ["bytes", "sha256"],
}
_MADE_BY: Final = {
    "type": "object",
    "properties": {
        "version": {"type": "string"},
        "arguments": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "inputs": {"type": "object"},
    },
    "required": ["version", "arguments", "inputs"],
}
_MOST: Final = 20  # rows of differences that are shown
_COPIED: Final = 1 << 24  # bytes up to which an input is copied, not linked
# Commands that are repeated from their inputs alone; an experiment names its own data.
_VERIFIED: Final = (
    "bench",
    "check",
    "codes",
    "compare",
    "crossmodal",
    "descriptors patches",
    "eval",
    "explain",
    "predict",
    "rank",
    "tasks",
)


@click.command("verify", cls=Command)
@click.argument("result", metavar="RESULT.json")
@click.argument("files", nargs=-1, metavar="[INPUT...]")
@click.option(
    "--folder", default=".", show_default=True, metavar="DIR", help="Where the inputs lie."
)
@click.option(
    "--outside",
    is_flag=True,
    help="Also read inputs that RESULT names outside DIR: absolute paths, and those with '..'.",
)
@options.consent_options("RESULT")
@options.result_options("text", "json", named=False, brief=False)
def command(
    *,
    result: str,
    files: tuple[str, ...],
    folder: str,
    outside: bool,
    consent: Consent,
    layout: str,
    file: str | None,
) -> int:
    """Compute a stored result again and say whether it is the same.

    RESULT is JSON that a command wrote with --json or -o, or that 'assay runs export' wrote. Its
    inputs are looked for among the files given, by their digests, then by their names, and in
    --folder. It may come from a stranger: its command runs in a folder of its own that holds
    these inputs and nothing else, writes nothing, and runs no code without the options below.

    The exit code is 0 if every number is reproduced to the last digit, and 1 if an input, the
    signature or a number differs.

    \b
    Examples:
      assay verify result.json
      assay verify result.json --folder downloads
      assay verify result.json bm25.run qrels.txt --json
      assay verify runs.json
    """
    output.refuse_input(file, result, *files)
    place = _Place(files, folder, outside=outside)
    data = parse_json(read_text(result), result)
    if not isinstance(data, dict):
        raise FormatError(f"{result}: expected the JSON of a result, found {data!r:.40}.")
    verify = _verify_export if "layout" in data else _verify_result
    found = verify(data, result, place, consent)
    output.emit(found, layout, file, brief=False)
    return 0 if found.is_reproduced else 1


@dataclass(frozen=True)
class _Input:
    """A file that a result was made of, and where it was found."""

    path: str
    stored: Mapping[str, Any]
    found: str
    now: Mapping[str, Any]

    @property
    def is_same(self) -> bool:
        return self.stored == self.now

    def to_dict(self) -> dict[str, Any]:
        marks = {"stored": dict(self.stored), "found": dict(self.now)}
        return {"path": self.path, "file": self.found, "same": self.is_same, **marks}


@dataclass(frozen=True)
class _Verification:
    """What became of a result that was computed again."""

    result: str
    version: str
    command: str
    inputs: list[_Input]
    compared: int = 0
    differences: list[Difference] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    @property
    def _numbers(self) -> list[Difference]:
        """Differences that count: words may have changed with the version."""
        older = self.version != __version__
        return [one for one in self.differences if not (older and one.in_words)]

    @property
    def is_reproduced(self) -> bool:
        same = all(one.is_same for one in self.inputs)
        return same and not self._numbers and not self.findings

    def _verdict(self) -> str:
        if self.is_reproduced:
            return f"{self.result}: reproduced to the last digit ({self._counts()})"
        return f"{self.result}: NOT reproduced ({self._counts()})"

    def _counts(self) -> str:
        changed = sum(not one.is_same for one in self.inputs)
        values = f"{self.compared} values, {len(self._numbers)} differ"
        return f"{values}; {len(self.inputs)} inputs, {changed} changed"

    def page(self) -> Page:
        page: Page = [Words(self._verdict(), "verdict"), Words(f"repeated: {self.command}")]
        if self.version != __version__:
            words = len(self.differences) - len(self._numbers)
            other = f"; {words} texts are worded differently" if words else ""
            page += [Words(f"made by version {self.version}, repeated by {__version__}{other}")]
        page += [Words(f"{one.path} has changed") for one in self.inputs if not one.is_same]
        page += [Words(line) for line in self.findings]
        shown = self._numbers[:_MOST]
        if shown:
            page.append(Table(("value", "stored", "recomputed", "difference"), _rows(shown)))
        more = len(self._numbers) - len(shown)
        return [*page, Words(f"and {more} more; --json has all")] if more else page

    def to_dict(self) -> dict[str, Any]:
        return {
            "result": self.result,
            "reproduced": self.is_reproduced,
            "versions": {"stored": self.version, "here": __version__},
            "repeated": self.command,
            "inputs": [one.to_dict() for one in self.inputs],
            "compared": self.compared,
            "differences": [one.to_dict() for one in self.differences],
            "findings": self.findings,
        }


def _rows(shown: Iterable[Difference]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(
        (Cell(one.value), *(Cell(_short(leaf)) for leaf in (one.stored, one.found, one.change)))
        for one in shown
    )


def _short(leaf: Any) -> str:
    """A value with every digit, but no more of a text than a line."""
    return "" if leaf is None else printable(f"{leaf!r:.60}")


# Results that commands wrote


def _verify_result(
    data: dict[str, Any], result: str, place: _Place, consent: Consent
) -> _Verification:
    made = data.get("made_by")
    if made is None or "command" not in data:
        raise FormatError(
            f"{result}: it does not say how it was made. assay verify reads what a command with "
            "--json or -o FILE.json wrote from files, and what assay runs export wrote."
        )
    if data.get("schema_version") != output.SCHEMA_VERSION:
        raise FormatError(
            f"{result}: its layout is version {data.get('schema_version')!r:.20}, this program "
            f"reads {output.SCHEMA_VERSION}. Verify it with the version of assay that wrote it."
        )
    check_against(made, _MADE_BY, f"{result}: made_by")
    inputs = place.find(made["inputs"], result)
    with _own_folder(inputs, made["arguments"]) as (arguments, renamed, apart):
        stored = _load(arguments, consent, result, outside=place.outside)
        about: dict[str, Any] = {
            "result": result,
            "version": made["version"],
            "command": shlex.join(("assay", *made["arguments"])),
            "inputs": inputs,
        }
        try:
            with _quiet():
                stored.run(consent, file=f"{apart}/verified.json")
            found = parse_json(read_text(f"{apart}/verified.json"), "the recomputed result")
        except (UsageError, click.ClickException) as error:
            raise UsageError(f"{result} is not computed again: {error}") from None
        except AssayError as error:
            return _Verification(**about, findings=[f"it cannot be computed again: {error}"])
    compared, differences = compare_results(_renamed(data, renamed), found, result)
    about["findings"] = compare_signatures(data.get("signature"), found.get("signature"))
    return _Verification(**about, compared=compared, differences=differences)


def _load(
    arguments: Sequence[str], consent: Consent, result: str, *, outside: bool
) -> StoredCommand:
    """The command of a stranger, if it may be repeated here."""
    stored = StoredCommand(arguments)
    if stored.name not in _VERIFIED:
        raise UsageError(
            f"{result}: what {stored.name!r} prints is not verified; what these print is: "
            f"{', '.join(_VERIFIED)}."
        )
    stored.check(consent, result)
    leading = [text for text in stored.texts() if "://" not in text and _leads_out(text)]
    if leading and not outside:
        raise UsageError(
            f"{result} names {printable(leading[0])!r}, which is none of its inputs. Add --outside "
            "if it may be read."
        )
    return stored


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What the repeated command says beside its result was said when it was first run."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield


# Inputs


class _Place:
    """Where inputs are looked for."""

    def __init__(self, files: Sequence[str], folder: str, *, outside: bool) -> None:
        if not os.path.isdir(folder):
            raise StorageError(f"{folder} is not a folder.")
        self._marks = fingerprints(files)
        self._folder = folder
        self.outside = outside

    def find(self, inputs: Mapping[str, Any], result: str) -> list[_Input]:
        """Where each input is, and what it is now; an error names those that are not there."""
        for path, mark in inputs.items():
            check_against(mark, _MARK, f"{result}: made_by: inputs: {path}")
        found = {path: self._locate(path, mark) for path, mark in inputs.items()}
        absent = [path for path, file in found.items() if not file]
        if absent:
            raise StorageError(
                f"{result} was made of {len(inputs)} files, of which {len(absent)} are not here: "
                f"{name_few(absent)}. Name them after {result}, or say --folder DIR"
                + (", or --outside to read what lies elsewhere." if _any_out(absent) else ".")
            )
        here = {path: os.path.abspath(file) for path, file in found.items() if file}
        now = {path: fingerprints([file])[file] for path, file in here.items()}
        return [_Input(path, mark, here[path], now[path]) for path, mark in inputs.items()]

    def _locate(self, path: str, mark: Mapping[str, Any]) -> str | None:
        file = split_array(path)[0]
        name = PurePath(file).name
        given = [one for one, own in self._marks.items() if own == mark]
        given += [one for one in self._marks if PurePath(one).name == name]
        inside = [os.path.join(self._folder, name if _leads_out(file) else file)]
        inside += [file] if self.outside else []
        return next((one for one in (*given, *inside) if os.path.isfile(one)), None)


def _any_out(paths: Iterable[str]) -> bool:
    return any(map(_leads_out, paths))


def _leads_out(text: str) -> bool:
    """Whether a text may name a file outside the folder where a command runs."""
    parts = re.split("[=:,]", text.replace("\\", "/"))
    return any(part.startswith(("/", "~")) or ".." in PurePath(part).parts for part in parts)


@contextlib.contextmanager
def _own_folder(
    inputs: Sequence[_Input], arguments: Sequence[str]
) -> Iterator[tuple[list[str], dict[str, str], str]]:
    """A folder with the inputs alone, large ones as links, made the current one.

    Gives the arguments as they hold there, which inputs have other paths in it, because their own
    would lead out of it, and a folder apart for output, where no link can lead to a file of the
    user. All others keep their paths, so that names in results are the same.
    """
    with tempfile.TemporaryDirectory(prefix="assay-verify-") as whole:
        folder, apart = Path(whole, "inputs"), Path(whole, "output")
        folder.mkdir()
        apart.mkdir()
        renamed = {}
        for number, one in enumerate(inputs):
            path = inner = split_array(one.path)[0]
            if _leads_out(path):
                kept = [part for part in PurePath(path).parts if part.strip("/\\.~")]
                inner = renamed[path] = os.path.join(f"input{number}", *kept[-3:])
            _link(folder / inner, one)
        with contextlib.chdir(folder):
            yield [_replace(word, renamed) for word in arguments], renamed, str(apart)


def _link(target: Path, one: _Input) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            return
        if os.path.getsize(one.found) <= _COPIED:
            shutil.copyfile(one.found, target)  # readers of folders pass links over
        else:
            target.symlink_to(one.found)
    except (OSError, ValueError) as error:
        raise StorageError(
            f"The input {one.path!r:.80} has no place of its own: {error}."
        ) from None


def _replace(text: str, renamed: Mapping[str, str]) -> str:
    for old in sorted(renamed, key=len, reverse=True):
        text = text.replace(old, renamed[old])
    return text


def _renamed(data: Any, renamed: Mapping[str, str]) -> Any:
    """The same data with the paths that inputs had while it was computed again."""
    if not renamed:
        return data
    if isinstance(data, dict):
        return {_replace(key, renamed): _renamed(one, renamed) for key, one in data.items()}
    if isinstance(data, list):
        return [_renamed(one, renamed) for one in data]
    return _replace(data, renamed) if isinstance(data, str) else data


# Runs that a store exported


def _verify_export(
    data: dict[str, Any], result: str, place: _Place, consent: Consent
) -> _Verification:
    """Run the commands of exported runs again and compare every value of every query."""
    from assay import store

    with (
        tempfile.TemporaryDirectory(prefix="assay-verify-") as folder,
        store.open(os.path.join(folder, "stored.db")) as opened,
    ):
        runs = opened.load(result)  # which checks the digest of each
        stored = {run.id: _numbers_of(run) for run in runs}
    batches = {run.batch: [one for one in runs if one.batch == run.batch] for run in runs}
    done = [_verify_batch(own, stored, result, place, consent) for own in batches.values()]
    if len(done) == 1:
        return done[0]
    return _Verification(
        result,
        done[0].version if done else __version__,
        "; ".join(one.command for one in done),
        [one for each in done for one in each.inputs],
        sum(one.compared for one in done),
        [one for each in done for one in each.differences],
        [f"{each.command}: {line}" for each in done for line in each.findings],
    )


def _verify_batch(
    runs: list[Run], stored: Mapping[int, Any], result: str, place: _Place, consent: Consent
) -> _Verification:
    """The runs that one command made."""
    marks = {path: mark for run in runs for path, mark in run.data.items()}
    inputs = place.find(marks, result)
    version = str(runs[0].versions.get("assay", ""))
    command = shlex.join(("assay", *runs[0].command))
    try:
        made = _run_again(runs[0], inputs, consent, result, outside=place.outside)
    except (UsageError, click.ClickException):
        raise
    except AssayError as error:
        lines = [f"it cannot be computed again: {error} All runs of a command have to be exported."]
        return _Verification(result, version, command, inputs, findings=lines)
    before = {run.name: stored[run.id] for run in runs}
    found = {name: one for name, one in made.items() if name in before}
    return _Verification(result, version, command, inputs, *compare_results(before, found, result))


def _run_again(
    run: Run, inputs: list[_Input], consent: Consent, result: str, *, outside: bool
) -> dict[str, Any]:
    """The numbers of the runs that the command of a run makes, by name."""
    from assay import store

    if not run.command:
        raise UsageError(f"{result}: run {run.name!r} was not saved by a command.")
    with _own_folder(inputs, run.command) as (arguments, _, apart):
        again = _load(arguments, consent, result, outside=outside)
        with _quiet():
            target = {"target": f"{apart}/found.run"} if again.name == "rank" else {}
            again.run(consent, save=True, store=f"{apart}/again.db", **target)
        with store.open(f"{apart}/again.db", create=False) as opened:
            return {one.name: _numbers_of(one) for one in opened.runs(status="finished")}


def _numbers_of(run: Run) -> dict[str, Any]:
    scores = run.scores().to_dict() if run.conventions else {}
    return {"scores": scores, "aggregates": [one.to_dict() for one in run.aggregates]}
