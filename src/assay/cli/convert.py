"""`assay convert` (Tools): Write a run or judgments in another format."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.settings import argument
from assay.core.conventions import Conventions
from assay.io.streams import find_format

_AS_IN_FILE = Conventions(tiebreak="index")  # lines with equal scores keep their order


@click.command("convert", cls=Command)
@argument("source", metavar="IN", reads=True)
@argument("target", type=options.output_file, metavar="OUT", writes=True)
@options.in_input("--kind", choices=["run", "qrels"], shown="run", help="Kind of data in the file.")
@options.in_input(
    "--from",
    "source_format",
    choices=(*options.RUN_FORMATS, "npy"),
    help="Format of IN. [by its name]",
)
@options.queries_option
@options.in_result(
    "--to", "target_format", choices=options.RUN_FORMATS, help="Format of OUT. [by its name]"
)
@options.in_store(
    "--tag",
    help="Last column of a TREC run. [that of IN]",
    offers="assay.store.completion:offer_tags",
)
def command(
    *,
    source: str,
    target: str,
    kind: str,
    source_format: str | None,
    queries: str | None,
    target_format: str | None,
    tag: str | None,
) -> None:
    """Write a run or judgments in another format.

    Names ending in .gz or .zst are compressed. OUT is written atomically. Scores and grades keep
    every digit, tied lines keep their order, and TREC runs keep their ir_metadata.

    \b
    Examples:
      assay convert dense.run dense.parquet
      assay convert qrels.tsv judged.txt --kind qrels --to trec
      assay convert judged.csv qrels.txt --kind qrels --queries queries.jsonl
      assay convert dense.run dense.jsonl.gz
      assay convert dense.jsonl.gz dense.txt.zst --to trec --tag first
    """
    from assay.io.formats import read_qrels, read_run
    from assay.io.writers import choose_format, read_header, write_qrels, write_run

    output.refuse_input(target, source, queries)
    if kind == "run":
        ranking = read_run(source, format=source_format, conventions=_AS_IN_FILE, queries=queries)
        # Only a file can be read a second time.
        is_trec = Path(source).is_file() and find_format(source, source_format) == "trec"
        header = read_header(source) if is_trec else ""
        if header and choose_format(target, target_format, options.RUN_FORMATS) != "trec":
            output.log(f"{source}: ir_metadata left out, which only TREC runs can hold")
            header = ""
        write_run(ranking, target, format=target_format, tag=tag, metadata=header)
        output.log(f"{target}: {ranking.n_queries} queries, {len(ranking.docs)} results")
        return
    if tag is not None:
        raise click.UsageError("Judgments have no tag. Omit --tag.")
    judgments = read_qrels(source, format=source_format, queries=queries)
    for remark in getattr(judgments, "remarks", ()):
        output.log(remark)
    write_qrels(judgments, target, format=target_format)
    output.log(f"{target}: {judgments!r}")
