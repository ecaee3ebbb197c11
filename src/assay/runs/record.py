"""RunRecord: one evaluation, as every task makes it and as stores take it; and its tables."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from assay.arrays import or_none
from assay.core import checks
from assay.core.on_demand import OnDemand
from assay.core.text import did_you_mean, interval_heading, mask_secrets
from assay.errors import MeasureError, UsageError
from assay.io.fingerprints import fingerprints
from assay.io.streams import as_typed, split_array
from assay.measures import Measure
from assay.scoring.scores import Scores, describe_counts
from assay.stats.bounded import mean_ends
from assay.stats.choices import CONFIDENCE, INTERVAL
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.core.hits import Hits
    from assay.measures import Measure
    from assay.runs import results
    from assay.runs.results import Aggregate, QueryResults
    from assay.stats import interval
else:  # a scored run has none
    results = OnDemand("assay.runs.results")
    interval = OnDemand("assay.stats.confidence").interval


# PostgreSQL's indexes hold no more than 2704 bytes in an entry, and a character has up to 4 (an
# escaped one 5).
_LONGEST: Final = 500


@dataclass(frozen=True, eq=False)
class RunRecord:
    """One evaluation: what was run, on what, and its numbers.

    Every task's result gives records, `store.save(record)` stores one, `make_report(records)`
    compares them. Only the name is required:

    >>> from assay import evaluate
    >>> scores = evaluate({"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 1}}, "RR")
    >>> RunRecord("bm25", scores, task="retrieval", dataset="demo").means
    {'RR': 0.5}

    What was run: `task` is the kind of evaluation (retrieval, prediction, …), `model` what was
    evaluated (the name, unless given), `dataset` on what; `config` holds the settings, `seeds` the
    seeds of random choices, `tags` and `notes` whatever helps to find it again.

    Where it comes from: `files` that were read, whose fingerprints are taken when the record is
    saved; `data` are fingerprints that are known already. `command` and `folder` repeat it. Runs of
    one call share a `batch`; `rerun_of` is the batch that a call repeats. `provenance` is printed
    in reports as it is, `seconds` and `timings` say how long it took.

    Its numbers: a store computes means, counts and intervals from `scores`, with `chance` and
    `ceiling` (scores of a random and of a perfect order, or their means by measure) beside them;
    `aggregates` adds numbers that are not means over queries. `clusters` names a group column of
    the scores whose queries are not independent: intervals and comparisons resample whole groups.
    `resampling` sets the level, the number of resamples and the seed. `results` are the text and
    the retrieved documents of queries by query id, `hits` the ranks of relevant documents (for the
    curves of a report; not stored), `details` anything else, as JSON. `wide` is the same as a row
    under another program's column names: numbers, texts, None; a store shows it by the view
    `wide_results`.
    """

    name: str
    scores: Scores | None = None
    # What was run
    task: str = ""
    dataset: str = ""
    model: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    seeds: Mapping[str, Any] = field(default_factory=dict)
    tags: Iterable[str] = ()
    notes: str = ""
    # Where it comes from
    files: Iterable[str | None] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    command: Iterable[str] = ()
    folder: str = ""
    batch: str = ""
    rerun_of: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    timings: Mapping[str, float] = field(default_factory=dict)
    # Its numbers
    chance: Scores | Mapping[str, float] | None = None
    ceiling: Scores | Mapping[str, float] | None = None
    aggregates: Iterable[Aggregate] = ()
    clusters: str = ""
    resampling: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, QueryResults] = field(default_factory=dict)
    hits: Hits | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    wide: Mapping[str, float | str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name(self.name, "name")
        for key in ("task", "dataset", "model", "batch", "rerun_of"):
            check_name(getattr(self, key), key, empty=True)
        for key in ("notes", "folder"):
            checks.require(getattr(self, key), str, f"{key} of a run", "a text")
        checks.require(self.clusters, str, "clusters", "the name of one group column")
        for key in _MAPPINGS:
            self._set(key, {} if getattr(self, key) is None else getattr(self, key))
            checks.require(getattr(self, key), Mapping, f"{key} of a run", "a dictionary")
        if self.scores is not None:
            checks.require(self.scores, Scores, "scores", "a Scores")
        self._set("aggregates", tuple(self.aggregates))
        if self.aggregates:
            results.check_aggregates(self.aggregates)
        self._set("wide", {name: _wide_cell(name, cell) for name, cell in self.wide.items()})
        self._set("tags", check_tags(self.tags))
        self._set("command", tuple(self.command))
        self._set("files", tuple(dict.fromkeys(file for file in self.files if file)))
        for key in ("command", "files", "config", "data", "provenance"):
            self._set(key, _without_secrets(getattr(self, key)))

    def _set(self, key: str, value: Any) -> None:
        object.__setattr__(self, key, value)

    @classmethod
    def of(cls, **values: Any) -> RunRecord:
        """Return a record from keywords; an unknown one is answered with the nearest."""
        names = [field.name for field in fields(cls)]
        for key in values:
            if key not in names:
                hint = did_you_mean(key, names)
                raise UsageError(f"A run has no {key!r}.{hint} It has: {', '.join(names)}.")
        return cls(**values)

    @property
    def query_set(self) -> str:
        """A fingerprint of the queries, their candidates and answers, if `config` has one.

        A task stores it where queries of the same id may differ from run to run; records with
        different query sets are not compared.
        """
        return str(self.config.get("query_set", ""))

    def replace(self, **changes: Any) -> RunRecord:
        """Return the record with other values of some fields."""
        return replace(self, **changes)

    def record(self) -> RunRecord:
        """Return the record itself, so that stored runs and records are taken alike."""
        return self

    def scored(self) -> Scores:
        """Return the scores; an error where the record has none."""
        if self.scores is None:
            raise UsageError(f"Run {self.name!r} has no per-query values. Score it again.")
        return self.scores

    def chance_means(self) -> Mapping[str, float] | None:
        """Return what a random order scores by measure, where it is known."""
        return _mean_values(self.chance)

    def ceiling_means(self) -> Mapping[str, float] | None:
        """Return what a perfect order scores by measure, where it is known."""
        return _mean_values(self.ceiling)

    @property
    def means(self) -> dict[str, float]:
        """The means over all queries by measure."""
        return dict(self.scored().mean())


_MAPPINGS: Final = (
    *("config", "seeds", "data", "resampling", "results"),
    *("details", "timings", "provenance", "wide"),
)


def _without_secrets(value: Any) -> Any:
    """Return the value with its addresses masked: what is stored is exported, shown and sent."""
    if isinstance(value, str):
        return mask_secrets(value[:]) if "://" in value else value
    if isinstance(value, Mapping):
        return {_without_secrets(key): _without_secrets(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map(_without_secrets, value))
    return value


def _wide_cell(name: Any, cell: Any) -> float | str | None:
    """Return a cell of a wide row that every database can hold.

    None for what is not defined.
    """
    check_name(name, "wide column")
    if cell is None or isinstance(cell, str):
        return cell
    number = isinstance(cell, int | float | np.number) and not isinstance(cell, bool)
    if not number or abs(cell) == math.inf:
        raise UsageError(f"{name} of a wide row must be a finite number or a text, found {cell!r}.")
    return or_none(float(cell))


class HasRecord(Protocol):
    """A record, or what can give one: a run of a store."""

    @property
    def name(self) -> str:
        """The name of the run."""
        ...

    def record(self) -> RunRecord:
        """Return the run as a record with all its values."""
        ...


def fingerprint_files(
    records: Iterable[RunRecord], digest: Callable[..., dict[str, Any]] = fingerprints
) -> list[RunRecord]:
    """Return the records with the fingerprints of their files in `data`.

    Each file is read once.
    """
    listed = list(records)
    # Some are not files: a group may be a column, and a name may stand before a path.
    named = dict.fromkeys(file for record in listed for file in record.files if file)
    read = digest(file for file in named if os.path.isfile(split_array(file)[0]))
    return [
        record.replace(
            data={
                **{as_typed(file): read[file] for file in record.files if file in read},
                **record.data,
            }
        )
        for record in listed
    ]


def _mean_values(means: Scores | Mapping[str, float] | None) -> Mapping[str, float] | None:
    return means.mean() if isinstance(means, Scores) else means


RecordsLike = Iterable[HasRecord] | Mapping[str, "Scores | HasRecord"]


def as_records(runs: RecordsLike) -> list[RunRecord]:
    """Return records with distinct names, and with the measures that all of them have.

    Scores are given by name: {"dense": scores}. A run of a store gets its number after its name
    where another has the same name.

    >>> from assay import evaluate
    >>> [one.name for one in as_records({"dense": evaluate({"q": ["a"]}, {"q": ["a"]}, "RR")})]
    ['dense']
    """
    if isinstance(runs, Mapping):
        runs = [_record_of(name, source) for name, source in runs.items()]
    listed = checks.as_list(runs, "runs")
    for run in listed:
        if not callable(getattr(run, "record", None)):
            checks.require(run, RunRecord, "every run", "a RunRecord, or a run of a store")
    counted = Counter(run.name for run in listed)
    stored = [run for run in listed if not isinstance(run, RunRecord)]
    records = []
    for run in listed:
        record = run.record()
        if not isinstance(run, RunRecord) and counted[run.name] > 1:
            record = record.replace(name=f"{run.name} #{run.id}")
        records.append(record)
    if not stored or len({record.scored().measures for record in records}) == 1:
        return records
    measures = shared_measures([record.scored() for record in records])
    return [record.replace(scores=only_measures(record.scored(), measures)) for record in records]


def _record_of(name: str, run: Any) -> RunRecord:
    if isinstance(run, Scores):
        return RunRecord(name, run)
    if not callable(getattr(run, "record", None)):
        checks.require(run, Scores, f"the run {name!r}", "a Scores, as evaluate() gives it")
    record: RunRecord = run.record()
    return record.replace(name=name)


def shared_measures(scores: Iterable[Scores]) -> tuple[Measure, ...]:
    """Return the measures that all have, in the order of the first."""
    first, *more = scores
    shared = tuple(m for m in first.measures if all(m in each.measures for each in more))
    if not shared:
        lists = " and ".join(", ".join(map(str, each.measures)) for each in (first, *more)[:2])
        raise UsageError(f"The runs have no measure in common: {lists}.")
    return shared


def only_measures(scores: Scores, measures: Iterable[Measure]) -> Scores:
    """Return the scores of some of the measures."""
    selected = tuple(measures)
    absent = [measure for measure in selected if measure not in scores.measures]
    if absent:
        have = ", ".join(map(str, scores.measures))
        raise MeasureError(f"{absent[0]} is not among the measures. Name one of {have}.")
    places = [scores.measures.index(measure) for measure in selected]
    return replace(
        scores, measures=selected, values=scores.values[places], tied=scores.tied[places]
    )


def check_name(name: Any, what: str, *, empty: bool = False) -> str:
    """Return a text that can be stored and found."""
    if not isinstance(name, str) or (not name and not empty):
        raise UsageError(f"The {what} of a run must be a text, found {name!r}.")
    if len(name) > _LONGEST:
        raise UsageError(
            f"The {what} of a run has {len(name):,} characters, more than {_LONGEST}. Put longer "
            "texts into the notes."
        )
    return name


def check_tags(tags: Any) -> tuple[str, ...]:
    """Return tags without repetition, in order."""
    if isinstance(tags, str):
        raise UsageError(f"tags must be a list of texts, found the text {tags!r}.")
    return tuple(sorted({check_name(tag, "tag") for tag in tags}))


def names_of(runs: Sequence[Any]) -> list[str]:
    """Return names of runs; those that are equal get the number of their run."""
    counted = Counter(run.name for run in runs)
    return [run.name if counted[run.name] == 1 else f"{run.name} #{run.id}" for run in runs]


def title(records: list[RunRecord], percent: bool) -> str:
    """Return what the table is about."""
    judged = records[0].scored().n_queries
    what = records[0].name if len(records) == 1 else f"{len(records)} runs"
    unit = ", values in percent" if percent else ""
    return f"{what}, {judged} judged {'query' if judged == 1 else 'queries'}{unit}"


def _kind(measure: Measure, percent: bool) -> str:
    if measure.definition.aggregate == "sum":
        return "count"
    return "percent" if percent and measure.definition.high == 1.0 else "fraction"


def measure_table(record: RunRecord, percent: bool) -> Table:
    """Return a row for each measure of one run, with its interval and number of queries."""
    mean = record.scored().mean()
    ends = mean_intervals(record.scored())
    extra = [(key, end) for key, end in (*_bounds(record), *_ends(record)) if end]
    rows = []
    for measure, (name, value) in zip(record.scored().measures, mean.items(), strict=True):
        kind, aggregate = _kind(measure, percent), measure.definition.aggregate
        cells = [_interval_cell(ends.get(name), kind)] if ends else []
        cells += [Cell(end[name], kind) for _, end in extra]
        words = (mean.average if aggregate == "mean" else aggregate, mean.counts[name])
        front = (Cell(name), Cell(value, kind))
        rows.append((*front, *cells, Cell(words[0]), Cell(describe_counts(words[1]))))
    heading = (interval_heading(CONFIDENCE),) if ends else ()
    columns = ("measure", "value", *heading, *(key for key, _ in extra), "average", "queries")
    return Table(columns, tuple(rows))


def _interval_cell(ends: tuple[float, float] | None, kind: str) -> Cell:
    text = ", ".join(Cell(end, kind).text for end in ends or ())
    return Cell(f"[{text}]" if text else None, "figure")


def mean_intervals(scores: Scores) -> dict[str, tuple[float, float]]:
    """Return the ends of the default interval of each plain mean, by measure.

    Sums, geometric means and measures without a largest value have none.
    """
    plain = [m.definition.aggregate == "mean" and m.bounds is not None for m in scores.measures]
    rows = list(compress(zip(scores.measures, scores.averaged(), strict=True), plain))
    if INTERVAL == "auto":
        ends = [mean_ends(values, CONFIDENCE, m.bounds or (0.0, 1.0)) for m, values in rows]
    else:
        means = (interval(values, bounds=m.bounds) for m, values in rows)
        ends = [(mean.low, mean.high) for mean in means]
    named = zip((str(m) for m, _ in rows), ends, strict=True)
    return {name: pair for name, pair in named if not math.isnan(pair[0])}


def run_table(records: list[RunRecord], percent: bool, *, brief: bool = False) -> Table:
    """Return a row for each run, the best value of each measure marked.

    In `brief`, with intervals below.
    """
    means = [dict(record.scored().mean()) for record in records]
    best = _best(records[0].scored().measures, means)
    rows: list[tuple[Cell, ...]] = []
    for record, mean in zip(records, means, strict=True):
        rows.append((Cell(record.name), *_values(record, mean, percent, best)))
        if brief and (ends := mean_intervals(record.scored())):
            spans = (_span(ends.get(str(m)), percent) for m in record.scored().measures)
            rows.append((Cell(f"  {interval_heading(CONFIDENCE)}"), *spans))
        for label, end in _bounds(record):
            rows.append((Cell(f"{record.name}, {label} judgments"), *_values(record, end, percent)))
    rows += [(Cell(key), *_values(records[0], end, percent)) for key, end in _ends(records[0])]
    return Table(("run", *map(str, records[0].scored().measures)), tuple(rows))


def _span(ends: tuple[float, float] | None, percent: bool) -> Cell:
    """Return an interval short enough to stand below a mean."""
    scale, digits = (100, 1) if percent else (1, 3)
    return Cell(ends and "–".join(f"{scale * end:.{digits}f}" for end in ends), "figure")


def _bounds(record: RunRecord) -> list[tuple[str, Mapping[str, float]]]:
    """Return the means that the worst and the best judgments of unjudged documents give."""
    if record.scored().hits is None:
        return []
    bounds = record.scored().bounds()
    return [
        (end, {name: getattr(b, end) for name, b in bounds.items()}) for end in ("worst", "best")
    ]


def _ends(record: RunRecord) -> list[tuple[str, Mapping[str, float]]]:
    ends = [("chance", record.chance_means()), ("ceiling", record.ceiling_means())]
    return [(name, means) for name, means in ends if means is not None]


def _best(measures: tuple[Measure, ...], means: list[dict[str, float]]) -> dict[str, float]:
    """Return the highest value of each measure that has a range.

    None where there is nothing to win.
    """
    if len(means) < 2:
        return {}
    ranged = [str(m) for m in measures if m.definition.high is not None and m.is_quality]
    tops = {
        name: max((mean[name] for mean in means if not math.isnan(mean[name])), default=math.nan)
        for name in ranged
    }
    return {name: top for name, top in tops.items() if any(mean[name] != top for mean in means)}


def _values(
    record: RunRecord,
    values: Mapping[str, float],
    percent: bool,
    best: Mapping[str, float] | None = None,
) -> Iterator[Cell]:
    for measure in record.scored().measures:
        value = values[str(measure)]
        yield Cell(value, _kind(measure, percent), (best or {}).get(str(measure)) == value)


def query_table(records: list[RunRecord], percent: bool) -> Table:
    """Return a row for each query of each run, and the mean over all queries below them."""

    def rows_of(scores: Scores) -> Iterator[tuple[list[Cell], Mapping[str, float]]]:
        names = list(map(str, scores.measures))
        for query, values in zip(scores.query_ids, scores.values.T.tolist(), strict=True):
            yield [Cell(query)], dict(zip(names, values, strict=True))
        mean = scores.mean()
        yield [Cell(f"all ({mean.average})")], mean

    return _table_by_run(records, ("query",), rows_of, percent)


def group_table(records: list[RunRecord], by: str, percent: bool) -> Table:
    """Return for each run the means over queries and over groups, and the groups, with n."""

    def rows_of(scores: Scores) -> Iterator[tuple[list[Cell], Mapping[str, float]]]:
        micro, macro = scores.mean(), scores.mean(by=by)
        yield [Cell("micro (over queries)"), Cell(micro.n, "count")], micro
        yield [Cell("macro (over groups)"), Cell(macro.n, "count")], macro
        for name, values in macro.groups.items():
            yield [Cell(name), Cell(macro.sizes[name], "count")], values

    return _table_by_run(records, (by, "n"), rows_of, percent)


def _table_by_run(
    records: list[RunRecord],
    head: tuple[str, ...],
    rows_of: Callable[[Scores], Iterable[tuple[list[Cell], Mapping[str, float]]]],
    percent: bool,
) -> Table:
    """Return rows of values for each run; the name of the run leads where there are several."""
    run = ("run",) if len(records) > 1 else ()
    rows = tuple(
        (*(Cell(record.name) for _ in run), *front, *_values(record, values, percent))
        for record in records
        for front, values in rows_of(record.scored())
    )
    return Table((*run, *head, *map(str, records[0].scored().measures)), rows)
