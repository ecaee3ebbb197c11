"""Write runs and their comparison as one page with charts that opens offline."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.settings import argument, option
from assay.core.on_demand import OnDemand
from assay.errors import MeasureError

if TYPE_CHECKING:
    from assay.io.columns import read_groups
    from assay.measures import Measure, parse_many
    from assay.report import report as reports
    from assay.runs import record as run_records
    from assay.runs import run_files
    from assay.runs.record import RunRecord
else:
    read_groups = OnDemand("assay.io.columns").read_groups
    parse_many = OnDemand("assay.measures").parse_many
    reports = OnDemand("assay.report.report")
    run_records = OnDemand("assay.runs.record")
    run_files = OnDemand("assay.runs.run_files")


_FORMATS = ("svg", "png", "pdf")
_FILTERS = ("task", "dataset", "model", "name", "tag", "since", "until")
_OF_FILES = ("qrels", "queries", "measures", "rel", "conventions", "n_docs", "allow_mismatch")
_CHANGES = options.CONVENTIONS


@click.command("report", cls=Command)
@argument("runs", nargs=-1, metavar="[RUN...]", reads=True)
@options.in_input("-r", "--qrels QRELS", help="The judgments, where runs are files.", reads=True)
@options.queries_option
@options.write_option("Write the report to FILE (.html, .md or .tex).", required=True)
@options.measures_option("Measure or group; the first is the headline. May be repeated.")
@option("--title TEXT", default="", help="Title of the report.", section="Result")
@options.statistics_options
@options.slices_option
@options.in_input(
    "--groups FILE[:COLUMN]",
    multiple=True,
    help="Means by group, from a file of query and group. May be repeated.",
    reads=True,
)
@options.in_input("--n-docs N", least=1, help="Size of the collection, for the random baseline.")
@options.store_option
@options.filter_options
@options.in_result(
    "--figures DIR",
    type=options.output_folder,
    help="Also write every chart to this folder.",
    writes=True,
    folder=True,
)
@options.in_result(
    "--figure-format",
    "formats",
    choices=_FORMATS,
    multiple=True,
    help="Format of the figures. [all three] May be repeated.",
)
@options.conventions_choices
@options.rel_option
@options.mismatch_option
@options.json_option
def command(
    *,
    runs: tuple[str, ...],
    file: str,
    title: str,
    baseline: str | None,
    by: str | None,
    slices: str | None,
    groups: tuple[str, ...],
    store: str | None,
    figures: str | None,
    formats: tuple[str, ...],
    json_wanted: bool,
    **settings: Any,
) -> None:
    """Write runs and their comparison as one page with charts that opens offline.

    The page holds the verdict, a leaderboard with intervals, measures by cutoff, means by group,
    differences by query, and the command that reproduces it. One run alone works too.

    RUN is a file, or the number or uid of a stored run; ./7 is a file, run:7 a stored run. Without
    RUN, --dataset, --tag, ... select stored runs. Stored runs need no rankings or judgments: the
    saved values are shown.

    \b
    Examples:
      assay report dense.run lexical.run --qrels qrels.txt -m nDCG@10 -o report.html
      assay report *.run -r qrels.txt -m nDCG@10 -m AP --n-docs 2000 -o report.html
      assay report *.run -r qrels.txt -b lexical.run -o report.html --figures figures
      assay report *.run -r qrels.txt --groups kinds.tsv:kind -o report.md
      assay eval *.run -r qrels.txt --save --dataset demo --tag final
      assay report 1 2 3 -o report.html
      assay report --dataset demo --tag final --store assay.db -o report.html
    """
    reports.check_ending(file)
    if formats and not figures:
        raise click.UsageError("--figure-format requires --figures DIR.")
    filters = {key: settings.pop(key) for key in _FILTERS}
    changes = {key: settings.pop(key) for key in _CHANGES}
    scoring = _Scoring(changes=changes, **{key: settings.pop(key) for key in _OF_FILES})
    # Texts of queries are read from the store when the page is written: it stays open until then.
    sources = click.get_current_context().with_resource(
        _find_sources(runs, baseline, filters=filters, store=store)
    )
    columns = map(options.group_file, (*groups, *filter(None, (by, slices))))
    output.refuse_input(file, *sources.files.values(), scoring.qrels, scoring.queries, *columns)
    records = scoring.read_records(sources)
    aside = [record for record in records if record.scores is None]
    if aside and len(aside) == len(records):
        path = reports.save_sections(aside, file, title=title, command=output.command_line())
        output.log(f"{path}: {path.stat().st_size / 1000:,.0f} kB")
        return
    base = None if sources.base is None else records[sources.base].name
    records = [record for record in records if record.scores is not None]
    records, column = _add_groups(records, groups, by)
    if slices is not None and not _is_stored_column(slices, records, "--slices"):
        records, slices = run_files.group_records(records, slices, without="")
    report = reports.make_report(
        records,
        title=title,
        baseline=base,
        by=column,
        slices=slices,
        command=output.command_line(),
        aside=aside,
        date=f"{date.today():%-d %B %Y}",
        **settings,
    )
    path = report.save(file)
    drawn = report.figures(figures, formats=formats or _FORMATS) if figures else []
    data = {
        "signature": report.aligned.signature,
        "output": str(path),
        "figures": list(map(str, drawn)),
        "verdicts": report.verdicts,
        "remarks": list(report.remarks),
    }
    said = ((v.headline, v.numbers, v.holes) for v in report.verdicts.values())
    text = "\n\n".join("\n".join(filter(None, lines)) for lines in said)
    result = output.TextResult(text, data)
    output.emit(result, "json" if json_wanted else "text", None)
    if not json_wanted:
        output.log(f"{path}: {path.stat().st_size / 1000:,.0f} kB")
        if drawn:
            output.log(f"{drawn[0].parent}: {len(drawn)} figures")


# Files and stored runs

_KEY: Final = re.compile(r"[0-9]{1,7}|[0-9a-f]{8,32}")  # a number, or letters of a uid
_MARK: Final = "run:"


@dataclass(frozen=True)
class _Sources:
    """Files and stored runs by name, and the place of the baseline among them."""

    items: dict[str, Any]
    base: int | None = None

    @property
    def files(self) -> dict[str, str]:
        """The files by name."""
        return {name: item for name, item in self.items.items() if isinstance(item, str)}


@contextmanager
def _find_sources(
    runs: Sequence[str], baseline: str | None, *, filters: Mapping[str, Any], store: str | None
) -> Iterator[_Sources]:
    """Find the runs; the store, if one is needed, is open inside the block."""
    criteria = {name: value for name, value in filters.items() if value}
    named = [text for text in runs if _stored_key(text) is not None]
    if not runs and not criteria and not store:
        raise click.UsageError(
            "Name the runs: files, numbers of stored runs, or a choice such as --dataset NAME."
        )
    if criteria and named:
        option = f"--{next(iter(criteria))}"
        raise click.UsageError(f"{option} chooses stored runs, but {named[0]} names one. Do one.")
    from_store = bool(criteria or named or not runs)
    if not from_store and (baseline is None or _stored_key(baseline) is None):
        if store:
            raise click.UsageError("--store requires stored runs. Omit it with files.")
        yield _add_baseline(tuple(runs), baseline, None)
        return
    with options.open_store(store) as opened:
        items = [_resolve(text, opened) for text in runs]
        if from_store and not named:
            items += _filter_runs(opened, criteria)
        yield _add_baseline(_drop_repeats(items), baseline, opened)


def _stored_key(text: str) -> str | None:
    """Return the number or uid of a stored run; None for a file."""
    if text.startswith(_MARK):
        return text.removeprefix(_MARK)
    if not _KEY.fullmatch(text):
        return None
    if os.path.exists(text):
        raise click.UsageError(
            f"{text} may be a stored run or the file of that name. Write {_MARK}{text} for the "
            f"run, ./{text} for the file."
        )
    return text


def _resolve(text: str, store: Any) -> Any:
    key = _stored_key(text)
    return text if key is None or store is None else store.run(key)


def _filter_runs(store: Any, filters: Mapping[str, Any]) -> list[Any]:
    """Return finished runs without variants of a model, a family of their own."""
    runs = store.runs(status="finished", **filters)[::-1]
    if not runs:
        raise click.UsageError(f"{store.database.location} has no matching finished run.")
    models = [run for run in runs if not run.config.get("variant_of")] or runs
    if len(models) < len(runs):
        left = len(runs) - len(models)
        output.log(f"left out: {left} variants of others; name such runs to have them compared")
    return models


def _drop_repeats(items: Sequence[Any]) -> tuple[Any, ...]:
    """Drop stored runs that are named twice."""
    return tuple({item if isinstance(item, str) else item.uid: item for item in items}.values())


def _add_baseline(items: tuple[Any, ...], baseline: str | None, store: Any) -> _Sources:
    """Add the baseline as the first run, where it is not listed."""
    named = _name_sources(items)
    if baseline is None:
        return _Sources(named)
    stored = _stored_key(baseline) is not None and baseline not in named
    base = None if stored else options.find_baseline(baseline, items, list(named))
    if base is None:
        named, base = _name_sources(_drop_repeats([_resolve(baseline, store), *items])), 0
    if len(named) < 2:
        raise click.UsageError("A --baseline needs two runs. Name another.")
    return _Sources(named, base)


def _name_sources(items: Sequence[Any]) -> dict[str, Any]:
    """Name files as briefly as possible, and stored runs by number where names clash."""
    files = [item for item in items if isinstance(item, str)]
    runs = [item for item in items if not isinstance(item, str)]
    file_names = run_files.unique_names(files) if files else []
    of_files = iter(file_names)
    of_runs = iter(
        f"{run.name} #{run.id}" if run.name in file_names else name
        for run, name in zip(runs, run_records.names_of(runs), strict=True)
    )
    return {next(of_files if isinstance(item, str) else of_runs): item for item in items}


@dataclass(frozen=True)
class _Scoring:
    """How files are scored: as the stored runs were, unless options say otherwise."""

    qrels: str | None
    queries: str | None
    measures: tuple[str, ...]
    rel: float | None
    conventions: str
    changes: Mapping[str, Any]
    n_docs: int | None
    allow_mismatch: bool

    def read_records(self, sources: _Sources) -> list[RunRecord]:
        """Return all runs in their order; score the files."""
        self._refuse_idle_options(sources)
        stored = self._read_stored(sources)
        scored = [record for record in stored.values() if record.scores is not None]
        first = scored[0] if scored else None
        if first is None or options.is_typed("conventions"):
            rules = options.make_conventions(self.conventions, **self.changes)
        else:
            rules = first.scored().conventions.replace(**self.changes)
        measures = self._choose_measures(scored)
        records = {name: _select_measures(run, measures) for name, run in stored.items()}
        if self.qrels is not None:
            of_files = run_files.score_run_files(
                list(sources.files.values()),
                self.qrels,
                measures,
                names=list(sources.files),
                conventions=rules,
                n_docs=self.n_docs,
                keep_hits=True,
                checksums=True,
                allow_mismatch=self.allow_mismatch,
                queries=self.queries,
            )
            records |= {record.name: record for record in of_files}
        return [records[name] for name in sources.items]

    def _refuse_idle_options(self, sources: _Sources) -> None:
        """Refuse options without effect on stored runs, and files without judgments."""
        if sources.files:
            if self.qrels is None:
                file = next(iter(sources.files.values()))
                raise click.UsageError(
                    f"{file} is a file, and files need judgments: --qrels QRELS."
                )
            return
        values = {
            "--qrels": self.qrels,
            "--queries": self.queries,
            "--n-docs": self.n_docs,
            "--ties": self.changes["ties"],
            "--depth": self.changes["depth"],
            "--conventions": options.is_typed("conventions"),
            "--allow-mismatch": self.allow_mismatch,
            "--rel": None if self.measures else self.rel,
        }
        idle = [name for name, value in values.items() if value]
        if idle:
            raise click.UsageError(
                f"{idle[0]} is for files; stored runs keep what they were scored with. "
                "Leave it out."
            )

    def _read_stored(self, sources: _Sources) -> dict[str, RunRecord]:
        """Read stored runs by name; options change how means treat empty queries."""
        of_means = {key: self.changes[key] for key in ("empty", "missing")}
        records = {}
        for name, run in sources.items.items():
            if isinstance(run, str):
                continue
            records[name] = record = run.record().replace(name=name)
            if record.scores is not None:
                rules = record.scores.conventions.replace(**of_means)
                records[name] = record.replace(scores=replace(record.scores, conventions=rules))
        return records

    def _choose_measures(self, stored: list[RunRecord]) -> tuple[Measure, ...]:
        """Return the named measures, else those that all stored runs have, else nDCG@10."""
        if stored and not self.measures:
            return run_records.shared_measures([run.scored() for run in stored])
        return options.apply_threshold(parse_many(self.measures or ("nDCG@10",)), self.rel)


def _select_measures(run: RunRecord, measures: tuple[Measure, ...]) -> RunRecord:
    if run.scores is None:
        return run
    try:
        return run.replace(scores=run_records.only_measures(run.scored(), measures))
    except MeasureError as error:
        raise MeasureError(f"{run.provenance['stored run']} {run.name!r}: {error}") from None


def _add_groups(
    records: list[RunRecord], groups: tuple[str, ...], by: str | None
) -> tuple[list[RunRecord], str | None]:
    """Return the runs with their group columns, and the column to test by."""
    queries = records[0].scored().query_ids
    grouped = dict(read_groups(source, queries) for source in groups)
    tested = by if by and _is_stored_column(by, records) else None
    if by and tested is None:
        tested, labels = read_groups(by, queries)
        grouped[tested] = labels
    return [run.replace(scores=run.scored().with_groups(**grouped)) for run in records], tested


def _is_stored_column(column: str, records: list[RunRecord], option: str = "--by") -> bool:
    """Check that an option names a column of all runs; refuse what may be a file, too."""
    stored = all(column in run.scored().groups for run in records)
    if stored and os.path.exists(column):
        raise click.UsageError(
            f"{option} {column} may be a stored column or the file of that name. Write ./{column} "
            "for the file."
        )
    return stored
