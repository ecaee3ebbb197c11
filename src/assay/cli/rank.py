"""`assay rank`: Find the exact best documents of each query and write them as a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from assay.cli import output
from assay.cli.options import store_option
from assay.cli.progress import progress_bar
from assay.cli.saving import saving_runs
from assay.cli.shard_rank import Sharded, is_sharded, shard_options
from assay.cluster import Shard, open_shards
from assay.core.ids import Ids
from assay.io.vectors import read_ids, read_vectors
from assay.io.writers import write_run
from assay.runs import tables
from assay.runs.record import RunRecord
from assay.runs.run_files import unique_names
from assay.scoring.evaluate import evaluate
from assay.search.engine import rank

if TYPE_CHECKING:
    from assay.cluster import Journal, SampledRecall
    from assay.core.ranking import Ranking

__all__ = ["command"]

_FORMATS = ("trec", "csv", "tsv", "json", "jsonl", "parquet", "npz")
_SAMPLE = 1000  # queries of a sample, where none is stated


@click.command("rank")
@click.argument("queries", metavar="QUERIES")
@click.argument("docs", metavar="DOCS")
@click.option("-o", "--output", "target", help="The run to write.")
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
@shard_options
@click.option(
    "--sample", type=click.IntRange(min=1), metavar="N", help="Search for N random queries only."
)
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="With --sample. [0]")
@click.option(
    "--recall-of",
    metavar="RUN",
    help="Estimate the recall of an approximate run from --sample exact neighbours.",
)
@click.option("-r", "--qrels", metavar="QRELS", help="Score the run against these judgments.")
@click.option(
    "-m",
    "--measure",
    "measures",
    multiple=True,
    metavar="NAME",
    help="With --qrels: a measure such as nDCG@10. May be repeated.",
)
@click.option("--save", is_flag=True, help="With --qrels: store the scores as a run.")
@store_option
@click.option("--dataset", metavar="NAME", help="With --save: what it was run on.")
def command(
    *,
    queries: str,
    docs: str,
    target: str | None,
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
    where: str | None,
    workers: int | None,
    checkpoint: str | None,
    dry_run: bool,
    query_block: int | None,
    in_flight: int | None,
    timings: str | None,
    sample: int | None,
    seed: int | None,
    recall_of: str | None,
    qrels: str | None,
    measures: tuple[str, ...],
    save: bool,
    store: str | None,
    dataset: str | None,
) -> None:
    """Find the exact best documents of each query and write them as a run.

    QUERIES and DOCS are .npy or .npz files of vectors (float16, float32, float64 or integers);
    a .npz may hold ids. Files larger than memory are read in windows. Scores are the exact ones,
    rounded to float64: the same bytes on every machine.

    DOCS may also be shards: a pattern in quotes, or a manifest (.json) of .npy, .npz, .parquet or
    .safetensors files, searched here or on a cluster with the same bytes.

    \b
    Examples:
      assay rank queries.npy docs.npy -k 100 -o run.txt
      assay rank q.npz d.npz --metric dot --exclude-self -o run.parquet
      assay rank queries.npy 'docs-*.npy' --cluster auto --dry-run
      assay rank queries.npy docs.json --cluster auto --checkpoint ck -o run.txt
      assay rank queries.npy docs.json -k 10 --sample 500 --recall-of ann.txt
      assay rank queries.npy docs.json -r qrels.txt -m nDCG@10 --cluster auto --save
    """
    _refuse_senseless(
        target or qrels, dry_run=dry_run, recall_of=recall_of, sample=sample, seed=seed
    )
    if qrels is None and (save or measures):
        raise click.UsageError("--save and -m go with --qrels, against which the run is scored.")
    if dry_run and save:
        raise click.UsageError("--dry-run searches nothing, so there is nothing to --save.")
    output.refuse_input(target, queries, docs, query_ids, doc_ids, recall_of, qrels)
    output.refuse_same_file(target, timings)
    how: dict[str, Any] = {
        "metric": metric,
        "exclude": "self" if exclude_self else None,
        "keep_ties": keep_ties,
        "zero": zero,
    }
    given = {
        "checkpoint": checkpoint,
        "query_block": query_block,
        "in_flight": in_flight,
        "threads": threads,
        "engine": engine,
    }
    settings = {key: value for key, value in given.items() if value is not None}
    extras = (where, workers, checkpoint, dry_run, query_block, in_flight, timings, sample)
    with saving_runs("retrieval", wanted=save, store=store, dataset=dataset, tags=()) as saving:
        vectors, ids = _side(queries, query_ids, "query")
        journal = None
        if is_sharded(docs, *extras, recall_of):
            request = Sharded(
                vectors, ids, _shards(docs, doc_ids), k, how, where, workers, settings, timings
            )
            if dry_run:
                output.put(request.plan(), None)
                return
            ranking, journal = _on_shards(request, recall_of, sample, seed or 0)
        else:
            ranking = _ranked(vectors, ids, _side(docs, doc_ids, "doc"), k, threads, engine, how)
        _write(ranking, target, target_format, tag)
        if qrels is not None:
            record = _scored(ranking, qrels, measures or ("default",), target)
            config = {} if journal is None else {"cluster": journal.to_dict()}
            saving.keep([record.but(files=(queries, docs, qrels), config=config)])
            _print_scores(record)


def _on_shards(
    request: Sharded, recall_of: str | None, sample: int | None, seed: int
) -> tuple[Ranking, Journal]:
    """Search all queries or a sample; the recall of another run is told where it is asked for."""
    if recall_of is None:
        return (request if sample is None else request.sampled(sample, seed)).ranking()
    found, journal = request.recall_of(recall_of, sample or _SAMPLE, seed)
    output.put(_recall_in_words(found, recall_of), None)
    return found.exact, journal


def _refuse_senseless(
    target: str | None,
    *,
    dry_run: bool,
    recall_of: str | None,
    sample: int | None,
    seed: int | None,
) -> None:
    if target is None and not dry_run and recall_of is None:
        raise click.UsageError("Missing option '-o' / '--output': the run to write.")
    if dry_run and recall_of is not None:
        raise click.UsageError("--dry-run and --recall-of exclude each other.")
    if seed is not None and sample is None and recall_of is None:
        raise click.UsageError("--seed changes nothing without --sample. Add it.")


def _shards(docs: str, doc_ids: str | None) -> Any:
    shards = open_shards(docs)
    if doc_ids is None:
        return shards
    if len(shards) > 1 or docs.lower().endswith(".json"):
        raise click.UsageError(
            "--doc-ids is for one file; shards bring their ids, or a manifest names them."
        )
    return [Shard(shards[0].path, ids=doc_ids)]


def _ranked(
    queries: Any,
    query_ids: Any,
    docs: tuple[Any, Any],
    k: int,
    threads: int | None,
    engine: Any,
    how: dict[str, Any],
) -> Ranking:
    with progress_bar("searching") as progress:
        return rank(
            queries,
            docs[0],
            k,
            query_ids=query_ids,
            doc_ids=docs[1],
            threads=threads,
            engine=engine,
            progress=progress,
            **how,
        )


def _write(ranking: Ranking, target: str | None, target_format: str | None, tag: str) -> None:
    if target is None:
        return
    write_run(ranking, target, format=target_format, tag=tag)
    output.narrate(f"{target}: {ranking.n_queries} queries, {len(ranking.docs)} results")


def _recall_in_words(found: SampledRecall, run: str) -> str:
    ends = f"[{found.low:.4f}, {found.high:.4f}]"
    return (
        f"R@{found.k} of {run}: {found.estimate:.4f} {ends} ({found.level * 100:g} %, "
        f"{found.method}), from exact neighbours of {len(found.values)} of {found.n_queries} "
        f"queries, seed {found.seed}"
    )


def _scored(
    ranking: Ranking, qrels: str, measures: tuple[str, ...], target: str | None
) -> RunRecord:
    name = "rank" if target is None else unique_names([target])[0]
    return RunRecord(name, evaluate(_as_written(ranking), qrels, measures), task="retrieval")


def _as_written(ranking: Ranking) -> Ranking:
    """The ranking as a file of it would be read: rows that have no ids are named by number."""
    import numpy as np

    docs, places = np.unique(ranking.docs, return_inverse=True)
    names = [ranking.query_ids, ranking.doc_ids.take(docs.astype(np.int64))]
    queries, found = (Ids.of([str(one) for one in ids]) for ids in names)
    return replace(
        ranking,
        query_ids=queries,
        doc_ids=found,
        given_docs=places.astype(np.int32),
        given_scores=ranking.scores,
        in_order=True,
    )


def _print_scores(record: RunRecord) -> None:
    output.narrate_remarks([record])
    table = tables.measure_table(record, False)
    title = tables.title([record], False)
    signature = record.scored().signature
    output.show([table], layout="text", file=None, signature=signature, title=title)


def _side(path: str, ids: str | None, side: str) -> tuple[object, object]:
    """Vectors of one side, and its ids where there are any."""
    if path.lower().endswith(".npy"):
        return path, None if ids is None else read_ids(ids, side)
    found = read_vectors(path, side)
    return found.vectors, found.ids if ids is None else read_ids(ids, side)
