"""`assay explain`: Explain one query: its value step by step, or what each system retrieved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.options import open_store
from assay.cli.progress import system_bars
from assay.inspect.explain import explain
from assay.io.collections import load_collection
from assay.io.formats import as_ranking
from assay.measures import parse_many
from assay.models import EmbeddingCache
from assay.runs.run_files import unique_names
from assay.tasks.bench.config import make_request, read_config
from assay.tasks.bench.explain import explain_bench, explain_rankings, explain_runs

if TYPE_CHECKING:
    from assay.inspect.explain import Explanation
    from assay.tasks.bench.explain import Answers

__all__ = ["command"]


@click.command("explain", cls=Command)
@click.argument("runs", nargs=-1, metavar="[RUN|BENCH.TOML]...")
@click.option("-r", "--qrels", metavar="QRELS", help="The judgments.")
@click.option("--query", required=True, metavar="ID", help="The query.")
@click.option("-m", "--measure", metavar="NAME", help="Of one run: the measure. [nDCG@10]")
@click.option(
    "--corpus",
    metavar="PATH",
    help="Show what each run retrieved, with the texts of these documents.",
)
@click.option("--queries", metavar="FILE", help="With --corpus: the texts of the queries.")
@click.option(
    "--saved",
    is_flag=True,
    help="Runs of the store by number, as 'assay bench --save' stored them; without a "
    "number, the newest bench.",
)
@options.store_option
@click.option(
    "-n",
    "--places",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of documents of each system. [10]",
)
@options.consent_options("BENCH.TOML")
@options.conventions_options
@options.rel_option
@options.mismatch_option
@options.result_options("text", "json", named=False)
def command(*, runs: tuple[str, ...], layout: str, file: str | None, **chosen: Any) -> int:
    """Explain one query: its value step by step, or what each system retrieved.

    Of one run, each line has a rank, its document and grade, what it adds and the sum so far; then
    the ideal and the division. The result is compared with that of 'assay eval', to the last bit;
    the mean over all orders of tied documents (--ties expected) to 12 digits.

    Of a bench, of runs with --corpus, and of runs that 'assay bench --save' stored: where each
    system ranks the relevant documents, and what it retrieved instead, with judgments and texts.

    \b
    Examples:
      assay explain dense.run --qrels qrels.txt --query q07
      assay explain coarse.run -r qrels.txt --query q07 -m AP --ties best
      assay explain bench.toml --query q:textwrap.dedent
      assay bench bench.toml --runs runs --save
      assay explain --saved --query q:textwrap.dedent
      assay explain runs/bm25.run runs/tfidf.run --corpus docs.jsonl --queries queries.jsonl \\
          -r qrels.tsv --query q:textwrap.dedent
    """
    _refuse_contradictions(runs, chosen)
    output.refuse_input(file, *runs, chosen["qrels"], chosen["corpus"], chosen["queries"])
    if not (chosen["saved"] or chosen["corpus"] or runs[0].endswith(".toml")):
        found = _explain_value(runs[0], chosen)
        output.emit(found, layout, file, terminal=_print_explanation)
        return 0 if found.agrees else 1
    if chosen["saved"]:
        answers = _explain_stored(runs, chosen)
    elif runs[0].endswith(".toml"):
        answers = _explain_config(runs, chosen)
    else:
        answers = _explain_files(runs, chosen)
    output.emit(answers, layout, file, terminal=_print_answers)
    return 0


def _print_explanation(found: Explanation) -> None:
    from assay.report.terminal import print_explanation

    print_explanation(found)


def _print_answers(answers: Answers) -> None:
    from assay.cli.bench.terminal import print_answers

    print_answers(answers)


def _refuse_contradictions(runs: tuple[str, ...], chosen: dict[str, Any]) -> None:
    if chosen["store"] and not chosen["saved"]:
        raise click.UsageError("--store goes with --saved: runs are then taken from the store.")
    if chosen["saved"]:
        return
    if not runs:
        raise click.UsageError("Name a run, a bench.toml, or use --saved for stored runs.")
    if len(runs) > 1 and not chosen["corpus"]:
        raise click.UsageError(
            "One run is worked out at a time; to see what several retrieved, give --corpus too."
        )
    if chosen["places"] and not (chosen["corpus"] or runs[0].endswith(".toml")):
        raise click.UsageError("--places goes with --corpus or a bench.toml.")
    if chosen["queries"] and not chosen["corpus"]:
        raise click.UsageError("--queries goes with --corpus.")


def _explain_value(run: str, chosen: dict[str, Any]) -> Explanation:
    if chosen["qrels"] is None:
        raise click.UsageError("Missing option '-r' / '--qrels': the judgments.")
    measure = chosen["measure"] or "nDCG@10"
    wanted = options.apply_threshold(parse_many(measure), chosen["rel"])
    if len(wanted) != 1:
        raise click.UsageError(f"{measure!r} stands for several measures; name one of them.")
    return explain(
        run,
        chosen["qrels"],
        query=chosen["query"],
        measure=wanted[0],
        conventions=chosen["rules"],
        allow_mismatch=chosen["allow_mismatch"],
    )


def _explain_config(runs: tuple[str, ...], chosen: dict[str, Any]) -> Answers:
    """Run the bench again; its vectors are in the cache."""
    if len(runs) > 1:
        raise click.UsageError("Explain one bench.toml at a time.")
    request = make_request(read_config(runs[0]), **chosen["consent"].as_options())
    output.note_inputs(*request.files)
    collection = request.load()
    with system_bars() as progress:
        result = request.run(
            collection, cache=EmbeddingCache(tell=output.narrate), progress=progress
        )
    return explain_bench(result, chosen["query"], places=chosen["places"] or 10)


def _explain_files(runs: tuple[str, ...], chosen: dict[str, Any]) -> Answers:
    collection = load_collection(chosen["corpus"], chosen["queries"], chosen["qrels"])
    names = unique_names(runs)
    rankings = {
        name: as_ranking(run, chosen["rules"]) for name, run in zip(names, runs, strict=True)
    }
    places = chosen["places"] or 10
    return explain_rankings(collection, rankings, chosen["query"], places=places)


def _explain_stored(runs: tuple[str, ...], chosen: dict[str, Any]) -> Answers:
    with open_store(chosen["store"]) as store:
        if runs:
            found = [store.run(run) for run in runs]
        else:
            newest = store.runs(task="bench", status="finished", limit=1)
            batch = newest[0].batch if newest else ""
            found = store.runs(task="bench", status="finished", batch=batch)[::-1]
        return explain_runs(found, chosen["query"])
