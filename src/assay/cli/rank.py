"""`assay rank`: Find the exact best documents of each query and write them as a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.cluster_options import cluster_options, open_cluster_with_bar
from assay.cli.commands import Command
from assay.cli.progress import progress_bar
from assay.cli.saving import saving_runs
from assay.cluster import (
    Shard,
    open_shards,
    plan_shards,
    rank_shards,
    sampled_recall,
    take_sample,
)
from assay.core.input_remarks import cut_by_row
from assay.io.arrays import read_ids, read_vectors
from assay.io.formats import read_run
from assay.io.writers import choose_format, write_run
from assay.runs import tables
from assay.runs.run_files import score_ranking, unique_names
from assay.scoring.output import zero_remark
from assay.search.engine import prepare, rank
from assay.search.engine.workers import thread_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.cli.saving import Saving
    from assay.cluster import Journal, SampledRecall
    from assay.core.ranking import Ranking
    from assay.runs.record import RunRecord

__all__ = ["command"]

_SAMPLE = 1000  # queries of a sample, where none is stated
_SHARD_ENDINGS = (".json", ".parquet", ".pq", ".safetensors")

_shard_options = options.add_options(
    cluster_options("Run on shards: threads, serial, auto (Ray), or Ray's address."),
    click.option(
        "--checkpoint",
        type=options.output_folder,
        metavar="DIR",
        help="Keep finished blocks in DIR, and resume from there.",
    ),
    click.option(
        "--dry-run",
        is_flag=True,
        help="Print the plan, the bytes to move and the expected time.",
    ),
    click.option(
        "--query-block",
        type=click.IntRange(min=1),
        metavar="N",
        help="Queries of one task. [8192]",
    ),
    click.option(
        "--in-flight",
        type=click.IntRange(min=3),
        metavar="N",
        help="Partial results that may be in memory at one time.",
    ),
    click.option(
        "--timings",
        type=options.output_file,
        metavar="FILE",
        help="Write time and bytes of every task as JSON.",
    ),
)


@click.command("rank", cls=Command)
@click.argument("queries", metavar="QUERIES")
@click.argument("docs", metavar="DOCS")
@options.write_option("The run to write.", "target")
@click.option("-k", default=100, show_default=True, metavar="N", help="Documents for each query.")
@options.metric_option("l2 scores are minus the squared distance.", "cosine")
@click.option("--query-ids", metavar="FILE", help="Their ids, one a line. [rows are numbered]")
@click.option("--doc-ids", metavar="FILE", help="Ids of the documents, likewise.")
@click.option("--exclude-self", is_flag=True, help="A query never finds the document of its id.")
@click.option("--keep-ties", is_flag=True, help="Keep all documents that tie with the k-th.")
@options.zero_option
@options.full_option
@options.signature_option
@click.option(
    "--prepare",
    metavar="FILE",
    type=options.output_file,
    help="Keep what a search makes of DOCS in FILE, for the next one. Same bytes, sooner.",
)
@click.option("--threads", type=int, metavar="N", help="Number of threads. [all cores]")
@click.option("--engine", type=click.Choice(["native", "numpy"]), help="Same bytes from both.")
@options.target_format_option
@click.option("--tag", default="assay", show_default=True, help="Last column of a TREC run.")
@options.ir_metadata_option
@_shard_options
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
@options.measures_option("With --qrels: a measure such as nDCG@10. May be repeated.")
@options.mismatch_option
@click.option("--save", is_flag=True, help="With --qrels: store the scores as a run.")
@options.store_option
@click.option("--dataset", metavar="NAME", help="With --save: the dataset.")
def command(*, save: bool, store: str | None, dataset: str | None, **chosen: Any) -> None:
    """Find the exact best documents of each query and write them as a run.

    QUERIES and DOCS are .npy or .npz files of vectors (float16, float32, float64 or integers);
    a .npz may hold ids, and FILE.npz:NAME names one of its arrays. Files larger than memory are
    read in windows. Scores are the exact ones, rounded to float64: the same bytes on every machine.

    DOCS may also be shards: a pattern in quotes, or a manifest (.json) of .npy, .npz, .parquet or
    .safetensors files, searched here or on a cluster with the same bytes.

    \b
    Examples:
      assay rank queries.npy docs.npy -k 100 -o run.txt
      assay rank docs.npy docs.npy --metric dot --exclude-self -o run.parquet
      assay rank queries.npy docs.npy --prepare docs.prepared -o run.txt
      assay rank queries.npy 'docs-*.npy' --cluster threads --dry-run
      assay rank queries.npy shards.json --cluster auto --checkpoint ck -o run.txt # needs Ray
      assay rank queries.npy shards.json -k 10 --sample 50 --recall-of run.txt
      assay rank queries.npy docs.npy --query-ids queries.txt --doc-ids docs.txt \\
          -r qrels.tsv -m nDCG@10 --save
    """
    _refuse_contradictions(chosen, save=save)
    inputs = ("queries", "docs", "query_ids", "doc_ids", "recall_of", "qrels")
    output.refuse_input(chosen["target"], *(chosen[key] for key in inputs))
    output.refuse_input(chosen["prepare"], *(chosen[key] for key in inputs))
    output.refuse_input(chosen["target"], chosen["ir_metadata"])
    output.refuse_same_file(chosen["target"], chosen["timings"], chosen["prepare"])
    chosen["metadata"] = _describe(chosen)  # before the search: its file may be wrong
    with saving_runs("retrieval", wanted=save, store=store, dataset=dataset, tags=()) as saving:
        vectors, ids = _read_side(chosen["queries"], chosen["query_ids"], "query")
        journal = None
        if not _is_sharded(chosen):
            ranking = _rank_here(vectors, ids, chosen, saving)
        elif chosen["dry_run"]:
            output.put(_plan(vectors, chosen), None)
            return
        else:
            ranking, journal = _rank_on_shards(vectors, ids, chosen, saving)
        _write(ranking, chosen)
        output.narrate_all(_remarks(ranking, chosen))
        if chosen["qrels"] is not None:
            _score(ranking, journal, chosen, saving)


def _refuse_contradictions(chosen: dict[str, Any], *, save: bool) -> None:
    sampled = chosen["sample"] is not None or chosen["recall_of"] is not None
    writes = chosen["target"] or chosen["qrels"]
    if not writes and not chosen["dry_run"] and chosen["recall_of"] is None:
        raise click.UsageError("Missing option '-o' / '--output': the run to write.")
    if chosen["dry_run"] and chosen["recall_of"] is not None:
        raise click.UsageError("--dry-run and --recall-of exclude each other.")
    if chosen["seed"] is not None and not sampled:
        raise click.UsageError("--seed changes nothing without --sample. Add it.")
    if chosen["qrels"] is None and (save or chosen["measures"]):
        raise click.UsageError("--save and -m go with --qrels, against which the run is scored.")
    if chosen["prepare"] and _is_sharded(chosen):
        raise click.UsageError("--prepare is for one file of documents; shards are searched as is.")
    if chosen["ir_metadata"] and not chosen["target"]:
        raise click.UsageError("--ir-metadata is the header of the run that -o writes. Add it.")
    if chosen["dry_run"] and save:
        raise click.UsageError("--dry-run searches nothing, so there is nothing to --save.")


def _describe(chosen: dict[str, Any]) -> dict[str, Any] | None:
    if chosen["ir_metadata"] is not None:
        choose_format(chosen["target"], chosen["target_format"], ("trec",))
    settings = {**_search_settings(chosen), "k": chosen["k"], "tag": chosen["tag"]}
    return options.describe_method(chosen["ir_metadata"], name="exact search", **settings)


def _read_side(path: str, ids: str | None, side: str) -> tuple[Any, Any]:
    """Vectors of one side, and its ids where there are any."""
    if path.lower().endswith(".npy"):
        return path, None if ids is None else read_ids(ids, side)
    found = read_vectors(path, side)
    return found.vectors, found.ids if ids is None else read_ids(ids, side)


def _search_settings(chosen: dict[str, Any]) -> dict[str, Any]:
    return {
        "metric": chosen["metric"],
        "exclude": "self" if chosen["exclude_self"] else None,
        "keep_ties": chosen["keep_ties"],
        "zero": chosen["zero"],
    }


def _rank_here(vectors: Any, ids: Any, chosen: dict[str, Any], saving: Saving) -> Ranking:
    docs, doc_ids = _read_side(chosen["docs"], chosen["doc_ids"], "doc")
    if chosen["prepare"] is not None:
        docs = prepare(docs, chosen["prepare"], threads=chosen["threads"])
    with progress_bar("searching", saving.listener) as progress:
        return rank(
            vectors,
            docs,
            chosen["k"],
            query_ids=ids,
            doc_ids=doc_ids,
            threads=chosen["threads"],
            engine=chosen["engine"],
            progress=progress,
            **_search_settings(chosen),
        )


# Shards


def _is_sharded(chosen: dict[str, Any]) -> bool:
    """Whether documents are shards, or an option asks for what only shards can do."""
    docs = chosen["docs"]
    pattern = any(sign in docs for sign in "*?[") or "://" in docs
    only_shards = (
        "where",
        "workers",
        "checkpoint",
        "dry_run",
        "query_block",
        "in_flight",
        "timings",
        "sample",
        "recall_of",
    )
    return (
        pattern
        or docs.lower().endswith(_SHARD_ENDINGS)
        or any(chosen[option] for option in only_shards)
    )


def _open_shards(docs: str, doc_ids: str | None) -> Any:
    shards = open_shards(docs)
    if doc_ids is None:
        return shards
    if len(shards) > 1 or docs.lower().endswith(".json"):
        raise click.UsageError(
            "--doc-ids is for one file; shards bring their ids, or a manifest names them."
        )
    return [Shard(shards[0].path, ids=doc_ids)]


def _plan(vectors: Any, chosen: dict[str, Any]) -> str:
    """What a search will take, a line each."""
    workers = chosen["workers"] or thread_count(None)
    if chosen["where"] in (None, "serial"):
        workers = thread_count(chosen["threads"])
    settings = {
        key: chosen[key]
        for key in ("query_block", "in_flight", "engine")
        if chosen[key] is not None
    }
    shards = _open_shards(chosen["docs"], chosen["doc_ids"])
    plan = plan_shards(vectors, shards, chosen["k"], workers=workers, **settings)
    return "\n".join(f"{name:<14} {text}" for name, text in plan.lines())


def _rank_on_shards(
    vectors: Any, ids: Any, chosen: dict[str, Any], saving: Saving
) -> tuple[Ranking, Journal]:
    """Search all queries or a sample of them; the recall of another run is printed."""
    shards = _open_shards(chosen["docs"], chosen["doc_ids"])
    sample, seed = chosen["sample"], chosen["seed"] or 0
    approximate = None if chosen["recall_of"] is None else read_run(chosen["recall_of"])
    if approximate is None and sample is not None:
        vectors, ids = take_sample(vectors, ids, sample, seed=seed)
    keys = ("checkpoint", "query_block", "in_flight", "threads", "engine")
    with open_cluster_with_bar(
        "searching",
        chosen["where"],
        chosen["workers"],
        timings=chosen["timings"],
        listener=saving.listener,
        settings={key: chosen[key] for key in keys},
    ) as cluster:
        if approximate is None:
            found = rank_shards(
                vectors,
                shards,
                chosen["k"],
                query_ids=ids,
                cluster=cluster,
                **_search_settings(chosen),
            )
            return found, cluster.journal
        recall = sampled_recall(
            approximate,
            vectors,
            shards,
            k=chosen["k"],
            sample=sample or _SAMPLE,
            seed=seed,
            metric=chosen["metric"],
            query_ids=ids,
            cluster=cluster,
        )
    output.put(_describe_recall(recall, chosen["recall_of"], chosen["metric"]), None)
    return recall.exact, cluster.journal


def _describe_recall(found: SampledRecall, run: str, metric: str) -> str:
    ends = f"[{found.low:.4f}, {found.high:.4f}]"
    return (
        f"R@{found.k} of {run}: {found.estimate:.4f} {ends} ({found.level * 100:g} %, "
        f"{found.method}), from exact neighbours of {len(found.values)} of {found.n_queries} "
        f"queries, seed {found.seed}, metric {metric}"
    )


# What is written


def _write(ranking: Ranking, chosen: dict[str, Any]) -> None:
    target = chosen["target"]
    if target is not None:
        write_run(
            ranking,
            target,
            format=chosen["target_format"],
            tag=chosen["tag"],
            metadata=chosen["metadata"],
        )
        output.narrate(f"{target}: {ranking.n_queries} queries, {len(ranking.docs)} results")


def _remarks(ranking: Ranking, chosen: dict[str, Any]) -> Iterator[str]:
    """What a reader of the run should know, a line each."""
    if chosen["k"] > ranking.n_docs > 0:
        yield f"-k {chosen['k']} is more than the {ranking.n_docs} documents: all are listed"
    if chosen["metric"] == "cosine" and (zeros := zero_remark(chosen["zero"], *ranking.zero_rows)):
        yield zeros
    if chosen["qrels"] is None:  # else the numbers have the remark
        yield from cut_by_row(ranking, ranking, ranking.query_ids)


def _score(
    ranking: Ranking, journal: Journal | None, chosen: dict[str, Any], saving: Saving
) -> None:
    name = "rank" if chosen["target"] is None else unique_names([chosen["target"]])[0]
    record = score_ranking(
        ranking,
        chosen["qrels"],
        chosen["measures"] or ("default",),
        name=name,
        allow_mismatch=chosen["allow_mismatch"],
    )
    files = tuple(chosen[key] for key in ("queries", "docs", "qrels"))
    config = {} if journal is None else {"cluster": journal.to_dict()}
    saving.save([record.but(files=files, config=config)])
    output.emit(_as_result(record), "text", None, remarks=output.remarks_on([record]))


def _as_result(record: RunRecord) -> output.TableResult:
    return output.TableResult(
        tables.measure_table(record, False),
        title=tables.title([record], False),
        signature=record.scored().signature,
    )
