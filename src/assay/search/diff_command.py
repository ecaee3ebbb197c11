"""Show what changed between two runs, without judgments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.gating import GateAnswer
from assay.cli.settings import argument, option
from assay.core.on_demand import OnDemand

if TYPE_CHECKING:
    from assay.cli.output import Saving
    from assay.runs.run_files import unique_names
    from assay.search import diff as diffs
else:
    unique_names = OnDemand("assay.runs.run_files").unique_names
    diffs = OnDemand("assay.search.diff")

_STORED = "run:"


@click.command("diff", cls=Command, verified=True)
@argument("old", metavar="OLD", reads=True)
@argument("new", metavar="NEW", reads=True)
@options.in_measures(
    "-k", "--k N", "k", least=1, multiple=True, default=(10,), help="Cutoff of the overlap."
)
@options.in_measures("--depth N", least=1, shown=100, help="Ranks of each list to compare.")
@options.in_measures("--p P", type=float, shown=0.9, help="Persistence of RBO.")
@options.in_input("-r", "--qrels QRELS", help="Judgments, to compare both runs.", reads=True)
@options.measures_option("Measure to score with -r. [nDCG@10] May be repeated.")
@options.in_input("--queries FILE", help="Ids and texts of the queries.", reads=True)
@options.slices_option
@options.in_result("--moved N", least=1, shown=10, help="Number of moved queries to list.")
@options.level_option
@options.resamples_option
@options.seed_option
@options.mismatch_option
@option(
    "--fail-if-overlap-below",
    "limit",
    type=click.FloatRange(0, 1),
    metavar="X",
    help="Exit with 1 if mean overlap is below X.",
    section="Gate",
)
@options.result_options()
@options.save_options("diff")
def command(
    *,
    old: str,
    new: str,
    measures: tuple[str, ...],
    limit: float | None,
    layout: str,
    file: str | None,
    saving: Saving,
    **settings: Any,
) -> int:
    """Show what changed between two runs, without judgments.

    Prints overlap of the top documents, RBO, the first changed rank, documents that appeared or
    vanished, and the queries that changed most. OLD and NEW are run files, or stored runs such as
    run:7. With -r, tells whether the change helped.

    \b
    Examples:
      assay diff dense.run lexical.run
      assay diff dense.run coarse.run -k 10 -k 50 --slices kinds.tsv:kind
      assay diff dense.run coarse.run -r qrels.txt --json
      assay diff coarse.run dense.run --fail-if-overlap-below 0.2
    """
    if measures and settings["qrels"] is None:
        raise click.UsageError("-m requires -r: measures need judgments.")
    runs = (old, new)
    inputs = [path for path in runs if not path.startswith(_STORED)]
    groups = options.group_file(settings["slices"])
    output.refuse_input(file, *inputs, settings["qrels"], settings["queries"], groups)
    lists = [_read_stored(run) for run in runs]
    settings |= {"names": unique_names(runs), "measures": measures or ("nDCG@10",)}
    result = diffs.diff(*lists, **settings)
    stored = [
        f"{run} is stored to rank {max(map(len, each.values()))}: lower ranks are not compared"
        for run, each in zip(runs, lists, strict=True)
        if isinstance(each, dict)
    ]
    result = replace(result, remarks=(*result.remarks, *stored))
    saving.save([result.record()], *inputs, settings["qrels"], settings["queries"], groups)
    answer = _check_overlap(result, limit)
    output.emit(replace(result, gate=answer.to_dict()), layout, file)
    return answer.exit_code()


def _read_stored(run: str) -> Any:
    """Return a path as it is, and the results that a stored run holds as {query: {doc: score}}."""
    if not run.startswith(_STORED):
        return run
    with options.open_store(click.get_current_context().params.get("store")) as store:
        results = store.run(run.removeprefix(_STORED)).all_results()
        lists = {
            query: {doc.doc: doc.score for doc in each.results if doc.score is not None}
            for query, each in results.items()
        }
    if not lists:
        raise click.UsageError(f"{run} holds no documents. Pass its run file.")
    return lists


def _check_overlap(result: diffs.RunDiff, limit: float | None) -> GateAnswer:
    if limit is None:
        return GateAnswer()
    name, mean = next(iter(result.means["all"].items()))
    below = f"mean {name} {mean.estimate:.4f} is below {limit:g}"
    passed = f"mean {name} {mean.estimate:.4f} is at least {limit:g}"
    return GateAnswer([below] if mean.estimate < limit else [], shown=passed)
