"""`assay verify`: compute a stored result again and say whether it is the same."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import click

from assay import __version__
from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.repeating import StoredCommand, written_options
from assay.cli.settings import argument, option
from assay.core.on_demand import OnDemand
from assay.core.text import printable
from assay.errors import AssayError, FormatError, StorageError, UsageError
from assay.io.plain_data import check_against, parse_json
from assay.io.streams import ScratchFolder, read_text, split_array
from assay.plugins import find_hook
from assay.tables.table import Cell, Page, Table, Words

if TYPE_CHECKING:
    from assay.core.checks import name_few
    from assay.core.specs import Consent
    from assay.io.fingerprints import fingerprints
    from assay.runs.results import results_to_data
    from assay.verify.differences import Difference, compare_results, compare_signatures
else:
    name_few = OnDemand("assay.core.checks").name_few
    fingerprints = OnDemand("assay.io.fingerprints").fingerprints
    compare_results = OnDemand("assay.verify.differences").compare_results
    compare_signatures = OnDemand("assay.verify.differences").compare_signatures
    results_to_data = OnDemand("assay.runs.results").results_to_data


_MADE_BY: Final = {
    "type": "object",
    "properties": {
        "version": {"type": "string"},
        "arguments": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "inputs": {"type": "object"},
    },
    "required": ["version", "arguments", "inputs"],
    "additionalProperties": False,
}
_VERSION: Final = re.compile(r"\d[\da-z.+_-]{0,60}", re.IGNORECASE)
_SCHEME: Final = re.compile("[a-z][a-z0-9+.-]*://", re.IGNORECASE)  # of an address
_MOST: Final = 20  # rows of differences that are shown
_RESAMPLES: Final = 1_000_000
_ELSEWHERE: Final = ("where", "workers", "cluster")  # where the work was done


@click.command("verify", cls=Command)
@argument("result", metavar="RESULT.json", reads=True)
@argument("files", nargs=-1, metavar="[INPUT...]", reads=True)
@options.in_input("--folder DIR", shown=".", help="Folder of the inputs.", folder=True)
@option("--outside", is_flag=True, help="Read inputs outside DIR, too (absolute paths, '..').")
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
    """Recompute a stored result and tell whether it is the same.

    RESULT is JSON from --json, -o or 'assay runs export'. Inputs are matched to the files named
    here and in --folder, by digest, then by name. RESULT may come from a stranger: its command runs
    in a separate folder with these inputs only, writes nothing, and runs no code without the
    options below.

    Exit code 0: all data is reproduced to the last digit. Exit code 1: an input, the signature or
    a value differs. Sentences may differ between versions.

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
        raise FormatError(f"{result} is not a result. Pass what a command wrote with --json.")
    verify = _verify_export if "layout" in data else _verify_result
    verification = verify(data, result, place, consent)
    output.emit(verification, layout, file, brief=False)
    return 0 if verification.is_reproduced else 1


@dataclass(frozen=True)
class _Verification:
    """Outcome of a recomputed result."""

    result: str
    version: str
    command: str
    inputs: list[VerifiedInput]
    compared: int = 0
    differences: list[Difference] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    @property
    def _data(self) -> list[Difference]:
        """Differences that count: another version may word its sentences differently."""
        other = self.version != __version__
        return [change for change in self.differences if not (other and change.in_prose)]

    @property
    def is_reproduced(self) -> bool:
        same = all(file.is_same for file in self.inputs)
        return same and not self._data and not self.findings

    def _verdict(self) -> str:
        changed = sum(not file.is_same for file in self.inputs)
        values = f"{self.compared} values, {len(self._data)} differ"
        counts = f"{values}; {len(self.inputs)} inputs, {changed} changed"
        if not self.is_reproduced:
            return f"{self.result}: NOT reproduced ({counts})"
        words = len(self.differences)
        other = f"; sentences that differ: {words}" if words else ""
        return f"{self.result}: reproduced to the last digit ({counts}{other})"

    def page(self) -> Page:
        page: Page = [Words(self._verdict(), "verdict"), Words(f"repeated: {self.command}")]
        if self.version != __version__:
            words = len(self.differences) - len(self._data)
            other = f"; sentences that differ: {words} (trust the recomputed ones)" if words else ""
            page += [Words(f"made by version {self.version}, repeated by {__version__}{other}")]
        page += [Words(f"{file.path} has changed") for file in self.inputs if not file.is_same]
        page += [Words(line) for line in self.findings]
        # Another version may word sentences differently; a stranger may have changed them.
        rows = (self._data or self.differences)[:_MOST]
        if rows:
            cells = [
                (Cell(row.value), *map(_show, (row.stored, row.recomputed, row.change)))
                for row in rows
            ]
            page.append(Table(("value", "stored", "recomputed", "difference"), tuple(cells)))
        more = len(self._data or self.differences) - len(rows)
        return [*page, Words(f"and {more} more; --json has all")] if more else page

    def to_dict(self) -> dict[str, Any]:
        return {
            "result": self.result,
            "reproduced": self.is_reproduced,
            "versions": {"stored": self.version, "here": __version__},
            "repeated": self.command,
            "inputs": [item.to_dict() for item in self.inputs],
            "compared": self.compared,
            "differences": [item.to_dict() for item in self.differences],
            "findings": self.findings,
        }


def _show(leaf: Any) -> Cell:
    """Format a value with every digit, and text up to a line."""
    return Cell("" if leaf is None else printable(f"{leaf!r:.60}"))


# Results that commands wrote


def _verify_result(
    data: dict[str, Any], result: str, place: InputPlaces, consent: Consent
) -> _Verification:
    origin = data.get("made_by")
    if origin is None or "command" not in data:
        raise FormatError(
            f"{result}: no record of its command. Pass JSON of --json, -o FILE.json or 'assay "
            "runs export'."
        )
    if data.get("schema_version") != output.SCHEMA_VERSION:
        raise FormatError(
            f"{result}: layout version {data.get('schema_version')!r:.20}, not "
            f"{output.SCHEMA_VERSION}. Verify with the version that wrote it."
        )
    check_against(origin, _MADE_BY, f"{result}: made_by")
    _check_version(origin["version"], result)
    inputs = place.find(origin["inputs"], result)
    with own_folder(inputs, origin["arguments"], _folder_name(data)) as (arguments, renamed, apart):
        stored = _load(arguments, consent, result, outside=place.outside)
        about: dict[str, Any] = {
            "result": result,
            "version": origin["version"],
            "command": shlex.join(("assay", *origin["arguments"])),
            "inputs": inputs,
        }
        try:
            with _quiet():
                stored.run(consent, file=f"{apart}/verified.json")
            recomputed = parse_json(read_text(f"{apart}/verified.json"), "the recomputed result")
        except (UsageError, click.ClickException) as error:
            raise UsageError(f"Cannot recompute {result}: {error}") from None
        except AssayError as error:
            return _Verification(**about, findings=[f"it cannot be computed again: {error}"])
    version = origin["version"]
    compared, differences = compare_results(with_paths(data, renamed), recomputed, result, version)
    now = recomputed.get("signature")
    about["findings"] = compare_signatures(data.get("signature"), now, version)
    return _Verification(**about, compared=compared, differences=differences)


def _check_version(version: str, result: str) -> None:
    if not _VERSION.fullmatch(version):
        raise FormatError(
            f"{result}: {printable(version)!r:.40} is not a version of Assay. Write it again, "
            "or restore it."
        )


def _folder_name(data: Mapping[str, Any]) -> str:
    """Return the name of the folder where it was typed, which its collection has."""
    collection = data.get("collection")
    name = collection.get("name") if isinstance(collection, dict) else None
    usable = isinstance(name, str) and re.fullmatch(r"\w[\w .+-]{0,60}", name)
    return str(name) if usable else "inputs"


def _load(
    arguments: Sequence[str], consent: Consent, result: str, *, outside: bool
) -> StoredCommand:
    """Parse the recorded command and check that it may run."""
    stored = StoredCommand(arguments)
    if not stored.verified:
        raise UsageError(
            f"{result}: what {stored.name!r} prints cannot be recomputed from its inputs. "
            "Verify another result."
        )
    if stored.resamples > _RESAMPLES:
        raise UsageError(
            f"{result} asks for {stored.resamples:,} resamples; at most {_RESAMPLES:,} are "
            "recomputed. Store the result with fewer --resamples."
        )
    stored.check(consent, result)
    texts = chain(stored.texts(), stored.named_texts())
    leading = next((text for text in texts if leads_out(_SCHEME.sub("", text))), None)
    if leading is not None and not outside:
        raise UsageError(
            f"{result} names {printable(leading)!r}, not one of its inputs. Add --outside to "
            "allow it."
        )
    return stored


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence a repeated command except for its result."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield


# Runs that a store exported


def _verify_export(
    data: dict[str, Any], result: str, place: InputPlaces, consent: Consent
) -> _Verification:
    """Run the commands of exported runs again and compare every value of every query."""
    open_store = find_hook("open_store")
    with ScratchFolder("verify") as folder, open_store(os.path.join(folder, "stored.db")) as opened:
        loaded = opened.load(result)  # which checks the digest of each
        runs = [run for run in loaded if run.status == "finished"]
        stored = {run.id: _numbers_of(run) for run in runs}
    if not runs:
        raise UsageError(f"{result}: no finished run. Export finished runs.")
    batches = {run.batch: [item for item in runs if item.batch == run.batch] for run in runs}
    done = [_verify_batch(batch, stored, result, place, consent) for batch in batches.values()]
    if len(done) == 1:
        return done[0]
    other = [each.version for each in done if each.version != __version__]
    return _Verification(
        result,
        other[0] if other else __version__,
        "; ".join(item.command for item in done),
        [item for each in done for item in each.inputs],
        sum(item.compared for item in done),
        [
            replace(item, in_prose=item.in_prose and each.version != __version__)
            for each in done
            for item in each.differences
        ],
        [f"{each.command}: {line}" for each in done for line in each.findings],
    )


def _verify_batch(
    runs: list[Any], stored: Mapping[int, Any], result: str, place: InputPlaces, consent: Consent
) -> _Verification:
    """Verify the runs that one command made."""
    marks = {path: mark for run in runs for path, mark in run.data.items()}
    # A run that was saved from Python may have marks of its own, which are none of files.
    files = {
        path: mark
        for path, mark in marks.items()
        if isinstance(mark, dict) and {"bytes", "sha256"} <= mark.keys()
    }
    inputs = place.find(files, result)
    version = _version_of(runs, result)
    command = shlex.join(("assay", *runs[0].command))
    try:
        values, renamed, signatures = _run_again(
            runs, inputs, consent, result, outside=place.outside
        )
    except (UsageError, click.ClickException):
        raise
    except AssayError as error:
        lines = [f"cannot be recomputed: {error} Export all runs of a command."]
        return _Verification(result, version, command, inputs, findings=lines)
    before = with_paths(_by_name(runs, stored), renamed)
    matching = {name: item for name, item in values.items() if name in before}
    compared = compare_results(before, matching, result, version)
    return _Verification(result, version, command, inputs, *compared, signatures)


def _version_of(runs: Iterable[Any], result: str) -> str:
    """Return the version that all runs of one command were made by."""
    versions = list(dict.fromkeys(str(run.versions.get("assay", "")) for run in runs))
    if len(versions) > 1:
        raise FormatError(
            f"{result}: runs of one command name several versions: {name_few(versions)}. "
            "Export them again."
        )
    _check_version(versions[0], result)
    return versions[0]


def _by_name(runs: Iterable[Any], numbers: Mapping[int, Any]) -> dict[str, Any]:
    """Return the numbers of runs by name; several of one name have a list."""
    by_name: dict[str, list[Any]] = {}
    for run in sorted(runs, key=lambda item: item.id):
        by_name.setdefault(run.name, []).append(numbers[run.id])
    return {name: each if len(each) > 1 else each[0] for name, each in by_name.items()}


def _run_again(
    runs: Sequence[Any],
    inputs: list[VerifiedInput],
    consent: Consent,
    result: str,
    *,
    outside: bool,
) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Return the numbers of the repeated runs by name, and how their signatures differ.

    Between them the paths that inputs had.
    """
    run = runs[0]
    if not run.command or any(other.command != run.command for other in runs):
        raise UsageError(f"{result}: run {run.name!r} was not saved by a command. Export another.")
    with own_folder(inputs, run.command) as (arguments, renamed, apart):
        again = _load(arguments, consent, result, outside=outside)
        if not again.saves:
            raise UsageError(f"{result}: run {run.name!r}: {again.name!r} saves no runs. Omit it.")
        with _quiet():
            # A search has to write a file, under its own name, which the run has, too.
            names = [PurePath(path).name for path in again.writes() if again.name == "rank"]
            target = {"target": os.path.join(apart, names[0])} if names else {}
            again.run(consent, save=True, store=f"{apart}/again.db", **target)
        with find_hook("open_store")(f"{apart}/again.db", create=False) as opened:
            repeated = list(opened.runs(status="finished"))
            numbers = {item.id: _numbers_of(item) for item in repeated}
    signed = {item.name: item.signature for item in repeated}
    lines = [
        f"{item.name}: {line}"
        for item in runs
        if item.name in signed
        for line in compare_signatures(item.signature, signed[item.name], _version_of(runs, result))
    ]
    return _by_name(repeated, numbers), renamed, lines


def _numbers_of(run: Any) -> dict[str, Any]:
    scores = run.scores().to_dict() if run.conventions else {}
    scores.pop("signature", None)  # compared part by part
    aside = {*_ELSEWHERE, *written_options(run.command)}
    return {
        "about": {"task": run.task, "model": run.model, "seeds": run.seeds},
        "config": {key: value for key, value in run.config.items() if key not in aside},
        "scores": scores,
        "aggregates": [mean.to_dict() for mean in run.aggregates],
        "details": run.details(),
        "wide": run.wide(),
        "shown": {query: results_to_data(each) for query, each in run.all_results().items()},
    }


# Inputs of a result that is computed again: where they are, and a folder that holds nothing else.
# A result may come from a stranger, so that what it names is read only where the user says.


_MARK: Final = {
    "type": "object",
    "properties": {"bytes": {"type": "integer"}, "sha256": {"type": "string"}},
    "required": ["bytes", "sha256"],
    "additionalProperties": False,
}
_CACHE: Final = "ASSAY_CACHE"
# A path ends a text or a word, or follows the letter of an option: -r/tmp/qrels.txt.
_ALONE: Final = r"(?:(?<![\w./\\~-])|(?<=^-\w))(?:{})(?![\w/\\~-]|\.\w)"
LARGEST_COPY: Final = 1 << 24  # bytes up to which an input is copied, not linked


@dataclass(frozen=True)
class VerifiedInput:
    """A file that a result was made of, and where it was found."""

    path: str
    stored: Mapping[str, Any]
    file: str
    now: Mapping[str, Any]

    @property
    def is_same(self) -> bool:
        """Whether it is the file that it was."""
        return self.stored == self.now

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        place = {"path": self.path, "file": self.file, "same": self.is_same}
        return {**place, "stored": dict(self.stored), "found": dict(self.now)}


class InputPlaces:
    """Where inputs are looked for."""

    def __init__(self, files: Sequence[str], folder: str, *, outside: bool) -> None:
        if not os.path.isdir(folder):
            raise StorageError(f"{folder} is not a folder. Pass --folder DIR.")
        self._marks = fingerprints(files)
        self._folder = folder
        self.outside = outside

    def find(self, inputs: Mapping[str, Any], result: str) -> list[VerifiedInput]:
        """Locate every input and its digest; raise an error for missing ones."""
        for path, mark in inputs.items():
            check_against(mark, _MARK, f"{result}: made_by: inputs: {path}")
        if "-" in inputs:
            raise StorageError(f"{result} read standard input. Compute it from a file.")
        verified = {path: self._locate(path, mark) for path, mark in inputs.items()}
        absent = [path for path, file in verified.items() if not file]
        if absent:
            out = any(map(leads_out, absent))
            raise StorageError(
                f"{result} has inputs in {len(inputs)} files; {len(absent)} are missing: "
                f"{name_few(absent)}. Name them after {result}, or pass --folder DIR"
                + (", or --outside to read elsewhere." if out else ".")
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


def leads_out(text: str) -> bool:
    """Return whether a text may name a file outside the command's folder."""
    parts = re.split("[=:,]", text.replace("\\", "/"))
    return any(part.startswith(("/", "~")) or ".." in PurePath(part).parts for part in parts)


@contextlib.contextmanager
def own_folder(
    inputs: Sequence[VerifiedInput], arguments: Sequence[str], name: str = "inputs"
) -> Iterator[tuple[list[str], dict[str, str], str]]:
    """Make a folder with the inputs alone, large ones as links, the current one.

    Gives the arguments as they hold there, which inputs have other paths in it, because their own
    would lead out of it, and a folder apart for output, where no link can lead to a file of the
    user. All others keep their paths, so that names in results are the same.
    """
    with ScratchFolder("verify") as whole:
        folder, apart = Path(whole, "in", name), Path(whole, "output")
        folder.mkdir(parents=True)
        apart.mkdir()
        renamed: dict[str, str] = {}
        placed: dict[Path, str] = {}
        for file in inputs:
            path = inner = split_array(file.path)[0]
            if leads_out(path):
                # Files stay where they are to each other: a manifest names its shards from its
                # own folder.
                parts = PurePath(os.path.normpath(path)).parts
                words = (part.replace("..", "up").strip("/\\:") or "root" for part in parts)
                inner = renamed[path] = os.path.join("outside", *words)
            if placed.setdefault(folder / inner, file.file) != file.file:
                raise StorageError(f"Two inputs have the same place {inner!r:.80}. Remove one.")
            _link(folder / inner, file)
        with contextlib.chdir(folder), _own_cache(str(apart)):
            yield [_replace(word, renamed) for word in arguments], renamed, str(apart)


@contextlib.contextmanager
def _own_cache(folder: str) -> Iterator[None]:
    """Use a temporary cache, so that a stranger's texts stay out of the user's."""
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
        if os.path.getsize(file.file) > LARGEST_COPY:
            with contextlib.suppress(OSError):  # not every system makes links for everybody
                target.symlink_to(file.file)
                return
        shutil.copyfile(file.file, target)  # readers of folders pass links over
    except (OSError, ValueError) as error:
        raise StorageError(f"Cannot place the input {file.path!r:.80}: {error}.") from None


def _replace(text: str, renamed: Mapping[str, str]) -> str:
    """Put new paths into a text, where an old one stands alone."""
    paths = "|".join(re.escape(old) for old in sorted(renamed, key=len, reverse=True))
    return re.sub(_ALONE.format(paths), lambda match: renamed[match[0]], text) if paths else text


def with_paths(data: Any, renamed: Mapping[str, str]) -> Any:
    """Put the paths into data that inputs had while it was computed again."""
    if not renamed:
        return data
    if isinstance(data, dict):
        return {_replace(key, renamed): with_paths(value, renamed) for key, value in data.items()}
    if isinstance(data, list):
        return [with_paths(value, renamed) for value in data]
    return _replace(data, renamed) if isinstance(data, str) else data
