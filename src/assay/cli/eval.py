"""`assay eval`: scores of runs against judgments; `assay.evaluate` for files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output

if TYPE_CHECKING:
    from assay.cli.saved import Saving
    from assay.cli.scored import ScoredRun
    from assay.measures import Measure

__all__ = ["command"]

_FORMATS = ("text", "trec", "markdown", "csv", "tsv", "json")


@click.command("eval")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@options.qrels_option
@click.option(
    "-m",
    "--measure",
    "measures",
    multiple=True,
    metavar="NAME",
    help="A measure such as nDCG@10, or a group: default, official, all_trec. May be repeated; "
    "'assay measures' lists all.",
)
@click.option("-q", "--per-query", is_flag=True, help="A row for each query.")
@click.option(
    "--by",
    metavar="FILE[:COLUMN]",
    help="Means by group: a TSV or CSV file with a query and its group in each line.",
)
@options.conventions_options
@click.option("--rel", type=float, metavar="N", help="Smallest grade that is relevant. [1]")
@click.option(
    "--chance",
    "chance_wanted",
    is_flag=True,
    help="What a random and a perfect order of the collection score; needs --n-docs.",
)
@click.option("--n-docs", type=click.IntRange(min=1), metavar="N",
              help="Size of the collection; goes with --chance.")  # fmt: skip
@click.option("--percent", is_flag=True, help="Print percentages (text and Markdown only).")
@click.option("--format", "named", type=click.Choice(_FORMATS), help="Layout of the result.")
@options.json_option
@options.output_option
@options.save_options("retrieval")
def command(
    *,
    runs: tuple[str, ...],
    qrels: str,
    measures: tuple[str, ...],
    per_query: bool,
    by: str | None,
    conventions: str,
    ties: str | None,
    empty: str | None,
    missing: str | None,
    depth: int | None,
    rel: float | None,
    chance_wanted: bool,
    n_docs: int | None,
    percent: bool,
    named: str | None,
    json_wanted: bool,
    file: str | None,
    saving: Saving,
) -> None:
    """Score one or several runs against judgments.

    Results go to stdout, remarks about them (missing queries, ties) to stderr. Several runs make
    one table with a row for each.

    \b
    Examples:
      assay eval run.txt --qrels qrels.txt
      assay eval bm25.txt dense.txt.gz -r qrels.txt -m nDCG@10 -m AP
      assay eval run.txt -r qrels.txt -q --format csv -o per-query.csv
      assay eval run.txt -r qrels.txt --by topics.tsv:category --ties expected
      assay eval run.txt -r qrels.txt -m official --format trec
      assay eval *.run -r qrels.txt --save --dataset cranfield
    """
    from assay.cli.scored import score_runs

    layout = output.chosen_format(named, json_wanted, file)
    _refuse_senseless(
        layout,
        n_runs=len(runs),
        per_query=per_query,
        by=by,
        percent=percent,
        chance_wanted=chance_wanted,
        n_docs=n_docs,
    )
    output.refuse_input(file, *runs, qrels, options.group_file(by))
    rules = options.rules_from(conventions, ties=ties, empty=empty, missing=missing, depth=depth)
    names = measures or (("official",) if layout == "trec" else ("default",))
    scored = score_runs(runs, qrels, _wanted(names, rel), rules=rules, n_docs=n_docs, by=by)
    saving.keep_scored(scored, qrels, options.group_file(by))
    for one in scored:
        for remark in one.remarks(several=len(scored) > 1):
            output.narrate(remark)
    if layout == "trec":
        _print_trec(scored[0], names, per_query, file)
    elif layout == "json":
        output.put(output.as_json(_as_data(scored, qrels, per_query)), file)
    else:
        _print_table(scored, layout=layout, file=file, per_query=per_query, percent=percent)


def _wanted(names: tuple[str, ...], rel: float | None) -> tuple[Measure, ...]:
    from assay.measures import parse_many

    return options.with_threshold(parse_many(names), rel)


def _refuse_senseless(
    layout: str,
    *,
    n_runs: int,
    per_query: bool,
    by: str | None,
    percent: bool,
    chance_wanted: bool,
    n_docs: int | None,
) -> None:
    if percent and layout not in ("text", "markdown"):
        raise click.UsageError("--percent is for text and Markdown; other formats hold fractions.")
    if layout == "trec" and (n_runs > 1 or by or chance_wanted):
        raise click.UsageError("--format trec holds one run, and neither groups nor chance.")
    if by and per_query and layout != "json":
        raise click.UsageError("--by and --per-query make two tables; ask for one, or for --json.")
    if chance_wanted and n_docs is None:
        raise click.UsageError(
            "--chance needs --n-docs, the number of documents in the collection."
        )
    if n_docs is not None and not chance_wanted:
        raise click.UsageError("--n-docs changes nothing without --chance. Add it.")
    if chance_wanted and (by or per_query) and layout != "json":
        raise click.UsageError(
            "--chance goes with means over all queries, not --by or --per-query."
        )


def _print_trec(one: ScoredRun, names: tuple[str, ...], per_query: bool, file: str | None) -> None:
    from assay.report.trec_layout import trec_layout

    header = any(name.strip().lower() in ("official", "all_trec") for name in names)
    text = trec_layout(one.scores, run_id=one.tag, per_query=per_query, header=header)
    output.put(text, file)
    output.narrate(one.scores.signature)


def _as_data(scored: list[ScoredRun], qrels: str, per_query: bool) -> dict[str, Any]:
    return {
        "command": "eval",
        "signature": scored[0].scores.signature,
        "qrels": qrels,
        "runs": [one.to_dict(per_query=per_query) for one in scored],
    }


def _print_table(
    scored: list[ScoredRun], *, layout: str, file: str | None, per_query: bool, percent: bool
) -> None:
    from assay.cli import score_tables

    if per_query:
        table = score_tables.query_table(scored, percent)
    elif scored[0].by is not None:
        table = score_tables.group_table(scored, percent)
    elif len(scored) == 1 and layout == "text":
        table = score_tables.measure_table(scored[0], percent)
    else:
        table = score_tables.run_table(scored, percent)
    title = score_tables.title(scored, percent) if layout == "text" else ""
    signature = scored[0].scores.signature
    output.show([table], layout=layout, file=file, signature=signature, title=title)
