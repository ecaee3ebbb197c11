"""Fuse several runs into one by reciprocal ranks or scores."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.settings import argument, option
from assay.core.on_demand import OnDemand

if TYPE_CHECKING:
    from assay.io.formats import read_run
    from assay.io.writers import write_run
    from assay.search.fusion import Method, Normalization, fuse
else:
    read_run = OnDemand("assay.io.formats").read_run
    write_run = OnDemand("assay.io.writers").write_run
    fuse = OnDemand("assay.search.fusion").fuse

_model_option = partial(option, section="Models", show_default=True)


@click.command("fuse", cls=Command)
@argument("runs", metavar="RUN...", nargs=-1, required=True, reads=True)
@options.write_option("Run file to write.", "target", required=True)
@_model_option(
    "--method",
    type=click.Choice(["rrf", "combsum", "combmnz"]),
    default="rrf",
    help="Fusion method: reciprocal ranks or sums of scores.",
)
@_model_option(
    "--normalize",
    type=click.Choice(["minmax", "zscore", "none"]),
    default="minmax",
    help="Normalization of the scores of each query; rrf needs none.",
)
@_model_option(
    "-w",
    "--weight",
    "weights",
    type=float,
    multiple=True,
    metavar="X",
    help="Weight of a run, in order. May be repeated.",
)
@_model_option(
    "--rrf-k",
    type=click.IntRange(min=0),
    metavar="N",
    default=60,
    help="Constant of rrf, added to ranks.",
)
@option(
    "--depth",
    type=click.IntRange(min=1),
    metavar="N",
    help="Documents to keep for each query.",
    section="Measures and conventions",
)
@options.mismatch_option
@options.target_format_option
@option(
    "--tag",
    help="Last column of a TREC run. [the method]",
    section="Store",
    offers="assay.store.completion:offer_tags",
)
@options.ir_metadata_option
def command(
    *,
    runs: tuple[str, ...],
    target: str,
    method: str,
    normalize: str,
    weights: tuple[float, ...],
    rrf_k: int,
    depth: int | None,
    allow_mismatch: bool,
    target_format: str | None,
    tag: str | None,
    ir_metadata: str | None,
) -> None:
    """Fuse several runs into one by reciprocal ranks or scores.

    Queries and documents are joined by id. A run adds nothing to documents that it did not
    retrieve. The order of the runs does not matter.

    \b
    Examples:
      assay fuse dense.run lexical.run -o both.run
      assay fuse dense.run lexical.run --method combsum --normalize zscore -w 0.7 -w 0.3 -o both.run
    """
    output.refuse_input(target, *runs, ir_metadata)
    read = [read_run(run) for run in runs]
    metadata = options.describe_method(
        ir_metadata,
        name=method,
        tag=tag or method,
        interpolates=[ranking.name for ranking in read],
        weights=list(weights) or None,
    )
    fused = fuse(
        read,
        method=cast("Method", method),
        normalize=None if normalize == "none" else cast("Normalization", normalize),
        weights=weights or None,
        rrf_k=rrf_k,
        depth=depth,
        allow_mismatch=allow_mismatch,
    )
    write_run(fused, target, format=target_format, tag=tag or method, metadata=metadata)
    output.log(f"{target}: {fused.n_queries} queries, {len(fused.docs)} results")
