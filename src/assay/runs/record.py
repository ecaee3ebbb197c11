"""RunRecord: one evaluation, as every task makes it and as stores and reports take it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from assay.core import checks
from assay.core.text import did_you_mean
from assay.errors import MeasureError, UsageError
from assay.io.fingerprints import fingerprints
from assay.runs.aggregates import Aggregate
from assay.runs.results import QueryResults
from assay.scoring.scores import Scores

if TYPE_CHECKING:
    from assay.core.hits import Hits
    from assay.measures import Measure

__all__ = [
    "HasRecord",
    "RunRecord",
    "as_records",
    "check_name",
    "check_tags",
    "fingerprint_files",
    "only_measures",
    "shared_measures",
]

# PostgreSQL's indexes hold no more than 2704 bytes in an entry, and a character has up to 4 (an
# escaped one 5).
_LONGEST: Final = 500


@dataclass(frozen=True, eq=False)
class RunRecord:
    """What was run, on what, how it is called, and its numbers.

    What it is about: `task` is the kind of evaluation (retrieval, prediction, …), `dataset` and
    `model` say what was evaluated, `config` holds the settings, `seeds` the seeds of random
    choices, `files` the files that were read (their fingerprints are taken when the record is
    stored) and `data` fingerprints that are known already. `command` are the arguments of the
    command line and `folder` where it was called. Runs of one call share their `batch`; `rerun_of`
    is the batch that a call repeats.

    Its numbers: means, counts and intervals are computed of `scores`; `aggregates` adds others.
    `chance` and `ceiling` hold what a random and a perfect order score, or their means by measure.
    `clusters` names a group column of the scores whose queries are not independent of each other:
    intervals and comparisons then draw whole groups, with the level, number of resamples and seed
    in `resampling`. `results` are the text of queries by their id and what was retrieved for them,
    `details` whatever else a task wants to keep. With `hits` a report also shows where relevant
    documents landed; `provenance` is shown there as it is: file, checksum, model, settings.
    """

    name: str
    scores: Scores | None = None
    task: str = ""
    dataset: str = ""
    model: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    seeds: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    files: Iterable[str | None] = ()
    tags: Iterable[str] = ()
    notes: str = ""
    command: Iterable[str] = ()
    folder: str = ""
    batch: str = ""
    rerun_of: str = ""
    aggregates: Iterable[Aggregate] = ()
    chance: Scores | Mapping[str, float] | None = None
    ceiling: Scores | Mapping[str, float] | None = None
    clusters: str = ""
    resampling: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, QueryResults] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    seconds: float | None = None
    hits: Hits | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot be stored, before anything is computed."""
        check_name(self.name, "name")
        for key in ("task", "dataset", "model", "batch", "rerun_of"):
            check_name(getattr(self, key), key, empty=True)
        for key in ("notes", "folder", "clusters"):
            if not isinstance(getattr(self, key), str):
                raise UsageError(f"{key} is a text, found {getattr(self, key)!r}.")
        for key in _MAPPINGS:
            if getattr(self, key) is None:
                object.__setattr__(self, key, {})
            elif not isinstance(getattr(self, key), Mapping):
                raise UsageError(f"{key} is a dictionary, found {getattr(self, key)!r}.")
        if self.scores is not None:
            checks.require(self.scores, Scores, "scores", "a Scores")
        object.__setattr__(self, "tags", check_tags(self.tags))
        object.__setattr__(self, "command", tuple(self.command))
        files = dict.fromkeys(file for file in self.files if file)
        object.__setattr__(self, "files", tuple(files))
        aggregates = tuple(self.aggregates)
        for one in aggregates:
            checks.require(one, Aggregate, "every aggregate", "an Aggregate")
        object.__setattr__(self, "aggregates", aggregates)

    @classmethod
    def of(cls, **given: Any) -> RunRecord:
        """The same from keywords; an unknown one is answered with the nearest."""
        known = [one.name for one in fields(cls)]
        for key in given:
            if key not in known:
                hint = did_you_mean(key, known)
                raise UsageError(f"A run has no {key!r}.{hint} It has: {', '.join(known)}.")
        return cls(**given)

    @property
    def query_set(self) -> str:
        """A fingerprint of what the queries ask, where a task has put one into `config`.

        Queries of the same id may ask different things then: such records are not compared.
        """
        return str(self.config.get("query_set", ""))

    def but(self, **changes: Any) -> RunRecord:
        """The same record with other values of some fields."""
        return replace(self, **changes)

    def record(self) -> RunRecord:
        """The record itself, so that stored runs and records are taken alike."""
        return self

    def scored(self) -> Scores:
        """The scores; an error where the record has none."""
        if self.scores is None:
            raise UsageError(f"Run {self.name!r} has no values of queries.")
        return self.scores

    def chance_means(self) -> Mapping[str, float] | None:
        """What a random order scores by measure, where it is known."""
        return _means(self.chance)

    def ceiling_means(self) -> Mapping[str, float] | None:
        """What a perfect order scores by measure, where it is known."""
        return _means(self.ceiling)

    @property
    def means(self) -> dict[str, float]:
        """The means over all queries by measure."""
        return dict(self.scored().mean())


_MAPPINGS: Final = (
    "config",
    "seeds",
    "data",
    "resampling",
    "results",
    "details",
    "timings",
    "provenance",
)


class HasRecord(Protocol):
    """A record, or what can give one: a run of a store."""

    @property
    def name(self) -> str:
        """What the run is called."""
        ...

    def record(self) -> RunRecord:
        """The run as a record with all its values."""
        ...


def fingerprint_files(records: Iterable[RunRecord]) -> list[RunRecord]:
    """The records with the fingerprints of their files in `data`; each file is read once."""
    given = list(records)
    # A group may be a column instead of a file, and files come with a name in front.
    named = dict.fromkeys(file for one in given for file in one.files if file)
    read = fingerprints(file for file in named if os.path.isfile(file))
    return [
        one.but(data={**{file: read[file] for file in one.files if file in read}, **one.data})
        for one in given
    ]


def _means(found: Scores | Mapping[str, float] | None) -> Mapping[str, float] | None:
    return found.mean() if isinstance(found, Scores) else found


def as_records(runs: Iterable[HasRecord]) -> list[RunRecord]:
    """Records under names of their own, with the measures that all of them have.

    A run of a store whose name another has already is called by its number, too.
    """
    given = checks.listed(runs, "runs")
    for run in given:
        if not callable(getattr(run, "record", None)):
            checks.require(run, RunRecord, "every run", "a RunRecord, or a run of a store")
    plain = {run.name for run in given if isinstance(run, RunRecord)}
    stored = [run for run in given if not isinstance(run, RunRecord)]
    repeated = {
        run.name for i, run in enumerate(stored) if run.name in {r.name for r in stored[:i]}
    }
    made = []
    for run in given:
        record = run.record()
        if not isinstance(run, RunRecord) and (run.name in plain or run.name in repeated):
            record = record.but(name=f"{run.name} #{run.id}")
        made.append(record)
    if not stored or len({record.scored().measures for record in made}) == 1:
        return made
    measures = shared_measures([record.scored() for record in made])
    return [record.but(scores=only_measures(record.scored(), measures)) for record in made]


def shared_measures(scores: Iterable[Scores]) -> tuple[Measure, ...]:
    """The measures that all have, in the order of the first."""
    first, *more = scores
    found = tuple(m for m in first.measures if all(m in each.measures for each in more))
    if not found:
        lists = " and ".join(", ".join(map(str, each.measures)) for each in (first, *more)[:2])
        raise UsageError(f"The runs have no measure in common: {lists}. Name others.")
    return found


def only_measures(scores: Scores, measures: Iterable[Measure]) -> Scores:
    """The scores of some of the measures."""
    wanted = tuple(measures)
    absent = [measure for measure in wanted if measure not in scores.measures]
    if absent:
        have = ", ".join(map(str, scores.measures))
        raise MeasureError(f"{absent[0]} was not stored; these were: {have}.")
    places = [scores.measures.index(measure) for measure in wanted]
    return replace(scores, measures=wanted, values=scores.values[places], tied=scores.tied[places])


def check_name(name: Any, what: str, *, empty: bool = False) -> str:
    """A text that can be stored and found."""
    if not isinstance(name, str) or (not name and not empty):
        raise UsageError(f"The {what} of a run is a text, found {name!r}.")
    if len(name) > _LONGEST:
        raise UsageError(
            f"The {what} of a run has {len(name):,} characters; it may have {_LONGEST}. "
            "Longer texts go into the notes."
        )
    return name


def check_tags(tags: Any) -> tuple[str, ...]:
    """Tags without repetition, in order."""
    if isinstance(tags, str):
        raise UsageError(f"tags is a list of texts, found the text {tags!r}.")
    return tuple(sorted({check_name(tag, "tag") for tag in tags}))
