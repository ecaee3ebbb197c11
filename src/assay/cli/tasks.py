"""`assay tasks`: Compare systems on many tasks: means, ranks and Borda counts, and how sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.comparison.tables import MOST_PAIRS
from assay.comparison.task_pages import task_data_table
from assay.comparison.task_values import MISSING
from assay.comparison.tasks import UNITS, TaskComparison
from assay.errors import StorageError
from assay.runs.many_tasks import compare_tasks

if TYPE_CHECKING:
    from assay.tables.page import Page
    from assay.tables.table import Table

__all__ = ["command"]

_FILTERS = ("model", "name", "tag", "since", "until")


@click.command("tasks", cls=Command)
@click.argument("sources", nargs=-1, metavar="[TABLE|FOLDER...]")
@click.option(
    "--units",
    type=click.Choice(UNITS),
    default=None,
    show_default="queries; tasks, where only means are known",
    help="What is resampled. queries: who is better on these tasks? tasks: on tasks like these?",
)
@click.option(
    "--missing",
    type=click.Choice(MISSING),
    default="refuse",
    show_default=True,
    help="Systems without a value on some task.",
)
@click.option(
    "--only", multiple=True, metavar="TASK", help="Only this task. May be repeated. [all]"
)
@click.option(
    "--split",
    default="test",
    show_default=True,
    metavar="NAME",
    help="The split of results of mteb.",
)
@click.option(
    "--language",
    "languages",
    multiple=True,
    metavar="CODE",
    help="Only subsets of results of mteb in this language, such as eng. May be repeated.",
)
@click.option(
    "-m",
    "--measure",
    metavar="NAME",
    help="The measure of stored runs. [the first that all have]",
)
@options.level_option
@options.resamples_option
@options.seed_option
@options.store_option
@click.option("--model", metavar="NAME", help="Only stored runs of this model.")
@click.option("--name", metavar="NAME", help="Only stored runs of this name.")
@click.option("--tag", multiple=True, metavar="TAG", help="Only stored runs with all these tags.")
@click.option("--since", metavar="DATE", help="Only stored runs from this day on (UTC).")
@click.option("--until", metavar="DATE", help="Only stored runs up to this day.")
@options.result_options("text", "markdown", "latex", "csv", "tsv", "json")
def command(
    *,
    sources: tuple[str, ...],
    measure: str | None,
    store: str | None,
    layout: str,
    file: str | None,
    **chosen: Any,
) -> None:
    """Compare systems on many tasks: means, ranks and Borda counts, and how sure.

    Each task weighs the same. TABLE is a file with the columns system, task, query and value (CSV,
    TSV, JSON, JSONL or parquet); without the queries, values are means of tasks. FOLDER holds
    results of mteb, <model>/<revision>/<task>.json. Without either, the finished runs of the store
    are compared: their datasets are the tasks, their names the systems.

    Means alone allow to resample tasks, not queries; fewer than 6 tasks then decide nothing.

    \b
    Examples:
      assay tasks values.csv
      assay tasks values.csv --units tasks --format latex
      assay tasks results/ --language eng --missing drop-system
      assay eval dense.run lexical.run -r qrels.txt --save --dataset demo --tag final
      assay tasks --store assay.db --tag final -m nDCG@10
    """
    filters = {key: chosen.pop(key) for key in _FILTERS}
    output.refuse_input(file, *sources)
    if not sources and not store and not any(filters.values()):
        _refuse_nothing()
    if sources:
        _refuse_store_options(store, filters)
        result = compare_tasks(sources, measure=measure, **chosen)
    else:
        result = _compare_stored(store, filters, measure=measure, **chosen)
    if layout in ("text", "markdown", "latex") and len(result.pairs) > MOST_PAIRS:
        output.narrate(
            f"{len(result.pairs):,} pairs are too many to list; --format csv or json has them"
        )
    output.emit(_Tasks(result), layout, file)


def _refuse_nothing() -> None:
    """Nothing is named: there is a store at the usual place, or say what could be named."""
    try:
        with options.open_store(None):
            pass
    except StorageError as error:
        raise click.UsageError(f"Name a table, or a folder of results of mteb. {error}") from None


def _refuse_store_options(store: str | None, filters: dict[str, Any]) -> None:
    given = [key for key, value in {"store": store, **filters}.items() if value]
    if given:
        raise click.UsageError(f"--{given[0]} is for stored runs, but files are named. Do one.")


def _compare_stored(store: str | None, filters: dict[str, Any], **chosen: Any) -> TaskComparison:
    with options.open_store(store) as opened:
        runs = opened.runs(status="finished", **filters)[::-1]
        if not runs:
            raise click.UsageError(
                f"{opened.database.location} holds no such finished run. Name a table or a folder, "
                "or save runs with --save --dataset NAME."
            )
        return compare_tasks(runs, **chosen)


@dataclass(frozen=True)
class _Tasks:
    """The result, whose CSV has the pairs."""

    found: TaskComparison

    @property
    def signature(self) -> str:
        return self.found.signature

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.found.remarks

    def table(self) -> Table:
        return task_data_table(self.found)

    def page(self) -> Page:
        return self.found.page()

    def to_dict(self) -> dict[str, Any]:
        return self.found.to_dict()
