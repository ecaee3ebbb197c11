"""`assay runs`: List, show, compare, tag, export and repeat the runs that --save stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from assay.cli import options, output
from assay.cli.options import filter_options, open_store
from assay.cli.rerun import rerun as repeated
from assay.comparison.clusters import drawn_together
from assay.comparison.compare import compare as compared
from assay.comparison.tables import comparison_page
from assay.core.text import printable
from assay.measures import parse_many
from assay.store.query import stored_query
from assay.store.run import names_of, refuse_other_query_sets
from assay.tables import page as pages
from assay.tables.table import as_csv

if TYPE_CHECKING:
    from assay.store.query import StoredQuery
    from assay.tables.page import Page

__all__ = ["command"]

Command = TypeVar("Command", bound=Callable[..., Any])

_FORMATS = ("text", "markdown", "csv", "tsv", "json")
_PAGES = ("text", "markdown", "json")
_COMPARISONS = ("text", "markdown", "latex", "json")
_STATUSES = ("running", "finished", "failed")


def _filters(command: Command) -> Command:
    """Which runs are meant."""
    status = click.option("--status", type=click.Choice(_STATUSES), help="Only in this state.")
    return filter_options(status(command))


@click.group("runs")
def command() -> None:
    """List, show, compare, tag, export and repeat the runs that --save stored.

    \b
    Examples:
      assay eval bm25.txt -r qrels.txt --save --dataset cranfield
      assay runs list --dataset cranfield -m nDCG@10
      assay runs compare 3 4
    """


@command.command("list")
@_filters
@click.option(
    "-m",
    "--measure",
    "measures",
    multiple=True,
    metavar="NAME",
    help="Show these measures; only runs that have the first.",
)
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="The newest N.")
@options.store_option
@click.option("--format", "named", type=click.Choice(_FORMATS), help="Layout of the result.")
@options.json_option
@options.output_option
def list_(
    *,
    measures: tuple[str, ...],
    limit: int | None,
    store: str | None,
    named: str | None,
    json_wanted: bool,
    file: str | None,
    **filters: Any,
) -> None:
    """List runs, newest first."""
    from assay.store import tables

    layout = output.choose_format(named, json_wanted, file)
    wanted = [str(one) for one in parse_many(measures)] if measures else []
    filters |= {"measure": wanted[0] if wanted else None, "limit": limit}
    with open_store(store) as opened:
        runs = opened.lines(measures=wanted, **filters)
        where = str(opened.database.location)
    if layout == "json":
        output.put(output.as_json({"command": "runs list", "runs": tables.list_data(runs)}), file)
        return
    if not runs:
        output.narrate(f"no such runs in {where}")
    table = tables.list_table(runs, wanted)
    if layout in ("csv", "tsv"):
        output.put(as_csv(table, "\t" if layout == "tsv" else ","), file)
    else:
        _print([table], layout, file)


@command.command("show")
@click.argument("run")
@click.option("-q", "--per-query", is_flag=True, help="A row for each query.")
@click.option(
    "--query",
    metavar="ID",
    help="Only this query: its values and, if stored, its text and results.",
)
@options.store_option
@click.option("--format", "named", type=click.Choice(_PAGES), help="Layout of the result.")
@options.json_option
@options.output_option
def show(
    *,
    run: str,
    per_query: bool,
    query: str | None,
    store: str | None,
    named: str | None,
    json_wanted: bool,
    file: str | None,
) -> None:
    """Show one run: what it is, its numbers, how they came about; or one of its queries.

    RUN is its number, or 8 or more letters of its uid.
    """
    from assay.store import tables

    if query is not None and per_query:
        raise click.UsageError("--query and --per-query exclude each other.")
    layout = output.choose_format(named, json_wanted, file, known=_PAGES)
    with open_store(store) as opened:
        found = opened.run(run)
        if query is not None:
            _show_query(stored_query(found, query), layout, file)
        elif layout == "json":
            data = tables.run_data(found, per_query=per_query)
            output.put(output.as_json({"command": "runs show", "run": data}), file)
        else:
            _print(tables.run_page(found, per_query=per_query), layout, file)


def _show_query(found: StoredQuery, layout: str, file: str | None) -> None:
    if layout == "json":
        output.put(output.as_json({"command": "runs show", **found.to_dict()}), file)
    else:
        _print(found.page(), layout, file)


def _print(page: Page, layout: str, file: str | None) -> None:
    if layout == "text" and file is None and output.on_terminal():
        from assay.report.terminal import print_page

        print_page(page)
        return
    write = {"text": pages.text_page, "markdown": pages.markdown_page, "latex": pages.latex_page}
    output.put(write[layout](page), file)


@command.command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...")
@click.option(
    "-m",
    "--measure",
    "measures",
    multiple=True,
    metavar="NAME",
    help="A measure that all runs have. May be repeated. [all of them]",
)
@click.option("-b", "--baseline", metavar="RUN", help="Compare with this run only.")
@click.option(
    "--test",
    default="randomisation",
    show_default=True,
    metavar="NAME",
    help="As in 'assay compare'.",
)
@click.option(
    "--correction", default="holm", show_default=True, metavar="NAME", help="As in 'assay compare'."
)
@click.option(
    "--level",
    type=float,
    default=0.05,
    show_default=True,
    metavar="A",
    help="Chance of a false claim.",
)
@click.option(
    "--resamples",
    type=click.IntRange(min=100),
    default=10_000,
    show_default=True,
    metavar="N",
    help="How often to draw.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N")
@click.option(
    "--by",
    metavar="COLUMN",
    help="Draw and test whole groups of this stored column. [what the runs are drawn by]",
)
@click.option("--force", is_flag=True, help="Also if the runs answer different questions.")
@options.store_option
@click.option("--format", "named", type=click.Choice(_COMPARISONS), help="Layout of the result.")
@options.json_option
@options.output_option
def compare(
    *,
    runs: tuple[str, ...],
    measures: tuple[str, ...],
    baseline: str | None,
    force: bool,
    store: str | None,
    named: str | None,
    json_wanted: bool,
    file: str | None,
    **settings: Any,
) -> None:
    """Compare stored runs: which is better, by how much, and how sure is that?"""
    layout = output.choose_format(named, json_wanted, file, known=_COMPARISONS)
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
        settings |= drawn_together(
            (run.clusters, own) for run, own in zip(found, scores, strict=True)
        )
    first, second, *more = scores
    result = compared(
        first,
        second,
        *more,
        names=names,
        measures=parse_many(measures) if measures else None,
        baseline=None if base is None else names[base],
        **settings,
    )
    if layout == "json":
        output.put(output.as_json({"command": "runs compare", **result.to_dict()}), file)
    else:
        _print(comparison_page(result), layout, file)


@command.command("tag")
@click.argument("run")
@click.argument("tags", nargs=-1, required=True, metavar="TAG...")
@click.option("--remove", is_flag=True, help="Take the tags away.")
@options.store_option
def tag(*, run: str, tags: tuple[str, ...], remove: bool, store: str | None) -> None:
    """Tag a run."""
    with open_store(store) as opened:
        (opened.untag if remove else opened.tag)(run, *tags)


@command.command("note")
@click.argument("run")
@click.argument("text")
@options.store_option
def note(*, run: str, text: str, store: str | None) -> None:
    """Write the notes of a run; they replace the old ones."""
    with open_store(store) as opened:
        opened.note(run, text)


@command.command("delete")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.store_option
def delete(*, runs: tuple[str, ...], yes: bool, store: str | None) -> None:
    """Delete runs with all their values."""
    with open_store(store) as opened:
        found = [opened.run(run) for run in runs]
        if not yes:
            names = ", ".join(f"{run.id} ({printable(run.name)})" for run in found)
            click.confirm(f"Delete {names}?", abort=True, err=True)
        opened.delete(*(run.id for run in found))
    output.narrate(f"deleted: {len(found)}")


@command.command("export")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@_filters
@options.store_option
@click.option(
    "-o",
    "--output",
    "file",
    required=True,
    metavar="FILE",
    help=".json holds all of a run; .csv and .parquet the values of every query.",
)
def export(*, runs: tuple[str, ...], store: str | None, file: str, **filters: Any) -> None:
    """Write runs to a file: those named, or all that pass the filters."""
    with open_store(store) as opened:
        if runs:
            filters["id"] = [opened.run(run).id for run in runs]
        if not opened.lines(limit=1, **filters):  # a file from yesterday would be lost for nothing
            raise click.UsageError(
                f"No such runs in {opened.database.location}: nothing is written."
            )
        number = opened.export(file, **filters)
    output.narrate(f"exported: {number}")


@command.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.store_option
def import_(*, files: tuple[str, ...], store: str | None) -> None:
    """Take over runs from exported files; runs that are here already stay as they are."""
    import assay.store

    with assay.store.open(store) as opened:
        for file in files:
            new = opened.load(file)
            output.narrate(f"{file}: imported {len(new)}")


@command.command("rerun")
@click.argument("run")
@click.option("--yes", is_flag=True, help="Also if the run was imported from a file.")
@options.store_option
def rerun(*, run: str, yes: bool, store: str | None) -> int:
    """Run the command of a run again and compare the values.

    The results are saved as new runs. The exit code is 1 if any value differs.
    """
    with open_store(store) as opened:
        return repeated(opened, opened.run(run), trusted=yes)
