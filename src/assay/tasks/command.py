"""`assay tasks`: tables, folders of mteb, or stored runs; all of them refused or compared alike."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.settings import argument
from assay.core.on_demand import OnDemand
from assay.errors import StorageError
from assay.stats.choices import MISSING, MOST_PAIRS, UNITS

if TYPE_CHECKING:
    from assay.tasks.comparison import TaskComparison, compare_tasks
else:
    compare_tasks = OnDemand("assay.tasks.comparison").compare_tasks


_FILTERS = ("model", "name", "tag", "since", "until")


@click.command("tasks", cls=Command, verified=True)
@argument("sources", nargs=-1, metavar="[TABLE|FOLDER...]", reads=True)
@options.in_input(
    "--units",
    choices=UNITS,
    default=None,
    show_default="queries; tasks, where only means are known",
    help="Resampling unit: queries (these tasks) or tasks (tasks like these).",
)
@options.in_measures(
    "--missing",
    choices=MISSING,
    shown="refuse",
    help="Handling of systems without a value on some task.",
)
@options.in_input("--only TASK", multiple=True, help="Task to keep. May be repeated. [all]")
@options.in_input("--split NAME", shown="test", help="Split of mteb results.")
@options.in_input(
    "--language CODE",
    "languages",
    multiple=True,
    help="Language of mteb subsets to keep, such as eng. May be repeated.",
)
@options.in_measures(
    "-m",
    "--measure NAME",
    help="Measure of stored runs. [first shared]",
    offers="assay.cli.completion:offer_measures",
)
@options.level_option
@options.resamples_option
@options.seed_option
@options.store_option
@options.run_filters
@options.result_options()
def command(
    *,
    sources: tuple[str, ...],
    measure: str | None,
    store: str | None,
    layout: str,
    file: str | None,
    **settings: Any,
) -> None:
    """Compare systems on many tasks: means, ranks and Borda counts.

    All tasks have equal weight. TABLE is a file (CSV, TSV, JSON, JSONL or parquet) with the columns
    system, task, query and value; without the column query, values are task means. FOLDER holds
    mteb results, <model>/<revision>/<task>.json. Without either, compares the finished runs of the
    store: datasets are tasks, names are systems.

    Task means allow resampling of tasks only; fewer than 6 tasks then cannot show a difference.

    \b
    Examples:
      assay tasks values.csv
      assay tasks values.csv --units tasks --format latex
      assay tasks results/ --language eng --missing drop-system
      assay eval dense.run lexical.run -r qrels.txt --save --dataset demo --tag final
      assay tasks --store assay.db --tag final -m nDCG@10
    """
    filters = {key: settings.pop(key) for key in _FILTERS}
    output.refuse_input(file, *sources)
    if not sources and not store and not any(filters.values()):
        _refuse_nothing()
    if sources:
        named = [key for key, value in {"store": store, **filters}.items() if value]
        if named:
            raise click.UsageError(
                f"--{named[0]} requires stored runs, but files are named. Omit one."
            )
        result = compare_tasks(sources, measure=measure, **settings)
    else:
        result = _compare_stored(store, filters, measure=measure, **settings)
    if layout in ("text", "markdown") and len(result.pairs) > MOST_PAIRS:
        output.log(f"{len(result.pairs):,} pairs are not listed: use --format csv or json")
    report = SimpleNamespace(  # whose CSV has the pairs
        signature=result.signature,
        remarks=result.remarks,
        table=result.data_table,
        page=result.page,
        paper=result.paper,
        to_dict=result.to_dict,
    )
    output.emit(report, layout, file)


def _refuse_nothing() -> None:
    """Reject a call without input if no default store exists."""
    try:
        with options.open_store(None):
            pass
    except StorageError as error:
        raise click.UsageError(
            f"No input. Name a table or a folder of mteb results. {error}"
        ) from None


def _compare_stored(store: str | None, filters: dict[str, Any], **settings: Any) -> TaskComparison:
    with options.open_store(store) as opened:
        runs = opened.runs(status="finished", **filters)[::-1]
        if not runs:
            raise click.UsageError(
                f"{opened.database.location} has no matching finished run. Name a table or "
                "folder, or save runs with --save --dataset NAME."
            )
        return compare_tasks(runs, **settings)
