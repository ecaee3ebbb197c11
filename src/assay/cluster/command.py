"""Encode shards of texts into shards of vectors, for `assay rank`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.settings import argument
from assay.cluster.rank_command import open_cluster_with_bar, timings_option
from assay.core.on_demand import OnDemand
from assay.models import EncoderSettings

if TYPE_CHECKING:
    from assay.cluster import encode_shards
else:
    encode_shards = OnDemand("assay.cluster").encode_shards


@click.command("encode", cls=Command)
@argument("texts", nargs=-1, required=True, metavar="TEXTS...", reads=True)
@options.in_models(
    "-e",
    "--encoder SPEC",
    "spec",
    required=True,
    help="Text model: wordllama, st:MODEL, py:MODULE:FUNCTION, ...",
    offers="assay.models.specs:offer_models",
)
@options.in_result(
    "-o",
    "--output DIR",
    "folder",
    type=options.output_folder,
    required=True,
    help="Shared folder for the vectors.",
    writes=True,
    folder=True,
)
@options.in_models("--doc-prefix TEXT", default="", help="Prefix of every text.")
@options.cluster_options("threads, serial, auto (Ray), or Ray's address. [serial]")
@timings_option
def command(
    *,
    texts: tuple[str, ...],
    spec: str,
    folder: str,
    doc_prefix: str,
    where: str | None,
    workers: int | None,
    timings: str | None,
) -> None:
    """Encode shards of texts into shards of vectors, for `assay rank`.

    TEXTS are .jsonl files with ids, .txt files with one text per line, or quoted patterns. Writes
    part-N.npy with checksums and manifest.json to the folder. A second call makes only parts that
    are missing, damaged or made of other texts.

    \b
    Examples:
      assay encode 'corpus-*.jsonl' -e wordllama -o vectors
      assay encode 'corpus-*.jsonl' -e st:all-MiniLM-L6-v2 -o other --cluster auto # needs a network
      assay encode queries.jsonl -e wordllama -o asked
      assay rank asked/part-00000.npy vectors/manifest.json -o run.txt
    """
    settings = EncoderSettings(doc_prefix=doc_prefix)
    with open_cluster_with_bar("encoding", where, workers, timings=timings) as cluster:
        done = encode_shards(texts, spec, folder, settings=settings, cluster=cluster)
    output.log(
        f"{done.manifest}: {done.n_texts} texts, {done.made} shards encoded, {done.resumed} reused"
    )
    if done.empty:
        output.log(f"{done.empty} texts are empty and have zero vectors (see assay rank --zero)")
