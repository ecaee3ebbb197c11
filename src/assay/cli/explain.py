"""`assay explain` (Evaluate): Explain the value of one query, or what systems retrieved for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.settings import argument
from assay.core.on_demand import OnDemand
from assay.plugins import find_hook

if TYPE_CHECKING:
    from assay.cli import terminal
    from assay.inspect.explain import Explanation, explain
    from assay.measures import parse_many
else:
    terminal = OnDemand("assay.cli.terminal")
    explain = OnDemand("assay.inspect.explain").explain
    parse_many = OnDemand("assay.measures").parse_many


@click.command("explain", cls=Command, verified=True)
@argument("runs", nargs=-1, metavar="[RUN|BENCH.TOML]...", reads=True)
@options.in_input("-r", "--qrels QRELS", help="Judgments (qrels).", reads=True)
@options.in_measures("--query ID", required=True, help="Query id.")
@options.in_measures(
    "-m",
    "--measure NAME",
    help="Measure of a single run. [nDCG@10]",
    offers="assay.cli.completion:offer_measures",
)
@options.in_input(
    "--corpus PATH",
    help="Document texts, shown with what each run retrieved.",
    reads=True,
    allow="assay.io.texts:allow_corpus",
)
@options.in_input(
    "--extension .EXT",
    "extensions",
    multiple=True,
    help="Further file extension to read in --corpus folders.",
)
@options.in_input("--queries FILE", help="Query texts.", reads=True)
@options.in_input("--saved", is_flag=True, help="Stored runs by number. [the newest bench]")
@options.store_option
@options.in_measures("-n", "--places N", least=1, help="Number of documents of each system. [10]")
@options.consent_options("BENCH.TOML")
@options.conventions_options
@options.rel_option
@options.mismatch_option
@options.result_options("text", "json", named=False)
def command(*, runs: tuple[str, ...], layout: str, file: str | None, **settings: Any) -> int:
    """Explain the value of one query, or what systems retrieved for it.

    For one run: every rank with its document, grade, gain and running sum, then the ideal and the
    division. The result is checked against 'assay eval' to the last bit (to 12 digits with --ties
    expected).

    For a bench, runs with --corpus, or runs stored by 'assay bench --save': where each system
    ranks the relevant documents and what it retrieved instead, with judgments and texts.

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
    _refuse_contradictions(runs, settings)
    output.refuse_input(file, *runs, settings["qrels"], settings["corpus"], settings["queries"])
    if not (settings["saved"] or settings["corpus"] or runs[0].endswith(".toml")):
        explanation = _explain_value(runs[0], settings)
        output.emit(explanation, layout, file, terminal=terminal.print_explanation)
        return 0 if explanation.agrees else 1
    answers, print_answers = find_hook("explain_systems")(runs, settings)
    output.emit(answers, layout, file, terminal=print_answers)
    return 0


def _refuse_contradictions(runs: tuple[str, ...], settings: dict[str, Any]) -> None:
    if settings["store"] and not settings["saved"]:
        raise click.UsageError("--store requires --saved.")
    if settings["saved"]:
        return
    if not runs:
        raise click.UsageError("Name a run, a bench.toml, or use --saved for stored runs.")
    if len(runs) > 1 and not settings["corpus"]:
        raise click.UsageError("explain derives the value of one run. Name one, or add --corpus.")
    if settings["places"] and not (settings["corpus"] or runs[0].endswith(".toml")):
        raise click.UsageError("--places requires --corpus or a bench.toml.")
    if settings["extensions"] and not settings["corpus"]:
        raise click.UsageError("--extension requires --corpus.")


def _explain_value(run: str, settings: dict[str, Any]) -> Explanation:
    if settings["qrels"] is None:
        raise click.UsageError("Missing option '-r' / '--qrels'. Name the judgments.")
    measure = settings["measure"] or "nDCG@10"
    measures = options.apply_threshold(parse_many(measure), settings["rel"])
    if len(measures) != 1:
        raise click.UsageError(f"{measure!r} stands for several measures. Name one of them.")
    return explain(
        run,
        settings["qrels"],
        query=settings["query"],
        measure=measures[0],
        conventions=settings["rules"],
        allow_mismatch=settings["allow_mismatch"],
        queries=settings["queries"],
    )
