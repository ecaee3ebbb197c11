"""`assay rank`: vectors in, a run out; `assay.engine.rank` for files."""

from __future__ import annotations

import click

from assay.cli import output

__all__ = ["command"]

_FORMATS = ("trec", "csv", "tsv", "json", "jsonl", "parquet", "npz")


@click.command("rank")
@click.argument("queries", metavar="QUERIES")
@click.argument("docs", metavar="DOCS")
@click.option("-o", "--output", "target", required=True, help="The run to write.")
@click.option("-k", default=100, show_default=True, help="Documents for each query.")
@click.option(
    "--metric",
    type=click.Choice(["cosine", "dot", "l2"]),
    default="cosine",
    show_default=True,
    help="l2 scores are minus the squared distance.",
)
@click.option("--query-ids", help="Text file with an id per line; by default rows are numbered.")
@click.option("--doc-ids", help="Text file with an id per line; by default rows are numbered.")
@click.option("--exclude-self", is_flag=True, help="A query never finds the document of its id.")
@click.option("--keep-ties", is_flag=True, help="Keep all documents that tie with the k-th.")
@click.option(
    "--zero",
    type=click.Choice(["error", "drop", "last"]),
    default="error",
    show_default=True,
    help="All-zero vectors under cosine.",
)
@click.option("--threads", type=int, help="By default all cores.")
@click.option("--engine", type=click.Choice(["native", "numpy"]), help="Same bytes from both.")
@click.option("--to", "target_format", type=click.Choice(_FORMATS), help="If not as named.")
@click.option("--tag", default="assay", show_default=True, help="Last column of a TREC run.")
def command(
    *,
    queries: str,
    docs: str,
    target: str,
    k: int,
    metric: str,
    query_ids: str | None,
    doc_ids: str | None,
    exclude_self: bool,
    keep_ties: bool,
    zero: str,
    threads: int | None,
    engine: str | None,
    target_format: str | None,
    tag: str,
) -> None:
    """Find the exact best documents of each query and write them as a run.

    QUERIES and DOCS are .npy or .npz files of vectors (float16, float32, float64 or integers);
    a .npz may hold ids. Files larger than memory are read in windows. Scores are the exact ones,
    rounded to float64: the same bytes on every machine.

    \b
    Examples:
      assay rank queries.npy docs.npy -k 100 -o run.txt
      assay rank q.npz d.npz --metric dot --exclude-self -o run.parquet
    """
    from assay.cli.progress import progress_bar
    from assay.engine import rank
    from assay.io.writers import write_run

    output.refuse_input(target, queries, docs, query_ids, doc_ids)
    sides = [_side(queries, query_ids, "query"), _side(docs, doc_ids, "doc")]
    with progress_bar("searching") as progress:
        ranking = rank(
            sides[0][0],
            sides[1][0],
            k,
            metric=metric,  # type: ignore[arg-type]
            exclude="self" if exclude_self else None,
            query_ids=sides[0][1],
            doc_ids=sides[1][1],
            keep_ties=keep_ties,
            zero=zero,  # type: ignore[arg-type]
            threads=threads,
            engine=engine,  # type: ignore[arg-type]
            progress=progress,
        )
    write_run(ranking, target, format=target_format, tag=tag)
    output.narrate(f"{target}: {ranking.n_queries} queries, {len(ranking.docs)} results")


def _side(path: str, ids: str | None, side: str) -> tuple[object, object]:
    """Vectors of one side, and its ids where there are any."""
    from assay.io.vector_files import read_ids, read_vectors

    if path.lower().endswith(".npy"):
        return path, None if ids is None else read_ids(ids, side)
    found = read_vectors(path, side)
    return found.vectors, found.ids if ids is None else read_ids(ids, side)
