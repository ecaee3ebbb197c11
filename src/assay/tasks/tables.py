"""Tables of many tasks: a line for each system, task and query with its value.

Without a column of queries a line holds the mean of a system on a task. Columns are found by their
names; CSV, TSV, JSON, JSONL and parquet files, data frames and records are read alike.

Result files of mteb hold the mean of each model on each task: `<model>/<revision>/<task>.json`, as
`mteb run` writes it and the repository embeddings-benchmark/results keeps it. A file (class
TaskResult of mteb, since its version 1.11) is

    {"task_name": "STS22", "scores": {"test": [{"hf_subset": "ru", "main_score": 0.66, …}, …]}, …}

with a list of subsets, such as languages, for each split of the data set. The score of a task is
the mean of the main scores of its subsets; mteb writes no values of queries. Models are compared on
the same subsets: those that most models have, and a model that lacks one lacks the task.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Floats, Ints
from assay.core.checks import flaw_of, name_few
from assay.core.text import finite_or_none
from assay.errors import FormatError, IdError, MismatchError, UsageError, ValueRangeError
from assay.io.columns import FileTable, Where, open_table, parse_numbers, shift, table_of_records
from assay.io.lines import is_frame, plain_floats, table_of_frame
from assay.io.plain_data import parse_json
from assay.io.streams import FilePath, read_text

_ADVICE: Final = (
    "Name the columns system, task, query and value (without query, values are means of tasks)."
)


class TaskLines(NamedTuple):
    """A value on each line; systems, tasks and queries are numbered by first appearance.

    `queries` is empty, and `query` is zero, where the values are means over queries.
    """

    systems: list[str]
    tasks: list[str]
    queries: list[str | int]
    system: Ints
    task: Ints
    query: Ints
    values: Floats
    where: Where
    remarks: tuple[str, ...] = ()

    @property
    def means_only(self) -> bool:
        """Whether a value is the mean of a system on a task."""
        return not self.queries

    def in_order(self) -> TaskLines:
        """Tasks and queries by the text of their names: what is drawn goes by that order, and must
        not depend on which line comes first. Systems stay as they were named."""
        tasks = sorted(range(len(self.tasks)), key=self.tasks.__getitem__)
        queries = sorted(range(len(self.queries)), key=lambda row: str(self.queries[row]))
        return self._replace(
            tasks=[self.tasks[row] for row in tasks],
            queries=[self.queries[row] for row in queries],
            task=np.argsort(tasks)[self.task],
            query=np.argsort(queries)[self.query] if queries else self.query,
        )


def task_lines(data: Any) -> TaskLines:
    """Read lines from a path, a data frame, or records with column names.

    >>> task_lines([{"model": "bm25", "task": "NQ", "query": "q1", "value": 0.5}]).systems
    ['bm25']
    """
    if isinstance(data, str | os.PathLike):
        return read_task_lines(data)
    if is_frame(data):
        return _lines_of_table(table_of_frame(data))
    if isinstance(data, Mapping | bytes) or not isinstance(data, Iterable):
        raise UsageError(
            f"Cannot read a table of tasks from {type(data).__name__}. Give a path, a data frame, "
            "or records such as {'system': …, 'task': …, 'query': …, 'value': …}."
        )
    return _lines_of_table(table_of_records(list(data), "row {}".format, "records"))


def read_task_lines(path: FilePath) -> TaskLines:
    """Read a table file."""
    return _lines_of_table(open_table(path, "a table of tasks"))


def lines_of_means(
    cells: Mapping[tuple[str, str], float], remarks: Sequence[str] = ()
) -> TaskLines:
    """Build lines from the mean of each (system, task)."""
    systems = list(dict.fromkeys(system for system, _ in cells))
    tasks = list(dict.fromkeys(task for _, task in cells))
    places = ({name: i for i, name in enumerate(each)} for each in (systems, tasks))
    of_system, of_task = places
    return TaskLines(
        systems,
        tasks,
        [],
        np.array([of_system[system] for system, _ in cells], np.int64),
        np.array([of_task[task] for _, task in cells], np.int64),
        np.zeros(len(cells), np.int64),
        np.array(list(cells.values()), np.float64),
        lambda row: "system {!r}, task {!r}".format(*list(cells)[row]),
        tuple(remarks),
    )


def join_lines(parts: Sequence[TaskLines]) -> TaskLines:
    """Return several tables as one: each may hold some of the systems or tasks."""
    if len(parts) == 1:
        return parts[0]
    if len({part.means_only for part in parts}) > 1:
        raise FormatError("Some tables hold values per query, others means. Pass one kind.")
    names: list[dict[Any, int]] = [{}, {}, {}]
    codes: list[list[Ints]] = [[], [], []]
    for part in parts:
        each: tuple[Sequence[Any], ...] = (part.systems, part.tasks, part.queries)
        for numbers, placed, of_part, code in zip(names, codes, each, part[3:6], strict=True):
            places = np.array(
                [numbers.setdefault(name, len(numbers)) for name in of_part], np.int64
            )
            placed.append(places[code] if len(places) else code)
    ends = np.cumsum([len(part.values) for part in parts])

    def where(row: int) -> str:
        number = int(np.searchsorted(ends, row, side="right"))
        return parts[number].where(row - int(ends[number] - len(parts[number].values)))

    systems, tasks, queries = map(list, names)
    system, task, query = map(np.concatenate, codes)
    values = np.concatenate([part.values for part in parts])
    remarks = tuple(remark for part in parts for remark in part.remarks)
    return TaskLines(systems, tasks, queries, system, task, query, values, where, remarks)


def _lines_of_table(table: FileTable) -> TaskLines:
    """Read names and values, batch by batch; check that every value is finite."""
    names = table.require({"system": "system", "task": "task", "value": "value"}, _ADVICE)
    item = table.find("item")
    names += [] if item is None else [item]
    numbers: dict[str, dict[Any, int]] = {"system": {}, "task": {}, "query": {}}
    codes: dict[str, list[Ints]] = {role: [] for role in numbers}
    parts: list[Floats] = []
    n_lines = 0
    for systems, tasks, cells, *queries in table.batches(names):
        where = shift(table.where, n_lines)
        columns = {"system": systems, "task": tasks, "query": queries[0] if queries else []}
        if table.is_text:
            parts.append(parse_numbers(cells, "value", where))
        else:
            for role, column in columns.items():
                _check_types(column, role, where)
            parts.append(plain_floats(cells, "values", where))
        for role, column in columns.items():
            number = numbers[role]
            places = [number.setdefault(name, len(number)) for name in column]
            codes[role].append(np.array(places or [0] * len(cells), np.int64))
        n_lines += len(cells)
    values = np.concatenate(parts)
    joined = {role: np.concatenate(each) for role, each in codes.items()}
    for role, number in numbers.items():
        _check_names(list(number), role, joined[role], table.where)
    if not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values)))
        raise ValueRangeError(
            f"{table.where(at)}: the value {values[at]} is not finite. Drop the row."
        )
    return TaskLines(
        list(map(str, numbers["system"])),
        list(map(str, numbers["task"])),
        list(numbers["query"]),
        joined["system"],
        joined["task"],
        joined["query"],
        values,
        table.where,
    )


def _check_types(names: Sequence[Any], role: str, where: Where) -> None:
    """Check that each column of names holds one type, text or whole numbers."""
    kinds = set(map(type, names))
    if len(kinds) > 1 or not kinds <= {str, int}:
        first = type(names[0]) if type(names[0]) in (str, int) else str
        at = next(at for at, name in enumerate(names) if type(name) is not first)
        raise IdError(
            f"{where(at)}: the {role} {names[at]!r:.60} is of type "
            f"{type(names[at]).__name__}. Use text or whole numbers throughout a column."
        )


def _check_names(names: list[Any], role: str, codes: Ints, where: Where) -> None:
    """Check that no name is empty or unstorable."""
    for number, name in enumerate(names):
        text = str(name)
        flaw = "is empty" if not text.strip() else flaw_of(text)
        if flaw:
            raise IdError(f"{where(int(np.argmax(codes == number)))}: the {role} {flaw}.")


_META = "model_meta.json"
_UNKNOWN = ("no_revision_available", "external")  # revisions of which mteb knows nothing
_EXPERIMENTS = "experiments"  # the same tasks with other settings of the model


@dataclass(frozen=True)
class _Result:
    """One file: a model on a task, the main score of each subset of the chosen split."""

    path: Path
    model: str
    revision: str
    version: tuple[int, ...]
    task: str
    split: str
    scores: dict[str, float]


def read_mteb(
    folders: Iterable[FilePath],
    *,
    split: str = "test",
    only: Collection[str] = (),
    languages: Collection[str] = (),
) -> TaskLines:
    """Return the mean of each model on each task in these folders, or on the tasks in `only`.

    Where no model has the split, the only one there is read. With `languages`, such as "eng", only
    subsets whose languages are all among these count.
    """
    notes = _Notes()
    spoken = frozenset(languages)
    results_read = [
        result
        for folder in folders
        for path in _files(Path(folder), only)
        for result in _read(path, Path(folder), split, spoken, notes)
        if not only or result.task in only
    ]
    if not results_read:
        named = ", ".join(map(str, folders))
        raise FormatError(
            f"{named}: no results of mteb. Pass <model>/<revision>/<task>.json with "
            f"task_name, scores and main_score{notes.why}."
        )
    by_task: dict[str, list[_Result]] = {}
    for result in _newest(results_read, notes):
        by_task.setdefault(result.task, []).append(result)
    cells = {}
    for task, every in by_task.items():
        results = _same_split(task, every, split, notes)
        # The subsets that most models have, the larger set if as many have another.
        counted = Counter(tuple(sorted(result.scores)) for result in results)
        shared = max(counted, key=lambda names: (counted[names], len(names), names))
        if len(shared) > 1:
            notes.averaged[task] = len(shared)
        for each in results:
            if not set(shared) <= set(each.scores):
                notes.short.append(f"{each.model} on {task}")
                continue
            value = math.fsum(each.scores[name] for name in shared) / len(shared)
            if math.isnan(value):
                notes.undefined.append(f"{each.model} on {task}")
            else:
                cells[each.model, task] = value
    return lines_of_means(cells, tuple(notes.remarks()))


class _Notes:
    """Remarks on the means, collected while reading files."""

    def __init__(self) -> None:
        self.old: list[str] = []
        self.foreign: list[str] = []
        self.splits: dict[str, list[str]] = {}
        self.averaged: dict[str, int] = {}
        self.short: list[str] = []
        self.other_split: list[str] = []
        self.revisions: list[str] = []
        self.undefined: list[str] = []

    @property
    def why(self) -> str:
        """Description of rejected files, for a message."""
        if self.old:
            return f"; {self.old[0]} is of mteb before 1.11: resave it with mteb"
        return f"; {self.foreign[0]} is not" if self.foreign else ""

    def remarks(self) -> Iterator[str]:
        """Yield a sentence each."""
        if self.averaged:
            listed = name_few([f"{task} ({n})" for task, n in self.averaged.items()])
            yield f"tasks whose subsets were averaged: {listed}"
        for split, tasks in self.splits.items():
            yield f"read from the split {split!r}, the only one: {name_few(tasks)}"
        for words, names in (
            ("omitted for lacking a subset that most models have", self.short),
            ("omitted for lacking the split", self.other_split),
            ("several revisions; the one of the latest mteb was read", self.revisions),
        ):
            if names:
                yield f"{words}: {name_few(names)}"
        if self.undefined:
            yield f"main scores that are NaN count as missing: {name_few(self.undefined)}"
        if self.old:
            named = name_few(self.old)
            yield f"omitted: mteb before 1.11 wrote no main score: {named}"
        if self.foreign:
            yield f"omitted: not results of mteb: {name_few(self.foreign)}"


def _files(folder: Path, only: Collection[str]) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.json")):
        inside = path.relative_to(folder)
        if path.name == _META or _EXPERIMENTS in inside.parts or (only and path.stem not in only):
            continue
        yield path


def _read(
    path: Path, folder: Path, split: str, languages: frozenset[str], notes: _Notes
) -> Iterator[_Result]:
    data = parse_json(read_text(path), str(path), constants=True)
    if not isinstance(data, dict) or not isinstance(data.get("scores"), dict):
        old = isinstance(data, dict) and "mteb_dataset_name" in data
        (notes.old if old else notes.foreign).append(str(path))
        return
    task = data.get("task_name")
    if not isinstance(task, str) or not task.strip():
        raise FormatError(f"{path}: task_name is {task!r:.60}. Set the task's name.")
    splits = data["scores"]
    if split not in splits and len(splits) != 1:
        have = ", ".join(map(repr, splits)) or "none"
        raise FormatError(f"{path}: unknown split {split!r}. Known: {have}. Pass split.")
    split_name = split if split in splits else next(iter(splits))
    model, revision = _model_of(path, folder)
    entries = _spoken(data["scores"][split_name], languages)
    if languages and entries == []:
        return
    scores = _main_scores(entries, f"{path}: scores of {split_name!r}")
    version = tuple(map(int, re.findall("[0-9]{1,9}", str(data.get("mteb_version")))))
    yield _Result(path, model, revision, version, task, split_name, scores)


def _spoken(entries: Any, languages: frozenset[str]) -> Any:
    """Return the subsets in these languages, compared without script: eng-Latn is eng."""
    if not languages or not isinstance(entries, list):
        return entries
    return [
        entry
        for entry in entries
        if isinstance(entry, dict)
        and isinstance(entry.get("languages"), list)
        and {str(language).partition("-")[0] for language in entry["languages"]} <= languages
    ]


def _main_scores(entries: Any, place: str) -> dict[str, float]:
    """Return the main score of each subset; NaN where mteb wrote so."""
    if not isinstance(entries, list) or not entries:
        raise FormatError(f"{place}: expected a list of subsets, found {entries!r:.60}.")
    scores: dict[str, float] = {}
    for number, entry in enumerate(entries, 1):
        fields = entry if isinstance(entry, dict) else {}
        subset, value = fields.get("hf_subset"), fields.get("main_score")
        number_like = isinstance(value, int | float) and not isinstance(value, bool)
        if not isinstance(subset, str) or not (number_like or value is None):
            raise FormatError(
                f"{place}, number {number}: expected hf_subset and a number as main_score, found "
                f"{entry!r:.60}."
            )
        if subset in scores:
            raise FormatError(f"{place}: the subset {subset!r} appears twice. Keep one.")
        undefined = value is None or (isinstance(value, float) and math.isnan(value))
        score = math.nan if undefined else finite_or_none(value)
        if score is None:
            raise FormatError(f"{place}: main_score of {subset!r} is not finite. Write a number.")
        scores[subset] = score
    return scores


def _model_of(path: Path, folder: Path) -> tuple[str, str]:
    """Return model and revision: of model_meta.json beside the file, else of the folders."""
    meta = path.parent / _META
    if meta.is_file():
        data = parse_json(read_text(meta), str(meta), constants=True)
        name = data.get("name") if isinstance(data, dict) else None
        if isinstance(name, str) and name.strip():
            return name, str(data.get("revision") or path.parent.name)
    for parent in path.absolute().parents:
        if "__" in parent.name:
            return parent.name.replace("__", "/"), path.parent.name
        if parent == folder.absolute():
            break
    inside = path.relative_to(folder).parts
    return (inside[0] if len(inside) > 1 else folder.absolute().name), path.parent.name


def _newest(results: Sequence[_Result], notes: _Notes) -> Iterator[_Result]:
    """Choose one file per model and task.

    As `join_revisions` of mteb does: a known revision before an unknown one, then that of the
    latest mteb. It takes the current revision before all, which only mteb knows.
    """
    newest: dict[tuple[str, str], _Result] = {}
    for result in results:
        other = newest.setdefault((result.model, result.task), result)
        same_file = other.path.absolute() == result.path.absolute()
        if same_file or repr(other.scores) == repr(result.scores):
            continue
        first, second = ((each.revision not in _UNKNOWN, each.version) for each in (other, result))
        if first == second:
            raise MismatchError(
                f"{result.model} has two results on {result.task}: {other.path} and "
                f"{result.path}. Pass the folder of one revision."
            )
        if first[0] == second[0]:
            notes.revisions.append(f"{result.model} on {result.task}")
        newest[result.model, result.task] = other if first > second else result
    yield from newest.values()


def _same_split(
    task: str, results: Sequence[_Result], split: str, notes: _Notes
) -> Sequence[_Result]:
    """Return the results of the split, or all where they are of one other."""
    splits = sorted({result.split for result in results})
    if split in splits:
        gone = [result for result in results if result.split != split]
        notes.other_split += [f"{result.model} on {task}" for result in gone]
        return [result for result in results if result.split == split]
    if len(splits) > 1:
        raise MismatchError(
            f"{task}: models use different splits: {', '.join(splits)}. Pass split, or omit "
            "the task."
        )
    notes.splits.setdefault(splits[0], []).append(task)
    return results
