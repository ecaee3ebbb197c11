"""Result files of mteb: the mean of each model on each task.

A folder holds `<model>/<revision>/<task>.json`, as `mteb run` writes it and the public repository
embeddings-benchmark/results keeps it. A file (class TaskResult of mteb, since its version 1.11) is

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
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.checks import name_few
from assay.core.numbers import finite_or_none
from assay.errors import FormatError, MismatchError
from assay.io.json_text import parse_json
from assay.io.streams import read_text
from assay.io.task_tables import TaskLines, lines_of_means

__all__ = ["read_mteb"]

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
    folders: Iterable[str | os.PathLike[str]],
    *,
    split: str = "test",
    only: Collection[str] = (),
    languages: Collection[str] = (),
) -> TaskLines:
    """The mean of each model on each task in these folders, or on the tasks in `only`.

    Where no model has the split, the only one there is read. With `languages`, such as "eng", only
    subsets whose languages are all among these count.
    """
    notes = _Notes()
    spoken = frozenset(languages)
    found = [
        result
        for folder in folders
        for path in _files(Path(folder), only)
        for result in _read(path, Path(folder), split, spoken, notes)
        if not only or result.task in only
    ]
    if not found:
        named = ", ".join(map(str, folders))
        raise FormatError(
            f"{named}: no results of mteb there. They are files <model>/<revision>/<task>.json "
            f"with task_name, scores and main_score{notes.why}."
        )
    by_task: dict[str, list[_Result]] = {}
    for result in _newest(found, notes):
        by_task.setdefault(result.task, []).append(result)
    cells = {}
    for task, every in by_task.items():
        results = _same_split(task, every, split, notes)
        shared = _usual_subsets(task, results, notes)
        for one in results:
            if not set(shared) <= set(one.scores):
                notes.short.append(f"{one.model} on {task}")
                continue
            value = math.fsum(one.scores[name] for name in shared) / len(shared)
            if math.isnan(value):
                notes.undefined.append(f"{one.model} on {task}")
            else:
                cells[one.model, task] = value
    return lines_of_means(cells, tuple(notes.remarks()))


class _Notes:
    """What a reader of the means should know, gathered while files are read."""

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
        """What the files that were found are, for a message."""
        if self.old:
            return f"; {self.old[0]} is of mteb before 1.11: load and save it with mteb"
        return f"; {self.foreign[0]} is none" if self.foreign else ""

    def remarks(self) -> Iterator[str]:
        """A sentence each."""
        if self.averaged:
            listed = name_few([f"{task} ({n})" for task, n in self.averaged.items()])
            yield f"tasks whose subsets were averaged: {listed}"
        for split, tasks in self.splits.items():
            yield f"read from the split {split!r}, the only one there: {name_few(tasks)}"
        for words, names in (
            ("lack a subset that most models have, and so the task", self.short),
            ("lack the split, and so the task", self.other_split),
            ("of several revisions that of the latest mteb was read", self.revisions),
        ):
            if names:
                yield f"{words}: {name_few(names)}"
        if self.undefined:
            yield f"main scores that are NaN count as missing: {name_few(self.undefined)}"
        if self.old:
            named = name_few(self.old)
            yield f"left out, of mteb before 1.11, which wrote no main score: {named}"
        if self.foreign:
            yield f"left out, not results of mteb: {name_few(self.foreign)}"


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
        raise FormatError(f"{path}: task_name is {task!r:.60}; it is the name of the task.")
    chosen = _choose_split(data["scores"], split, path)
    model, revision = _model_of(path, folder)
    entries = _spoken(data["scores"][chosen], languages)
    if languages and entries == []:
        return
    scores = _main_scores(entries, f"{path}: scores of {chosen!r}")
    version = tuple(map(int, re.findall("[0-9]{1,9}", str(data.get("mteb_version")))))
    yield _Result(path, model, revision, version, task, chosen, scores)


def _choose_split(scores: dict[str, Any], split: str, path: Path) -> str:
    if split in scores:
        return split
    if len(scores) != 1:
        have = ", ".join(map(repr, scores)) or "none"
        raise FormatError(
            f"{path}: there is no split {split!r}; there are: {have}. Name one of them with split."
        )
    return next(iter(scores))


def _spoken(entries: Any, languages: frozenset[str]) -> Any:
    """The subsets in these languages; codes are compared without the script: eng-Latn is eng."""
    if not languages or not isinstance(entries, list):
        return entries
    return [
        entry
        for entry in entries
        if isinstance(entry, dict)
        and isinstance(entry.get("languages"), list)
        and {str(one).partition("-")[0] for one in entry["languages"]} <= languages
    ]


def _main_scores(entries: Any, place: str) -> dict[str, float]:
    """The main score of each subset; NaN where mteb wrote so."""
    if not isinstance(entries, list) or not entries:
        raise FormatError(f"{place}: expected a list of subsets, found {entries!r:.60}.")
    found: dict[str, float] = {}
    for number, entry in enumerate(entries, 1):
        fields = entry if isinstance(entry, dict) else {}
        subset, value = fields.get("hf_subset"), fields.get("main_score")
        number_like = isinstance(value, int | float) and not isinstance(value, bool)
        if not isinstance(subset, str) or not (number_like or value is None):
            raise FormatError(
                f"{place}, number {number}: expected hf_subset and a number as main_score, found "
                f"{entry!r:.60}."
            )
        if subset in found:
            raise FormatError(f"{place}: the subset {subset!r} appears twice. Keep one.")
        undefined = value is None or (isinstance(value, float) and math.isnan(value))
        score = math.nan if undefined else finite_or_none(value)
        if score is None:
            raise FormatError(f"{place}: the main_score of {subset!r} is not finite.")
        found[subset] = score
    return found


def _model_of(path: Path, folder: Path) -> tuple[str, str]:
    """The model and its revision: of model_meta.json beside the file, else of the folders."""
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
    """One file for each model and task.

    As `join_revisions` of mteb does: a known revision before an unknown one, then that of the
    latest mteb. It takes the current revision before all, which only mteb knows.
    """
    found: dict[tuple[str, str], _Result] = {}
    for one in results:
        other = found.setdefault((one.model, one.task), one)
        if other.path.absolute() == one.path.absolute() or repr(other.scores) == repr(one.scores):
            continue
        first, second = ((each.revision not in _UNKNOWN, each.version) for each in (other, one))
        if first == second:
            raise MismatchError(
                f"{one.model} has two results on {one.task}: {other.path} and {one.path}. Give the "
                "folder of one revision."
            )
        if first[0] == second[0]:
            notes.revisions.append(f"{one.model} on {one.task}")
        found[one.model, one.task] = max((first, other), (second, one), key=lambda two: two[0])[1]
    yield from found.values()


def _same_split(
    task: str, results: Sequence[_Result], split: str, notes: _Notes
) -> Sequence[_Result]:
    """The results of the split, or all where they are of one other."""
    splits = sorted({one.split for one in results})
    if split in splits:
        gone = [one for one in results if one.split != split]
        notes.other_split += [f"{one.model} on {task}" for one in gone]
        return [one for one in results if one.split == split]
    if len(splits) > 1:
        raise MismatchError(
            f"{task}: models have results of different splits: {', '.join(splits)}. Name one with "
            "split, or leave the task out."
        )
    notes.splits.setdefault(splits[0], []).append(task)
    return results


def _usual_subsets(task: str, results: Sequence[_Result], notes: _Notes) -> tuple[str, ...]:
    """The subsets that most models have, the larger set if as many have another."""
    counted = Counter(tuple(sorted(one.scores)) for one in results)
    found = max(counted, key=lambda names: (counted[names], len(names), names))
    if len(found) > 1:
        notes.averaged[task] = len(found)
    return found
