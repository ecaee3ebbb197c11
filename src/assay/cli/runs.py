"""`assay runs`: List, show, compare, tag, export and repeat the runs that --save stored."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from assay import store as run_store
from assay.cli import options, output
from assay.cli.commands import CommandGroup
from assay.cli.main import assay
from assay.cli.options import open_store
from assay.cli.repeating import StoredCommand
from assay.cli.saving import repeated_batch
from assay.comparison.alignment import cluster_settings
from assay.comparison.compare import compare as compare_scores
from assay.core.on_demand import OnDemand
from assay.core.text import printable
from assay.errors import StorageError, UsageError
from assay.io.fingerprints import fingerprints
from assay.io.streams import split_array
from assay.measures import parse_many
from assay.store.query import read_query
from assay.store.run import names_of, refuse_other_query_sets

if TYPE_CHECKING:
    from assay.core.consent import Consent
    from assay.integrations import cards
    from assay.store import Run, Store
    from assay.tables.page import Page
    from assay.tasks.descriptors import compare as descriptors
else:
    cards = OnDemand("assay.integrations.cards")
    descriptors = OnDemand("assay.tasks.descriptors.compare")

__all__ = ["command"]

_STATUSES = ("running", "finished", "failed")
_filter_options = options.add_options(
    options.filter_options,
    click.option("--status", type=click.Choice(_STATUSES), help="Only in this state."),
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
@options.measures_option("Show these measures; only runs that have the first.")
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="The newest N.")
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
    from assay.store.tables import list_data, list_table

    wanted = [str(one) for one in parse_many(measures)] if measures else []
    filters |= {"measure": wanted[0] if wanted else None, "limit": limit}
    with open_store(store) as opened:
        runs = opened.summaries(measures=wanted, **filters)
        place = str(opened.database.location)
    if not runs and layout != "json":
        output.narrate(f"no such runs in {place}")
    result = output.TableResult(list_table(runs, wanted), {"runs": list_data(runs)})
    output.emit(result, layout, file, brief=False)


@command.command("show")
@click.argument("run")
@click.option("-q", "--per-query", is_flag=True, help="A row for each query.")
@click.option(
    "--query",
    metavar="ID",
    help="Only this query: its values and, if stored, its text and results.",
)
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
    """Show one run: what it is, its numbers, how they came about; or one of its queries.

    RUN is its number, or 8 or more letters of its uid.

    \b
    Examples:
      assay eval *.run -r qrels.txt --save --dataset demo
      assay runs show 1
      assay runs show 1 --per-query -o run-1.json
    """
    if query is not None and per_query:
        raise click.UsageError("--query and --per-query exclude each other.")
    with open_store(store) as opened:
        found = opened.run(run)
        result = _StoredRun(found, per_query) if query is None else read_query(found, query)
        output.emit(result, layout, file, brief=False)


@dataclass(frozen=True)
class _StoredRun:
    """One run, with a row for each query or without."""

    run: Run
    per_query: bool

    def page(self) -> Page:
        from assay.store.tables import run_page

        return run_page(self.run, per_query=self.per_query)

    def to_dict(self) -> dict[str, Any]:
        from assay.store.tables import run_data

        return {"run": run_data(self.run, per_query=self.per_query)}


@command.command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...")
@options.measures_option("A measure that all runs have. May be repeated. [all of them]")
@click.option("-b", "--baseline", metavar="RUN", help="Compare with this run only.")
@options.test_option
@options.correction_option
@options.level_option
@options.resamples_option
@options.seed_option
@click.option(
    "--by",
    metavar="COLUMN",
    help="Clusters of dependent queries: this stored column. [that of the runs]",
)
@click.option(
    "--slices", metavar="COLUMN", help="Compare also in each slice of the queries by this column."
)
@click.option("--force", is_flag=True, help="Also if the runs answer different questions.")
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
        found = list({run.id: run for run in map(opened.run, keys)}.values())
        if len(found) < 2:
            raise click.UsageError("There is one run; a comparison needs two.")
        if not force:
            refuse_other_query_sets(found)
        names = names_of(found)
        base = next(
            (i for i, run in enumerate(found) if baseline and run.id == opened.run(baseline).id),
            None,
        )
        scores = [run.scores() for run in found]
    if settings["by"] is None:
        settings |= cluster_settings(
            (run.clusters, own) for run, own in zip(found, scores, strict=True)
        )
    called = descriptors.field_names(scores) if {run.task for run in found} == {"matching"} else {}
    stored = {name: key for key, name in called.items()}
    measures = tuple(stored.get(one, one) for one in measures)
    first, second, *more = scores
    result = compare_scores(
        first,
        second,
        *more,
        names=names,
        measures=parse_many(measures) if measures else None,
        baseline=None if base is None else names[base],
        **settings,
    )
    output.emit(result.called(called), layout, file)


@command.command("tag")
@click.argument("run")
@click.argument("tags", nargs=-1, required=True, metavar="TAG...")
@click.option("--remove", is_flag=True, help="Take the tags away.")
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
@click.argument("run")
@click.argument("text")
@options.store_option
def note(*, run: str, text: str, store: str | None) -> None:
    """Write the notes of a run; they replace the old ones.

    \b
    Examples:
      assay eval *.run -r qrels.txt --save --dataset demo
      assay runs note 1 'scores rounded to whole numbers'
    """
    with open_store(store) as opened:
        opened.note(run, text)


@command.command("delete")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.store_option
def delete(*, runs: tuple[str, ...], yes: bool, store: str | None) -> None:
    """Delete runs with all their values.

    \b
    Examples:
      assay eval *.run -r qrels.txt --save --dataset demo
      assay runs delete 1 2 --yes
    """
    with open_store(store) as opened:
        found = [opened.run(run) for run in runs]
        if not yes:
            names = ", ".join(f"{run.id} ({printable(run.name)})" for run in found)
            click.confirm(f"Delete {names}?", abort=True, err=True)
        opened.delete(*(run.id for run in found))
    output.narrate(f"deleted: {len(found)}")


@command.command("export")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@_filter_options
@options.store_option
@options.write_option(
    ".json holds all of a run; .csv and .parquet the values of every query.", required=True
)
@click.option(
    "--format",
    "named",
    type=click.Choice(["model-card"]),
    help="The means of one model as the head of its card on Hugging Face.",
)
def export(
    *, runs: tuple[str, ...], store: str | None, file: str, named: str | None, **filters: Any
) -> None:
    """Write runs to a file: those named, or all that pass the filters.

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
                f"No such runs in {opened.database.location}: nothing is written."
            )
        if named is not None:
            found = opened.runs(**filters)
            output.put(cards.model_card(found).rstrip(), file)
            number = len(found)
        else:
            number = opened.export(file, **filters)
    output.narrate(f"exported: {number}")


@command.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.store_option
def import_(*, files: tuple[str, ...], store: str | None) -> None:
    """Take over runs from exported files; runs that are here already stay as they are.

    \b
    Examples:
      assay eval *.run -r qrels.txt --save --dataset demo
      assay runs export -o runs.json
      assay runs import runs.json --store other.db
    """
    with run_store.open(store) as opened:
        for file in files:
            new = opened.load(file)
            output.narrate(f"{file}: imported {len(new)}")


@command.command("check")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@options.store_option
@options.result_options("text", "json")
def check(*, runs: tuple[str, ...], store: str | None, layout: str, file: str | None) -> int:
    """Check that runs are as they were stored: digests, checksums, means of their values.

    A line for each damage; the exit code is 1 if there is any.

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
@click.argument("run")
@click.option("--yes", is_flag=True, help="Also if the run was imported, or writes files.")
@options.consent_options("The stored command")
@options.store_option
def rerun(*, run: str, yes: bool, consent: Consent, store: str | None) -> int:
    """Run the command of a run again and compare the values.

    The results are saved as new runs. The exit code is 1 if any value differs. A stored command
    may be a stranger's: it runs code and reaches endpoints only with the options below.

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
        raise UsageError(f"Run {run.id} was not saved by a command: there is nothing to repeat.")
    address = _address(store)
    with _change_folder(run.folder):
        _refuse_untrusted(run, consent, trusted)
        changed = _find_changed(run)
        for file in changed:
            output.narrate(f"{file} has changed since run {run.id}")
        _call([*run.command, "--save", "--store", address], run.batch, consent)
    old = {one.name: one for one in store.runs(batch=run.batch, status="finished")}
    newest = store.runs(rerun_of=run.batch, limit=1)
    new = store.runs(batch=newest[0].batch, status="finished") if newest else []
    same = [_compare_values(old[one.name], one) for one in reversed(new) if one.name in old]
    return 0 if same and all(same) else 1


def _refuse_untrusted(run: Run, consent: Consent, trusted: bool) -> None:
    """What is stored is data, and may come from anybody's file."""
    stored = StoredCommand(run.command)
    words = shlex.join(("assay", *run.command))
    if run.origin and not trusted:
        raise UsageError(
            f"Run {run.id} was imported from {run.origin}. Its command reads and may write files: "
            f"{words}. Repeat it with --yes if you trust it."
        )
    written = stored.writes()
    if written and not trusted:
        raise UsageError(
            f"The command of run {run.id} writes {', '.join(written)}: {words}. Repeat it with "
            "--yes if these may be replaced."
        )
    stored.check(consent, f"The command of run {run.id}")
    output.narrate(f"repeating: {words}")


def _address(store: Store) -> str:
    location = store.database.location
    if location.url is not None:
        return location.url.render_as_string(hide_password=False)
    return os.path.abspath(str(location.file))


@contextlib.contextmanager
def _change_folder(folder: str) -> Iterator[None]:
    if folder and not os.path.isdir(folder):
        raise StorageError(f"The folder of the run, {folder}, is not there any more.")
    with contextlib.chdir(folder or "."):
        yield


def _find_changed(run: Run) -> list[str]:
    files = [file for file in run.data if os.path.isfile(split_array(file)[0])]
    now = fingerprints(files)
    return [file for file, mark in run.data.items() if now.get(file) != mark]


def _call(arguments: list[str], batch: str, consent: Consent) -> None:
    tokens = repeated_batch.set(batch), options.repeated_consent.set(consent)
    try:
        with contextlib.suppress(click.exceptions.Exit):
            assay.main(arguments, "assay", standalone_mode=False)
    finally:
        repeated_batch.reset(tokens[0])
        options.repeated_consent.reset(tokens[1])


def _compare_values(old: Run, new: Run) -> bool:
    left, right = old.scores(), new.scores()
    same = (
        left.measures == right.measures
        and left.query_ids == right.query_ids
        and left.values.tobytes() == right.values.tobytes()
    )
    if same:
        output.narrate(f"{new.name}: run {new.id} has the same values as run {old.id}, bit by bit")
        return True
    if left.measures == right.measures and left.query_ids == right.query_ids:
        apart = np.nanmax(np.abs(left.values - right.values), initial=0.0)
        output.narrate(f"{new.name}: run {new.id} differs from run {old.id} by up to {apart:.3g}")
    else:
        output.narrate(f"{new.name}: run {new.id} has other measures or queries than {old.id}")
    return False
