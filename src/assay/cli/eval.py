"""`assay eval`: scores of runs against judgments; `assay.evaluate` for files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from assay.arrays import numbers_or_none
from assay.cli import options, output
from assay.measures import parse_many
from assay.report.trec_layout import trec_layout
from assay.runs import tables
from assay.runs.record import RunRecord
from assay.runs.run_files import group_records, score_run_files

if TYPE_CHECKING:
    from assay.cli.saving import Saving
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
@click.option(
    "--n-docs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Size of the collection; goes with --chance.",
)
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
    with output.working_on("reading and scoring …", qrels, *runs):
        records = score_run_files(
            runs, qrels, _wanted(names, rel), conventions=rules, n_docs=n_docs
        )
    column = None
    if by is not None:
        records, column = group_records(records, by)
    saving.keep(records, options.group_file(by))
    output.narrate_remarks(records)
    if layout == "trec":
        _print_trec(records[0], names, per_query, file)
    elif layout == "json":
        output.put(output.as_json(_as_data(records, qrels, column, per_query)), file)
    else:
        _print_table(records, column, layout, file, per_query=per_query, percent=percent)


def _wanted(names: tuple[str, ...], rel: float | None) -> tuple[Measure, ...]:
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


def _print_trec(one: RunRecord, names: tuple[str, ...], per_query: bool, file: str | None) -> None:
    header = any(name.strip().lower() in ("official", "all_trec") for name in names)
    run_id = one.provenance["tag"] or one.name
    text = trec_layout(one.scored(), run_id=run_id, per_query=per_query, header=header)
    output.put(text, file)
    output.narrate(one.scored().signature)


def _as_data(
    records: list[RunRecord], qrels: str, by: str | None, per_query: bool
) -> dict[str, Any]:
    return {
        "command": "eval",
        "signature": records[0].scored().signature,
        "qrels": qrels,
        "runs": [_run_data(one, by, per_query=per_query) for one in records],
    }


def _run_data(one: RunRecord, by: str | None, *, per_query: bool) -> dict[str, Any]:
    data = one.scored().to_dict(per_query=per_query)
    del data["schema_version"], data["signature"]
    for key, means in (("chance", one.chance_means()), ("ceiling", one.ceiling_means())):
        if means is not None:
            data[key] = numbers_or_none(means)
    if by is not None:
        macro = one.scored().mean(by=by)
        data["by"] = {
            "column": by,
            "average": macro.average,
            "measures": numbers_or_none(macro),
            "groups": {name: numbers_or_none(values) for name, values in macro.groups.items()},
        }
    path, tag = one.provenance["file"], one.provenance["tag"] or one.name
    return {"name": one.name, "path": path, "tag": tag, **data}


def _print_table(
    records: list[RunRecord],
    by: str | None,
    layout: str,
    file: str | None,
    *,
    per_query: bool,
    percent: bool,
) -> None:
    if per_query:
        table = tables.query_table(records, percent)
    elif by is not None:
        table = tables.group_table(records, by, percent)
    elif len(records) == 1 and layout == "text":
        table = tables.measure_table(records[0], percent)
    else:
        table = tables.run_table(records, percent)
    title = tables.title(records, percent) if layout == "text" else ""
    signature = records[0].scored().signature
    output.show([table], layout=layout, file=file, signature=signature, title=title)
