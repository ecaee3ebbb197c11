"""Every kind of job, on shards and on one machine: both give what can be compared as bytes."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from assay import Judgments, evaluate
from assay.cluster import (
    Cluster,
    count_label_shards,
    evaluate_shards,
    rank_code_shards,
    rank_shards,
    target_rank_shards,
)
from assay.search.engine import TokenVectors, count_labels, rank, rank_codes, target_ranks
from tests.cluster.corpora import (
    CUTS,
    Sample,
    as_sparse,
    ranking_bytes,
    sample,
    scores_bytes,
    write_npy,
    write_npz,
    write_sparse,
)

MEASURES = ["nDCG@10", "AP", "RR", "P@5", "R@20", "Judged@10"]
METRICS = ("cosine", "dot", "l2")


def jobs(folder: Path) -> dict[str, tuple[Any, Any]]:
    """By name: a function of a cluster, and the same work on one machine."""
    s = sample()
    plain, named = write_npy(folder / "plain", s.docs), write_npz(folder / "ids", s.docs, s.doc_ids)
    codes = write_npy(folder / "codes", s.codes)
    packed = write_npy(folder / "packed", np.packbits(s.codes, axis=1))
    found: dict[str, tuple[Any, Any]] = {}
    for metric in METRICS:
        for ties in (False, True):
            _add_ranking(found, s, plain, f"rank-{metric}-{ties}", metric=metric, keep_ties=ties)
    _add_ranking(found, s, plain, "rank-pairs", exclude=s.pairs)
    _add_sparse(found, s, folder)
    _add_ranking(found, s, named, "rank-self", ids=True, exclude="self", keep_ties=True)
    _add_ranking(found, s, named, "rank-named-pairs", ids=True, exclude=s.named_pairs)
    _add_targets(found, s, plain, named)
    for ties in (False, True):
        _add_codes(found, s, codes, packed, ties)
    for n_shards in (1, 2, 6):
        _add_tokens(found, s, folder / "tokens", n_shards)
        _add_weights(found, s, folder / "weights", n_shards)
    _add_labels(found, s, plain)
    _add_evaluations(found, s, plain, named)
    return found


def _add_ranking(found, s: Sample, shards: str, name: str, ids: bool = False, **options) -> None:
    both = {"query_ids": s.query_ids, **options} if ids else options
    found[name] = (
        lambda cluster: ranking_bytes(rank_shards(s.queries, shards, 9, cluster=cluster, **both)),
        lambda: ranking_bytes(
            rank(s.queries, s.docs, 9, doc_ids=s.doc_ids if ids else None, **both)
        ),
    )


def _add_sparse(found, s: Sample, folder: Path) -> None:
    """Sparse rows by column, in shards of scipy's format, and by term, in JSON lines with ids."""
    queries, docs = (np.maximum(rows, 0) for rows in (s.queries, s.docs))
    numbered = write_sparse(folder / "sparse", docs)
    terms, named = [_by_term(rows) for rows in (queries, docs)], folder / "terms"
    named.mkdir()
    for start, stop in pairwise(CUTS):
        lines = [
            json.dumps({"id": s.doc_ids[row], "vector": terms[1][row]})
            for row in range(start, stop)
        ]
        (named / f"part-{start}.jsonl").write_text("\n".join(lines), "utf-8")
    options: Any = {"metric": "dot", "keep_ties": True, "exclude": s.pairs}
    found["rank-sparse"] = (
        lambda cluster: ranking_bytes(
            rank_shards(as_sparse(queries), numbered, 9, cluster=cluster, **options)
        ),
        lambda: ranking_bytes(rank(as_sparse(queries), as_sparse(docs), 9, **options)),
    )
    found["rank-terms"] = (
        lambda cluster: ranking_bytes(
            rank_shards(
                terms[0],
                f"{named}/*.jsonl",
                9,
                query_ids=s.query_ids,
                exclude="self",
                metric="dot",
                cluster=cluster,
            )
        ),
        lambda: ranking_bytes(
            rank(
                *terms,
                9,
                query_ids=s.query_ids,
                doc_ids=s.doc_ids,
                exclude="self",
                metric="dot",
            )
        ),
    )


def _by_term(rows: np.ndarray) -> list[dict[str, float]]:
    return [{f"t{t}": float(row[t]) for t in np.flatnonzero(row)} or {"t0": 0.0} for row in rows]


def _tally(ranks) -> tuple[Any, ...]:
    arrays = (ranks.above, ranks.tied, ranks.before)
    return *(array.tobytes() for array in arrays), ranks.n_docs, ranks.search


def _add_targets(found, s: Sample, plain: str, named: str) -> None:
    for metric in METRICS:
        found[f"targets-{metric}"] = (
            lambda cluster, metric=metric: _tally(
                target_rank_shards(
                    s.queries, plain, s.targets, metric=metric, exclude=s.pairs, cluster=cluster
                )
            ),
            lambda metric=metric: _tally(
                target_ranks(s.queries, s.docs, s.targets, metric=metric, exclude=s.pairs)
            ),
        )
    names = [None if target < 0 else s.doc_ids[target] for target in s.targets]
    found["targets-named"] = (
        lambda cluster: _tally(
            target_rank_shards(s.queries, named, names, query_ids=s.query_ids, cluster=cluster)
        ),
        lambda: _tally(
            target_ranks(s.queries, s.docs, names, query_ids=s.query_ids, doc_ids=s.doc_ids)
        ),
    )


def _add_codes(found, s: Sample, codes: str, packed: str, ties: bool) -> None:
    for name, shards, bits in (("bits", codes, None), ("packed", packed, 11)):
        found[f"codes-{name}-{ties}"] = (
            lambda cluster, shards=shards, bits=bits: ranking_bytes(
                rank_code_shards(
                    s.codes[:30],
                    shards,
                    9,
                    bits=bits,
                    keep_ties=ties,
                    exclude=s.pairs[s.pairs[:, 0] < 30],
                    cluster=cluster,
                )
            ),
            lambda: ranking_bytes(
                rank_codes(
                    s.codes[:30], s.codes, 9, keep_ties=ties, exclude=s.pairs[s.pairs[:, 0] < 30]
                )
            ),
        )


def _add_tokens(found, s: Sample, folder: Path, n_shards: int) -> None:
    """MaxSim: rows of the sample are tokens, three of them a document, some documents empty."""
    lengths = np.where(np.arange(len(s.docs) // 3) % 7 == 3, 0, 3)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    docs = TokenVectors(s.docs[: offsets[-1]], offsets, ids=s.doc_ids[: len(lengths)])
    queries = TokenVectors(s.queries, np.array([0, *range(2, 38, 5)]), ids=s.query_ids[:8])
    folder = folder / str(n_shards)
    folder.mkdir(parents=True)
    for number in range(n_shards):
        first, last = (len(docs) * at // n_shards for at in (number, number + 1))
        part = docs[first:last]
        arrays = {"embeddings": part.values, "lengths": part.lengths, "ids": s.doc_ids[first:last]}
        np.savez(folder / f"part-{number}.npz", **arrays)
    options = {"metric": "maxsim", "exclude": [(s.query_ids[0], s.doc_ids[0])]}
    shards = str(folder / "part-*.npz")
    found[f"maxsim-{n_shards}"] = (
        lambda cluster: ranking_bytes(rank_shards(queries, shards, 9, cluster=cluster, **options)),
        lambda: ranking_bytes(rank(queries, docs, 9, **options)),
    )
    targets = [s.doc_ids[number] for number in (5, 1, 40, 7, 8, 9, 72)] + [None]
    found[f"maxsim-targets-{n_shards}"] = (
        lambda cluster: _tally(
            target_rank_shards(queries, shards, targets, cluster=cluster, **options)
        ),
        lambda: _tally(target_ranks(queries, docs, targets, **options)),
    )


def _add_weights(found, s: Sample, folder: Path, n_shards: int) -> None:
    """Sparse rows of both signs; some are empty, and some are the same."""
    docs, queries = np.where(np.arange(len(s.docs))[:, None] % 11 == 3, 0, s.docs), s.queries
    cuts = tuple(len(docs) * number // n_shards for number in range(n_shards + 1))
    shards = write_sparse(folder / str(n_shards), docs, cuts)
    options: Any = {"metric": "dot", "exclude": s.pairs}
    found[f"sparse-{n_shards}"] = (
        lambda cluster: ranking_bytes(
            rank_shards(as_sparse(queries), shards, 9, cluster=cluster, **options)
        ),
        lambda: ranking_bytes(rank(as_sparse(queries), as_sparse(docs), 9, **options)),
    )


def _add_labels(found, s: Sample, plain: str) -> None:
    labels = {"query_labels": s.query_labels, "doc_labels": s.labels, "exclude": s.pairs}

    def shown(counts) -> tuple[Any, ...]:
        return counts.k, counts.found.tobytes(), counts.n_rel.tobytes()

    found["labels"] = (
        lambda cluster: shown(
            count_label_shards(s.queries, plain, [1, 5, 9], **labels, cluster=cluster)
        ),
        lambda: shown(count_labels(s.queries, s.docs, [1, 5, 9], **labels)),
    )


def qrels_of(s: Sample) -> dict[str, dict[str, int]]:
    """Judgments of some queries, of a query that nobody asked, and of unknown documents."""
    rng = np.random.default_rng(2)
    judged = {
        query: {s.doc_ids[doc]: int(rng.integers(0, 4)) for doc in rng.integers(0, len(s.docs), 30)}
        for query in s.query_ids[3:]
    }
    judged["nobody"] = {s.doc_ids[0]: 1}
    judged[s.query_ids[5]]["unknown-document"] = 2
    return judged


def _add_evaluations(found, s: Sample, plain: str, named: str) -> None:
    kinds = {
        "qrels": (named, qrels_of(s), {"query_ids": s.query_ids}),
        "labels": (plain, Judgments.from_labels(s.query_labels, s.labels), {}),
        "targets": (plain, Judgments.from_targets(s.targets, n_docs=len(s.docs)), {}),
    }
    for name, (shards, judgments, ids) in kinds.items():
        for rules in ("trec_eval", "sentence_transformers"):
            found[f"evaluate-{name}-{rules}"] = (
                lambda cluster, shards=shards, judgments=judgments, ids=ids, rules=rules: (
                    scores_bytes(
                        evaluate_shards(
                            s.queries,
                            shards,
                            judgments,
                            MEASURES,
                            k=25,
                            conventions=rules,
                            cluster=cluster,
                            **ids,
                        )
                    )
                ),
                lambda judgments=judgments, ids=ids, rules=rules: scores_bytes(
                    evaluate(
                        rank(s.queries, s.docs, 25, doc_ids=s.doc_ids if ids else None, **ids),
                        judgments,
                        MEASURES,
                        conventions=rules,
                    )
                ),
            )
    _add_without_self(found, s, named)


def _add_without_self(found, s: Sample, named: str) -> None:
    """The collection is smaller by a query's own document, also where it was not found."""
    how = {"metric": "dot", "query_ids": s.query_ids}
    measures = ["AP", "nDCG@10"]
    rules = "trec_eval"
    from assay.core.conventions import preset

    chosen = preset(rules).replace(self_match="exclude")
    found["evaluate-without-self"] = (
        lambda cluster: scores_bytes(
            evaluate_shards(
                s.queries,
                named,
                qrels_of(s),
                measures,
                k=3,
                conventions=chosen,
                cluster=cluster,
                **how,
            )
        ),
        lambda: scores_bytes(
            evaluate(
                rank(s.queries, s.docs, 3, doc_ids=s.doc_ids, **how),
                qrels_of(s),
                measures,
                conventions=chosen,
            )
        ),
    )


def check(found: dict[str, tuple[Any, Any]], cluster: Cluster, names: Any = None) -> None:
    """Every job gives the bytes of one machine."""
    for name in names or found:
        on_shards, on_one_machine = found[name]
        assert on_shards(cluster) == on_one_machine(), name


def copied(folder: Path, target: Path) -> Path:
    """The shards elsewhere."""
    shutil.copytree(folder, target)
    return target
