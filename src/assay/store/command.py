"""List, show, compare, tag, export and repeat the runs that --save stored."""

from __future__ import annotations

import contextlib
import os
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from assay import store as run_store
from assay.cli import options, output
from assay.cli.commands import CommandGroup
from assay.cli.main import assay
from assay.cli.options import open_store
from assay.cli.output import repeated_batch
from assay.cli.repeating import StoredCommand
from assay.cli.settings import argument, option
from assay.core.on_demand import OnDemand
from assay.core.text import printable
from assay.errors import StorageError, UsageError
from assay.io.streams import split_array
from assay.plugins import find_hook, find_hooks

if TYPE_CHECKING:
    from assay.comparison.alignment import cluster_settings
    from assay.comparison.compare import compare as compare_scores
    from assay.core.specs import Consent
    from assay.io.fingerprints import fingerprints
    from assay.measures import parse_many
    from assay.runs.record import names_of
    from assay.store import Run, Store, tables
    from assay.store.run import refuse_other_query_sets
    from assay.tables.table import Page, Table, columns_of
else:
    tables = OnDemand("assay.store.tables")
    Table = OnDemand("assay.tables.table").Table
    columns_of = OnDemand("assay.tables.table").columns_of
    cluster_settings = OnDemand("assay.comparison.alignment").cluster_settings
    compare_scores = OnDemand("assay.comparison.compare").compare
    fingerprints = OnDemand("assay.io.fingerprints").fingerprints
    parse_many = OnDemand("assay.measures").parse_many
    names_of = OnDemand("assay.runs.record").names_of
    refuse_other_query_sets = OnDemand("assay.store.run").refuse_other_query_sets


_STATUSES = ("running", "finished", "failed")
_OFFER: Final = "assay.store.completion:offer_runs"
_run_argument = argument("run", offers=_OFFER)
_some_runs = argument("runs", nargs=-1, metavar="[RUN...]", offers=_OFFER)
_filter_options = options.add_options(
    options.filter_options,
    options.in_store("--status", choices=_STATUSES, help="Run status."),
)


@click.group("runs", cls=CommandGroup)
def command() -> None:
    """List, show, compare, tag, export and repeat the runs that --save stored.

    \b
    Examples:
      assay eval dense.run lexical.run -r qrels.txt --save --dataset demo
      assay runs list --dataset demo -m nDCG@10
      assay runs compare 1 2
    """


@command.command("list")
@_filter_options
@options.measures_option("Measures to show; only runs with the first.")
@options.in_store("-n", "--limit N", least=1, help="Maximum number of runs, newest first.")
@options.store_option
@options.result_options("text", "markdown", "csv", "tsv", "json", brief=False)
def list_(
    *,
    measures: tuple[str, ...],
    limit: int | None,
    store: str | None,
    layout: str,
    file: str | None,
    **filters: Any,
) -> None:
    """List runs, newest first.

    \b
    Examples:
      assay eval *.run -r qrels.txt --save --dataset demo
      assay runs list
      assay runs list --dataset demo -m nDCG@10 --format csv
      assay runs list --since 2026-01-01 -n 5 --json
    """
    names = [str(measure) for measure in parse_many(measures)] if measures else []
    filters |= {"measure": names[0] if names else None, "limit": limit}
    with open_store(store) as opened:
        runs = opened.summaries(measures=names, **filters)
        place = str(opened.database.location)
    if not runs and layout != "json":
        output.log(f"No matching runs in {place}.")
    result = _RunTable(tables.list_table(runs, names), {"runs": tables.list_data(runs)})
    output.emit(result, layout, file, brief=False)


class _RunTable(output.TableResult):
    """Runs for people: id, name and first value come first, and stay on a narrow terminal."""

    def page(self) -> Page:
        if not output.on_terminal():  # scripts count on the order of the columns
            return super().page()
        number, began, status, task, dataset, name, queries, *measures, tags = range(
            len(self.content.columns)
        )
        front = [number, name, *measures[:1]]
        rest = [status, dataset, began, *measures[1:], queries, task, tags]
        table = columns_of(self.content, front + rest)
        # A text column in front is repeated where the table is broken.
        rows = tuple(
            (replace(row[0], value=row[0].text, kind="text"), *row[1:]) for row in table.rows
        )
        return [Table(table.columns, rows, n_optional=len(rest))]


@command.command("show")
@_run_argument
@options.in_result("-q", "--per-query", is_flag=True, help="One row per query.")
@options.in_measures("--query ID", help="Query to show: values, text and results.")
@options.store_option
@options.result_options("text", "markdown", "json", brief=False)
def show(
    *,
    run: str,
    per_query: bool,
    query: str | None,
    store: str | None,
    layout: str,
    file: str | None,
) -> None:
    """Show one run (settings, values, method), or one of its queries.

    RUN is its number, or at least 8 letters of its uid.

    \b
    Examples:
      assay eval *.run -r qrels.txt --save --dataset demo
      assay runs show 1
      assay runs show 1 --per-query -o run-1.json
    """
    if query is not None and per_query:
        raise click.UsageError("--query and --per-query exclude each other.")
    with open_store(store) as opened:
        stored = opened.run(run)
        result: Any = _StoredRun(stored, per_query)
        if query is not None:
            result = tables.read_query(stored, query)
        output.emit(result, layout, file, brief=False)


@dataclass(frozen=True)
class _StoredRun:
    """One run, with a row for each query or without."""

    run: Run
    per_query: bool

    def page(self) -> Page:
        return tables.run_page(self.run, per_query=self.per_query)

    def to_dict(self) -> dict[str, Any]:
        return {"run": tables.run_data(self.run, per_query=self.per_query)}


@command.command("compare")
@argument("runs", nargs=-1, required=True, metavar="RUN RUN...", offers=_OFFER)
@options.measures_option("Measure of all runs. [all] May be repeated.")
@options.in_statistics("-b", "--baseline RUN", help="Baseline run.", reads=True)
@options.test_option
@options.correction_option
@options.level_option
@options.resamples_option
@options.seed_option
@options.in_statistics(
    "--by COLUMN", help="Stored column of query clusters. [as saved]", reads=True
)
@options.in_statistics("--slices COLUMN", help="Stored column of slices.", reads=True)
@options.in_search("--force", is_flag=True, help="Allow runs of different data or measures.")
@options.store_option
@options.result_options("text", "markdown", "latex", "json")
def compare(
    *,
    runs: tuple[str, ...],
    measures: tuple[str, ...],
    baseline: str | None,
    force: bool,
    store: str | None,
    layout: str,
    file: str | None,
    **settings: Any,
) -> None:
    """Compare stored runs: which is better, by how much, and how sure is that?

    \b
    Examples:
      assay eval *.run -r qrels.txt --save --dataset demo
      assay runs compare 1 2 3 -m nDCG@10
      assay runs compare 2 -b 1 --json
    """
    keys = [*runs, *([baseline] if baseline else [])]
    with open_store(store) as opened:
        stored_runs = list({run.id: run for run in map(opened.run, keys)}.values())
        if len(stored_runs) < 2:
            raise click.UsageError("A comparison needs two runs. Name another.")
        if not force:
            refuse_other_query_sets(stored_runs)
        names = names_of(stored_runs)
        by_id = dict(zip([run.id for run in stored_runs], names, strict=True))
        base = by_id[opened.run(baseline).id] if baseline else None
        scores = [run.scores() for run in stored_runs]
    if settings["by"] is None:
        settings |= cluster_settings(
            (run.clusters, values) for run, values in zip(stored_runs, scores, strict=True)
        )
    tasks = {run.task for run in stored_runs}
    named = find_hooks("measure_names") if len(tasks) == 1 else ()
    called = {key: name for hook in named for key, name in hook(*tasks, scores).items()}
    stored = {name: key for key, name in called.items()}
    measures = tuple(stored.get(measure, measure) for measure in measures)
    first, second, *more = scores
    result = compare_scores(
        first,
        second,
        *more,
        names=names,
        measures=parse_many(measures) if measures else None,
        baseline=base,
        **settings,
    )
    output.emit(result.called(called), layout, file)


@command.command("tag")
@_run_argument
@argument(
    "tags", nargs=-1, required=True, metavar="TAG...", offers="assay.store.completion:offer_tags"
)
@option("--remove", is_flag=True, help="Remove the tags.")
@options.store_option
def tag(*, run: str, tags: tuple[str, ...], remove: bool, store: str | None) -> None:
    """Tag a run.

    \b
    Examples:
      assay eval *.run -r qrels.txt --save --dataset demo
      assay runs tag 1 published main
      assay runs tag 1 main --remove
    """
    with open_store(store) as opened:
        (opened.untag if remove else opened.tag)(run, *tags)


@command.command("note")
@_run_argument
@argument("text")
@options.store_option
def note(*, run: str, text: str, store: str | None) -> None:
    """Replace the notes of a run.

    \b
    Examples:
      assay eval *.run -r qrels.txt --save --dataset demo
      assay runs note 1 'scores rounded to whole numbers'
    """
    with open_store(store) as opened:
        opened.note(run, text)


@command.command("delete")
@argument("runs", nargs=-1, required=True, metavar="RUN...", offers=_OFFER)
@option("--yes", is_flag=True, help="Delete without asking.")
@options.store_option
def delete(*, runs: tuple[str, ...], yes: bool, store: str | None) -> None:
    """Delete runs with all their values.

    \b
    Examples:
      assay eval *.run -r qrels.txt --save --dataset demo
      assay runs delete 1 2 --yes
    """
    with open_store(store) as opened:
        stored_runs = [opened.run(run) for run in runs]
        if not yes:
            names = ", ".join(f"{run.id} ({printable(run.name)})" for run in stored_runs)
            click.confirm(f"Delete {names}?", abort=True, err=True)
        opened.delete(*(run.id for run in stored_runs))
    output.log(f"deleted: {len(stored_runs)}")


@command.command("export")
@_some_runs
@_filter_options
@options.store_option
@options.write_option("Output file: .json (whole run), .csv or .parquet (values).", required=True)
@options.in_result(
    "--format",
    "named",
    choices=["model-card"],
    help="Format of the export: model-card for Hugging Face.",
    aside=True,
)
def export(
    *, runs: tuple[str, ...], store: str | None, file: str, named: str | None, **filters: Any
) -> None:
    """Export the named runs, or all that match the filters.

    \b
    Examples:
      assay eval *.run -r qrels.txt --save --dataset demo
      assay runs export 1 2 -o runs.json
      assay runs export --dataset demo -o runs.csv
    """
    with open_store(store) as opened:
        if runs:
            filters["id"] = [opened.run(run).id for run in runs]
        if not opened.summaries(limit=1, **filters):  # an old file would be lost for nothing
            raise click.UsageError(
                f"No matching runs in {opened.database.location}. Change the filters."
            )
        if named is not None:
            stored_runs = opened.runs(**filters)
            output.write(find_hook("model_card")(stored_runs).rstrip(), file)
            number = len(stored_runs)
        else:
            number = opened.export(file, **filters)
    output.log(f"exported: {number}")


@command.command("import")
@argument("files", nargs=-1, required=True, metavar="FILE...", reads=True)
@options.store_option
def import_(*, files: tuple[str, ...], store: str | None) -> None:
    """Import runs from exported files; existing runs are not changed.

    \b
    Examples:
      assay eval *.run -r qrels.txt --save --dataset demo
      assay runs export -o runs.json
      assay runs import runs.json --store other.db
    """
    with run_store.open(store) as opened:
        for file in files:
            new = opened.load(file)
            output.log(f"{file}: imported {len(new)}")


@command.command("check")
@_some_runs
@options.store_option
@options.result_options("text", "json")
def check(*, runs: tuple[str, ...], store: str | None, layout: str, file: str | None) -> int:
    """Check stored runs for damage: digests, checksums, means of values.

    Prints one line per damage; exit code 1 if there is any.

    \b
    Examples:
      assay eval *.run -r qrels.txt --save --dataset demo
      assay runs check
      assay runs check 1 2 --json
    """
    with open_store(store) as opened:
        damages, unsigned = opened.damages(*runs), opened.unsigned()
        number = len(set(runs)) or len(opened)
    summary = f"checked: {number}, damages: {len(damages)}, unsigned: {len(unsigned)}"
    data = {"checked": number, "damages": damages, "unsigned": unsigned}
    output.emit(output.TextResult("\n".join((*damages, summary)), data), layout, file)
    return 1 if damages else 0


@command.command("rerun")
@_run_argument
@option("--yes", is_flag=True, help="Rerun without asking, even imported or file-writing commands.")
@options.consent_options("the stored command")
@options.store_option
def rerun(*, run: str, yes: bool, consent: Consent, store: str | None) -> int:
    """Repeat the command of a run and compare the values.

    Saves the results as new runs. Exit code 1 if any value differs. A stored command may come from
    a stranger: it runs code and calls endpoints only with the options below.

    \b
    Examples:
      assay eval *.run -r qrels.txt --save --dataset demo
      assay runs rerun 1
    """
    with open_store(store) as opened:
        return _repeat(opened, opened.run(run), consent, trusted=yes)


def _repeat(store: Store, run: Run, consent: Consent, *, trusted: bool) -> int:
    """Repeat the command in its folder, save its runs, and compare them with the old ones.

    Gives 0 if every value has the same bits, else 1.
    """
    if not run.command:
        raise UsageError(f"Run {run.id} was not saved by a command. Choose another.")
    location = store.database.location
    address = (
        os.path.abspath(str(location.file))
        if location.url is None
        else location.url.render_as_string(hide_password=False)
    )
    if run.folder and not os.path.isdir(run.folder):
        raise StorageError(f"The run's folder {run.folder} is missing. Restore it.")
    with contextlib.chdir(run.folder or "."):
        _refuse_untrusted(run, consent, trusted)
        files = [file for file in run.data if os.path.isfile(split_array(file)[0])]
        present = fingerprints(files)
        for file, mark in run.data.items():
            if present.get(file) != mark:
                output.log(f"{file} has changed since run {run.id}")
        tokens = repeated_batch.set(run.batch), options.repeated_consent.set(consent)
        try:
            with contextlib.suppress(click.exceptions.Exit):
                repeated = [*run.command, "--save", "--store", address]
                assay.main(repeated, "assay", standalone_mode=False)
        finally:
            repeated_batch.reset(tokens[0])
            options.repeated_consent.reset(tokens[1])
    old = {earlier.name: earlier for earlier in store.runs(batch=run.batch, status="finished")}
    newest = store.runs(rerun_of=run.batch, limit=1)
    new = store.runs(batch=newest[0].batch, status="finished") if newest else []
    same = [
        _compare_values(old[earlier.name], earlier)
        for earlier in reversed(new)
        if earlier.name in old
    ]
    return 0 if same and all(same) else 1


def _refuse_untrusted(run: Run, consent: Consent, trusted: bool) -> None:
    """Refuse a command that may come from a stranger's file."""
    stored = StoredCommand(run.command)
    words = shlex.join(("assay", *run.command))
    if run.origin and not trusted:
        raise UsageError(
            f"Run {run.id} was imported from {run.origin}. Its command may write files: "
            f"{words}. Pass --yes to trust it."
        )
    written = stored.writes()
    if written and not trusted:
        raise UsageError(
            f"The command of run {run.id} writes {', '.join(written)}: {words}. Pass --yes to "
            "replace them."
        )
    stored.check(consent, f"The command of run {run.id}")
    output.log(f"repeating: {words}")


def _compare_values(old: Run, new: Run) -> bool:
    if not (old.conventions or new.conventions):  # numbers without values of queries
        same = old.aggregates == new.aggregates
        relation = "has the same numbers as" if same else "differs in numbers from"
        output.log(f"{new.name}: run {new.id} {relation} run {old.id}")
        return same
    left, right = old.scores(), new.scores()
    same = False
    if left.measures != right.measures or left.query_ids != right.query_ids:
        words = f"differs in measures or queries from run {old.id}"
    elif left.values.tobytes() == right.values.tobytes():
        same, words = True, f"equals run {old.id} bit by bit"
    else:
        import numpy as np

        apart = np.nanmax(np.abs(left.values - right.values), initial=0.0)
        words = f"differs from run {old.id} by up to {apart:.3g}"
    output.log(f"{new.name}: run {new.id} {words}")
    return same
