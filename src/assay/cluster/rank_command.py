"""Find the exact best documents of each query and write them as a run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.output import saving_runs
from assay.cli.progress import Listener, progress_bar
from assay.cli.settings import argument
from assay.core.on_demand import OnDemand

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from assay import cluster as sharded
    from assay.cli.output import Saving
    from assay.cluster import evaluating
    from assay.cluster.remote_files import remote_marks
    from assay.core.checks import thread_count
    from assay.core.mismatches import cut_by_row
    from assay.core.ranking import Ranking
    from assay.io import arrays, writers
    from assay.io.formats import read_run
    from assay.runs import record as tables
    from assay.runs import run_files
    from assay.scoring.output import zero_remark
    from assay.search import engine
    from assay.search.engine.sparse_vectors import is_sparse, read_sparse_file
else:
    sharded = OnDemand("assay.cluster")
    evaluating = OnDemand("assay.cluster.evaluating")
    remote_marks = OnDemand("assay.cluster.remote_files").remote_marks
    thread_count = OnDemand("assay.core.checks").thread_count
    cut_by_row = OnDemand("assay.core.mismatches").cut_by_row
    arrays = OnDemand("assay.io.arrays")
    writers = OnDemand("assay.io.writers")
    read_run = OnDemand("assay.io.formats").read_run
    tables = OnDemand("assay.runs.record")
    run_files = OnDemand("assay.runs.run_files")
    zero_remark = OnDemand("assay.scoring.output").zero_remark
    engine = OnDemand("assay.search.engine")
    _sparse_vectors = OnDemand("assay.search.engine.sparse_vectors")
    is_sparse, read_sparse_file = _sparse_vectors.is_sparse, _sparse_vectors.read_sparse_file

_SAMPLE = 1000  # queries of a sample, where none is stated
_SHARD_ENDINGS = (".json", ".parquet", ".pq", ".safetensors")
_ONLY_SHARDS = (
    *("where", "workers", "checkpoint", "dry_run", "query_block"),
    *("in_flight", "timings", "sample", "recall_of"),
)

timings_option = options.in_machines(
    "--timings FILE",
    type=options.output_file,
    help="Time and bytes of every task (JSON).",
    writes=True,
)
_shard_options = options.add_options(
    options.cluster_options("Run on shards: threads, serial, auto (Ray), or Ray's address."),
    options.in_search(
        "--checkpoint DIR",
        type=options.output_folder,
        help="Folder of finished blocks, to resume from.",
        writes=True,
        folder=True,
    ),
    options.in_search(
        "--dry-run", is_flag=True, help="Print only plan, traffic and expected time."
    ),
    options.in_search("--query-block N", least=1, help="Queries per task. [8192]"),
    options.in_machines(
        "--in-flight N", least=3, help="Maximum number of partial results in memory."
    ),
    timings_option,
)


@click.command("rank", cls=Command, verified=True)
@argument("queries", metavar="QUERIES", reads=True)
@argument("docs", metavar="DOCS", reads=True, names="assay.cluster.shards:list_manifest")
@options.write_option("Run file to write.", "target")
@options.in_search("-k N", shown=100, help="Documents per query.")
@options.in_search(
    "--metric",
    choices=["cosine", "dot", "l2", "maxsim"],
    shown="cosine",
    help="Similarity; maxsim for token vectors.",
)
@options.in_input("--query-ids FILE", help="Query ids, one per line. [row numbers]", reads=True)
@options.in_input("--doc-ids FILE", help="Document ids, one per line. [row numbers]", reads=True)
@options.in_search(
    "--exclude-self", is_flag=True, help="Exclude the document with the query's own id."
)
@options.in_search("--keep-ties", is_flag=True, help="Keep all documents that tie with the k-th.")
@options.zero_option
@options.full_option
@options.signature_option
@options.in_search(
    "--prepare FILE",
    type=options.output_file,
    help="Cache of prepared documents, for faster searches.",
    writes=True,
)
@options.in_search("--threads N", type=int, help="Number of threads. [all cores]")
@options.in_search(
    "--engine", choices=["native", "numpy"], help="Search engine; results are identical."
)
@options.target_format_option
@options.in_store(
    "--tag",
    shown="assay",
    help="Last column of a TREC run.",
    offers="assay.store.completion:offer_tags",
)
@options.ir_metadata_option
@_shard_options
@options.in_search("--sample N", least=1, help="Number of random queries to search.")
@options.in_statistics("--seed N", least=0, help="Random seed of --sample. [0]")
@options.in_search(
    "--recall-of RUN", help="Approximate run whose recall --sample estimates.", reads=True
)
@options.in_input("-r", "--qrels QRELS", help="Judgments, to score the run.", reads=True)
@options.measures_option("Measure to score with --qrels. May be repeated.")
@options.mismatch_option
@options.in_store("--save", is_flag=True, help="Store the scores (with --qrels).", aside=True)
@options.store_option
@options.in_store(
    "--dataset NAME",
    help="Name of the dataset (with --save).",
    aside=True,
    offers="assay.store.completion:offer_datasets",
)
def command(*, save: bool, store: str | None, dataset: str | None, **settings: Any) -> None:
    """Find the exact best documents of each query and write them as a run.

    QUERIES and DOCS are .npy or .npz files of vectors (float16, float32, float64 or integers);
    a .npz may hold ids, and FILE.npz:NAME names one of its arrays. Files larger than memory are
    read in windows. Scores are the exact ones, rounded to float64: the same bytes on every machine.

    Sparse vectors: .npz files of scipy.sparse.save_npz, or JSON lines of
    {"id": …, "vector": {term: weight}} or {term: weight}. Token vectors of late-interaction models
    (--metric maxsim): .npz or .safetensors files of one array with lengths, offsets or a mask, or
    of one array per text.

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
    _refuse_contradictions(settings, save=save)
    inputs = ("queries", "docs", "query_ids", "doc_ids", "recall_of", "qrels")
    output.refuse_input(settings["target"], *(settings[key] for key in inputs))
    output.refuse_input(settings["prepare"], *(settings[key] for key in inputs))
    output.refuse_input(settings["target"], settings["ir_metadata"])
    output.refuse_same_file(settings["target"], settings["timings"], settings["prepare"])
    settings["metadata"] = _describe(settings)  # before the search: its file may be wrong
    with saving_runs("retrieval", wanted=save, store=store, dataset=dataset, tags=()) as saving:
        tokens = settings["metric"] == "maxsim"
        vectors, ids = _read_side(settings["queries"], settings["query_ids"], "query", tokens)
        journal = None
        if not _is_sharded(settings):
            ranking = _rank_here(vectors, ids, settings, saving)
        elif settings["dry_run"]:
            output.write(_plan(vectors, settings), None)
            return
        else:
            ranking, journal = _rank_on_shards(vectors, ids, settings, saving)
        _write(ranking, settings)
        output.narrate_all(_remarks(ranking, settings))
        if settings["qrels"] is not None:
            _score(ranking, journal, settings, saving)


def _refuse_contradictions(settings: dict[str, Any], *, save: bool) -> None:
    sampled = settings["sample"] is not None or settings["recall_of"] is not None
    writes = settings["target"] or settings["qrels"]
    if not writes and not settings["dry_run"] and settings["recall_of"] is None:
        raise click.UsageError("Missing option '-o' / '--output': the run to write.")
    if settings["dry_run"] and settings["recall_of"] is not None:
        raise click.UsageError("--dry-run and --recall-of exclude each other.")
    if settings["seed"] is not None and not sampled:
        raise click.UsageError("--seed requires --sample.")
    if settings["qrels"] is None and (save or settings["measures"]):
        raise click.UsageError("--save and -m require --qrels.")
    if settings["prepare"] and _is_sharded(settings):
        raise click.UsageError("--prepare excludes shards. Pass one file of documents.")
    if settings["ir_metadata"] and not settings["target"]:
        raise click.UsageError("--ir-metadata requires -o.")
    if settings["dry_run"] and save:
        raise click.UsageError("--dry-run and --save exclude each other.")


def _describe(params: dict[str, Any]) -> dict[str, Any] | None:
    if params["ir_metadata"] is not None:
        writers.choose_format(params["target"], params["target_format"], ("trec",))
    settings = {**_search_settings(params), "k": params["k"], "tag": params["tag"]}
    return options.describe_method(params["ir_metadata"], name="exact search", **settings)


def _read_side(path: str, ids: str | None, side: str, tokens: bool) -> tuple[Any, Any]:
    """Read vectors of one side, and its ids where there are any."""
    if tokens:
        texts = engine.read_tokens(path)
        return texts, texts.ids if ids is None else arrays.read_ids(ids, side)
    if is_sparse(path):
        rows, names = read_sparse_file(path, side)
        return rows, names if ids is None else arrays.read_ids(ids, side)
    if path.lower().endswith(".npy"):
        return path, None if ids is None else arrays.read_ids(ids, side)
    vectors = arrays.read_vectors(path, side)
    return vectors.vectors, vectors.ids if ids is None else arrays.read_ids(ids, side)


def _search_settings(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "metric": settings["metric"],
        "exclude": "self" if settings["exclude_self"] else None,
        "keep_ties": settings["keep_ties"],
        "zero": settings["zero"],
    }


def _rank_here(vectors: Any, ids: Any, settings: dict[str, Any], saving: Saving) -> Ranking:
    tokens = settings["metric"] == "maxsim"
    docs, doc_ids = _read_side(settings["docs"], settings["doc_ids"], "doc", tokens)
    if settings["prepare"] is not None:
        docs = engine.prepare(docs, settings["prepare"], threads=settings["threads"])
    with progress_bar("searching", saving.listener) as progress:
        return engine.rank(
            vectors,
            docs,
            settings["k"],
            query_ids=ids,
            doc_ids=doc_ids,
            threads=settings["threads"],
            engine=settings["engine"],
            progress=progress,
            **_search_settings(settings),
        )


# Shards


def _is_sharded(settings: dict[str, Any]) -> bool:
    """Tell whether documents are shards, or an option is for shards only."""
    docs = settings["docs"]
    pattern = any(sign in docs for sign in "*?[") or "://" in docs
    is_listed = pattern or docs.lower().endswith(_SHARD_ENDINGS)
    return is_listed or any(settings[option] for option in _ONLY_SHARDS)


def _open_shards(docs: str, doc_ids: str | None) -> Any:
    shards = sharded.open_shards(docs)
    if doc_ids is None:
        return shards
    if len(shards) > 1 or docs.lower().endswith(".json"):
        raise click.UsageError("--doc-ids excludes shards, which bring their ids. Omit it.")
    return [sharded.Shard(shards[0].path, ids=doc_ids)]


def _plan(vectors: Any, params: dict[str, Any]) -> str:
    """Return the plan of a search, one line per fact."""
    workers = params["workers"] or thread_count(None)
    if params["where"] in (None, "serial"):
        workers = thread_count(params["threads"])
    settings = {
        key: params[key]
        for key in ("query_block", "in_flight", "engine")
        if params[key] is not None
    }
    shards = _open_shards(params["docs"], params["doc_ids"])
    plan = sharded.plan_shards(vectors, shards, params["k"], workers=workers, **settings)
    return "\n".join(f"{name:<14} {text}" for name, text in plan.lines())


def _rank_on_shards(
    vectors: Any, ids: Any, settings: dict[str, Any], saving: Saving
) -> tuple[Ranking, sharded.Journal]:
    """Search all queries or a sample of them; the recall of another run is printed."""
    shards = _open_shards(settings["docs"], settings["doc_ids"])
    sample, seed = settings["sample"], settings["seed"] or 0
    approximate = None if settings["recall_of"] is None else read_run(settings["recall_of"])
    if approximate is None and sample is not None:
        vectors, ids = sharded.take_sample(vectors, ids, sample, seed=seed)
    keys = ("checkpoint", "query_block", "in_flight", "threads", "engine")
    with open_cluster_with_bar(
        "searching",
        settings["where"],
        settings["workers"],
        timings=settings["timings"],
        listener=saving.listener,
        settings={key: settings[key] for key in keys},
    ) as cluster:
        if approximate is None:
            ranking = sharded.rank_shards(
                vectors,
                shards,
                settings["k"],
                query_ids=ids,
                cluster=cluster,
                **_search_settings(settings),
            )
            return ranking, cluster.journal
        recall = sharded.sampled_recall(
            approximate,
            vectors,
            shards,
            k=settings["k"],
            sample=sample or _SAMPLE,
            seed=seed,
            metric=settings["metric"],
            query_ids=ids,
            cluster=cluster,
        )
    output.write(
        f"R@{recall.k} of {settings['recall_of']}: {recall.estimate:.4f} [{recall.low:.4f}, "
        f"{recall.high:.4f}] ({recall.level * 100:g} %, {recall.method}), from exact neighbours of "
        f"{len(recall.values)} of {recall.n_queries} queries, seed {recall.seed}, metric "
        f"{settings['metric']}",
        None,
    )
    return recall.exact, cluster.journal


# What is written


def _write(ranking: Ranking, settings: dict[str, Any]) -> None:
    target = settings["target"]
    if target is not None:
        writers.write_run(
            ranking,
            target,
            format=settings["target_format"],
            tag=settings["tag"],
            metadata=settings["metadata"],
        )
        output.log(f"{target}: {ranking.n_queries} queries, {len(ranking.docs)} results")


def _remarks(ranking: Ranking, settings: dict[str, Any]) -> Iterator[str]:
    """Yield one remark per line for readers of the run."""
    if settings["k"] > ranking.n_docs > 0:
        yield f"-k {settings['k']} exceeds the {ranking.n_docs} documents: all are listed"
    if settings["metric"] == "cosine" and (
        zeros := zero_remark(settings["zero"], *ranking.zero_rows)
    ):
        yield zeros
    if settings["metric"] == "maxsim" and any(ranking.zero_rows):
        queries, docs = ranking.zero_rows
        yield f"texts without tokens: {queries} queries (no results), {docs} docs (never retrieved)"
    if settings["qrels"] is None:  # else the numbers have the remark
        yield from cut_by_row(ranking, ranking, ranking.query_ids)


def _score(
    ranking: Ranking, journal: sharded.Journal | None, settings: dict[str, Any], saving: Saving
) -> None:
    name = "rank" if settings["target"] is None else run_files.unique_names([settings["target"]])[0]
    measures, allowed = settings["measures"] or ("default",), settings["allow_mismatch"]
    scores = evaluating.score_ranking(ranking, settings["qrels"], measures, allow_mismatch=allowed)
    record = tables.RunRecord(name, scores, task="retrieval")
    config = {} if journal is None else {"cluster": journal.to_dict()}
    files = _input_files(settings) if saving.wanted else ()
    marks = {**record.data, **remote_marks(files)}
    saving.save([record.replace(files=files, config=config, data=marks)])
    result = output.TableResult(
        tables.measure_table(record, False),
        title=tables.title([record], False),
        signature=record.scored().signature,
    )
    output.emit(result, "text", None, remarks=output.remarks_on([record]))


def _input_files(settings: dict[str, Any]) -> tuple[str, ...]:
    """Return all files that decide the numbers: those of the shards, too, with their ids."""
    keys = ("queries", "query_ids", "docs", "doc_ids", "recall_of", "qrels")
    shards = sharded.open_shards(settings["docs"]) if _is_sharded(settings) else ()
    files = (settings[key] for key in keys)
    return tuple(
        filter(None, (*files, *(path for part in shards for path in (part.path, part.ids))))
    )


@contextmanager
def open_cluster_with_bar(
    what: str,
    where: str | None,
    workers: int | None,
    *,
    timings: str | None = None,
    listener: Listener | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[Any]:
    """Open a cluster with a bar; say at the end what a checkpoint saved.

    Without an address, blocks run in this process. `settings` are those of `Cluster`.
    """
    options.refuse_idle_workers(where, workers)
    named = {key: value for key, value in (settings or {}).items() if value is not None}
    if where in (None, "serial"):
        named["threads"] = thread_count(named.get("threads"))
    with progress_bar(what, listener) as progress:
        named["progress"] = progress
        with sharded.open_cluster(where or "serial", workers=workers, **named) as cluster:
            yield cluster
    if cluster.checkpoint is not None:
        output.log(f"{cluster.checkpoint}: {cluster.journal.resumption()}")
    if timings is not None:
        import json  # few commands write any

        output.write(json.dumps(cluster.journal.to_dict(), indent=1), timings)
