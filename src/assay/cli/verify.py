"""`assay verify`: Compute a stored result again and say whether it is the same."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import click

from assay import __version__
from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.repeating import WRITES, StoredCommand
from assay.cli.verified_inputs import (
    InputPlaces,
    VerifiedInput,
    leads_out,
    own_folder,
    with_paths,
)
from assay.core.text import printable
from assay.errors import AssayError, FormatError, UsageError
from assay.io.json_text import check_against, parse_json
from assay.io.streams import read_text
from assay.runs.reproduction import Difference, compare_results, compare_signatures
from assay.runs.results import results_to_data
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.core.consent import Consent
    from assay.store import Run

__all__ = ["command"]

_MADE_BY: Final = {
    "type": "object",
    "properties": {
        "version": {"type": "string"},
        "arguments": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "inputs": {"type": "object"},
    },
    "required": ["version", "arguments", "inputs"],
}
_SCHEME: Final = re.compile("[a-z][a-z0-9+.-]*://", re.IGNORECASE)  # of an address
_MOST: Final = 20  # rows of differences that are shown
_RESAMPLES: Final = 1_000_000
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
      assay eval dense.run -r qrels.txt --save -o scores.json
      assay verify scores.json
      assay verify scores.json --folder .
      assay verify scores.json dense.run qrels.txt --json
      assay runs export 1 -o runs.json
      assay verify runs.json
    """
    output.refuse_input(file, result, *files)
    place = InputPlaces(files, folder, outside=outside)
    data = parse_json(read_text(result), result)
    if not isinstance(data, dict):
        raise FormatError(f"{result}: expected the JSON of a result, found {data!r:.40}.")
    verify = _verify_export if "layout" in data else _verify_result
    found = verify(data, result, place, consent)
    output.emit(found, layout, file, brief=False)
    return 0 if found.is_reproduced else 1


@dataclass(frozen=True)
class _Verification:
    """What became of a result that was computed again."""

    result: str
    version: str
    command: str
    inputs: list[VerifiedInput]
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
        # Another version may word texts differently; a stranger may have changed them.
        shown = (self._numbers or self.differences)[:_MOST]
        if shown:
            page.append(Table(("value", "stored", "recomputed", "difference"), _rows(shown)))
        more = len(self._numbers or self.differences) - len(shown)
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
    data: dict[str, Any], result: str, place: InputPlaces, consent: Consent
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
    with own_folder(inputs, made["arguments"], _folder_name(data)) as (arguments, renamed, apart):
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
    compared, differences = compare_results(with_paths(data, renamed), found, result)
    about["findings"] = compare_signatures(data.get("signature"), found.get("signature"))
    return _Verification(**about, compared=compared, differences=differences)


def _folder_name(data: Mapping[str, Any]) -> str:
    """The name of the folder where it was typed, which a collection in that folder has."""
    collection = data.get("collection")
    name = collection.get("name") if isinstance(collection, dict) else None
    usable = isinstance(name, str) and re.fullmatch(r"\w[\w .+-]{0,60}", name)
    return str(name) if usable else "inputs"


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
    if stored.resamples > _RESAMPLES:
        raise UsageError(
            f"{result} asks for {stored.resamples:,} resamples, which may fill the memory; up to "
            f"{_RESAMPLES:,} are computed again."
        )
    stored.check(consent, result)
    texts = chain(stored.texts(), stored.config_texts())
    leading = next((one for one in texts if leads_out(_SCHEME.sub("", one))), None)
    if leading is not None and not outside:
        raise UsageError(
            f"{result} names {printable(leading)!r}, which is none of its inputs. Add --outside "
            "if it may be read."
        )
    return stored


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What the repeated command says beside its result was said when it was first run."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield


# Runs that a store exported


def _verify_export(
    data: dict[str, Any], result: str, place: InputPlaces, consent: Consent
) -> _Verification:
    """Run the commands of exported runs again and compare every value of every query."""
    from assay import store

    with (
        tempfile.TemporaryDirectory(prefix="assay-verify-") as folder,
        store.open(os.path.join(folder, "stored.db")) as opened,
    ):
        loaded = opened.load(result)  # which checks the digest of each
        runs = [run for run in loaded if run.status == "finished"]
        stored = {run.id: _numbers_of(run) for run in runs}
    if not runs:
        raise UsageError(f"{result}: it holds no finished run, and so no numbers.")
    batches = {run.batch: [one for one in runs if one.batch == run.batch] for run in runs}
    done = [_verify_batch(own, stored, result, place, consent) for own in batches.values()]
    if len(done) == 1:
        return done[0]
    return _Verification(
        result,
        done[0].version,
        "; ".join(one.command for one in done),
        [one for each in done for one in each.inputs],
        sum(one.compared for one in done),
        [one for each in done for one in each.differences],
        [f"{each.command}: {line}" for each in done for line in each.findings],
    )


def _verify_batch(
    runs: list[Run], stored: Mapping[int, Any], result: str, place: InputPlaces, consent: Consent
) -> _Verification:
    """The runs that one command made."""
    marks = {path: mark for run in runs for path, mark in run.data.items()}
    files = {path: mark for path, mark in marks.items() if _is_fingerprint(mark)}
    inputs = place.find(files, result)
    version = str(runs[0].versions.get("assay", ""))
    command = shlex.join(("assay", *runs[0].command))
    try:
        made, signatures = _run_again(runs, inputs, consent, result, outside=place.outside)
    except (UsageError, click.ClickException):
        raise
    except AssayError as error:
        lines = [f"it cannot be computed again: {error} All runs of a command have to be exported."]
        return _Verification(result, version, command, inputs, findings=lines)
    before = _by_name(runs, stored)
    found = {name: one for name, one in made.items() if name in before}
    compared = compare_results(before, found, result)
    return _Verification(result, version, command, inputs, *compared, signatures)


def _by_name(runs: Iterable[Run], numbers: Mapping[int, Any]) -> dict[str, Any]:
    """The numbers of each run; several of one name have a list, none takes another's place."""
    found: dict[str, list[Any]] = {}
    for run in sorted(runs, key=lambda one: one.id):
        found.setdefault(run.name, []).append(numbers[run.id])
    return {name: own if len(own) > 1 else own[0] for name, own in found.items()}


def _is_fingerprint(mark: Any) -> bool:
    """Whether it is that of a file; a run that was saved from Python may have its own."""
    return isinstance(mark, dict) and {"bytes", "sha256"} <= mark.keys()


def _run_again(
    runs: Sequence[Run],
    inputs: list[VerifiedInput],
    consent: Consent,
    result: str,
    *,
    outside: bool,
) -> tuple[dict[str, Any], list[str]]:
    """The numbers of the runs that their command makes, by name; how their signatures differ."""
    from assay import store

    run = runs[0]
    if not run.command or any(one.command != run.command for one in runs):
        raise UsageError(f"{result}: run {run.name!r} was not saved by a command of its own.")
    with own_folder(inputs, run.command) as (arguments, _, apart):
        again = _load(arguments, consent, result, outside=outside)
        if again.name not in WRITES:
            raise UsageError(f"{result}: run {run.name!r}: {again.name!r} saves no runs.")
        with _quiet():
            target = _target(again, apart)
            again.run(consent, save=True, store=f"{apart}/again.db", **target)
        with store.open(f"{apart}/again.db", create=False) as opened:
            made = list(opened.runs(status="finished"))
            numbers = {one.id: _numbers_of(one) for one in made}
    signed = {one.name: one.signature for one in made}
    pairs = ((one.name, one.signature, signed[one.name]) for one in runs if one.name in signed)
    lines = [f"{name}: {line}" for name, *two in pairs for line in compare_signatures(*two)]
    return _by_name(made, numbers), lines


def _target(again: StoredCommand, folder: str) -> dict[str, str]:
    """The file that a search has to write, under its own name, which the run has, too."""
    named = [PurePath(one).name for one in again.writes()]
    return {"target": os.path.join(folder, named[0])} if again.name == "rank" and named else {}


def _numbers_of(run: Run) -> dict[str, Any]:
    scores = run.scores().to_dict() if run.conventions else {}
    scores.pop("signature", None)  # compared part by part
    return {
        "scores": scores,
        "aggregates": [one.to_dict() for one in run.aggregates],
        "details": run.details(),
        "wide": run.wide(),
        "shown": {query: results_to_data(one) for query, one in run.all_results().items()},
    }
