"""`assay explain`: one number worked out line by line; `assay.explain` for files."""

from __future__ import annotations

import click

from assay.cli import options, output

__all__ = ["command"]


@click.command("explain")
@click.argument("run", metavar="RUN")
@options.qrels_option
@click.option("--query", required=True, metavar="ID", help="The query.")
@click.option(
    "-m", "--measure", default="nDCG@10", show_default=True, metavar="NAME", help="The measure."
)
@options.conventions_options
@click.option("--rel", type=float, metavar="N", help="Smallest grade that is relevant. [1]")
@options.json_option
@options.output_option
def command(
    *,
    run: str,
    qrels: str,
    query: str,
    measure: str,
    conventions: str,
    ties: str | None,
    empty: str | None,
    missing: str | None,
    depth: int | None,
    rel: float | None,
    json_wanted: bool,
    file: str | None,
) -> int:
    """Work out one number of one query, line by line.

    Each line has a rank, its document and grade, what it adds and the sum so far; then the ideal
    and the division. The result is compared with that of 'assay eval', to the last bit.

    \b
    Examples:
      assay explain run.txt --qrels qrels.txt --query 301
      assay explain run.txt -r qrels.txt --query 301 -m AP --ties best
    """
    from assay.explanation import explain
    from assay.measures import parse_many

    layout = output.chosen_format(None, json_wanted, file, known=("text", "json"))
    output.refuse_input(file, run, qrels)
    rules = options.rules_from(conventions, ties=ties, empty=empty, missing=missing, depth=depth)
    wanted = options.with_threshold(parse_many(measure), rel)
    if len(wanted) != 1:
        raise click.UsageError(f"{measure!r} stands for several measures; name one of them.")
    found = explain(run, qrels, query=query, measure=wanted[0], conventions=rules)
    if layout == "json":
        output.put(output.as_json({"command": "explain", **found.to_dict()}), file)
    elif file is None and output.on_terminal():
        from assay.cli.terminal import print_explanation

        print_explanation(found)
    else:
        output.put(str(found), file)
    return 0 if found.exact else 1
