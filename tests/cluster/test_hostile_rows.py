"""Hostile sparse and token vectors: one table, and every way of searching gives the same answer.

The ways are `rank` by both engines, `prepare`, shards, and the command line. Numbers are small
and whole, so that plain sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay import SparseVectors, TokenVectors, prepare, rank, read_run
from assay.cli.main import main
from assay.cluster import Cluster, ThreadExecutor, rank_shards
from assay.errors import AssayError
from assay.native import engine_name

ENGINES = ["numpy", "native"] if engine_name() == "native" else ["numpy"]
HUGE = 2.0**100
Arrays = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Rows of each text: weights by column, or tokens; and how they are searched."""

    queries: list[Any]
    docs: list[Any]
    k: int = 4
    metric: str = "dot"


def tokens(*rows: list[float]) -> list[list[float]]:
    return [list(row) for row in rows]


MANY = np.random.default_rng(5).integers(-3, 4, (10_000, 2)).astype(float).tolist()
TOKENS = {
    "empty documents": Case([tokens([1, 2])], [[], tokens([1, 1], [0, 3]), [], tokens([2, 0])]),
    "one token": Case([tokens([1, 2])], [tokens([1, 1]), tokens([3, 0]), tokens([0, 2])]),
    "huge norms": Case(
        [tokens([HUGE, 0], [1, 1])],
        [tokens([HUGE, 1]), tokens([-HUGE, 0]), tokens([1, 1]), tokens([HUGE, 0], [0, HUGE])],
    ),
    "duplicate tokens": Case(
        [tokens([1, 2], [1, 2])], [tokens([1, 1]), tokens([1, 1], [1, 1]), tokens([2, 3], [2, 3])]
    ),
    "ten thousand tokens": Case(
        [tokens([1, 2], [-1, 3])], [tokens([1, 1]), MANY, tokens([2, 2]), MANY]
    ),
    "equal scores": Case([tokens([1, 2])], [tokens([1, 1])] * 9),
    "k beyond n": Case([tokens([1, 2])], [tokens([1, 1]), tokens([0, 1])], k=50),
}
SPARSE = {
    "empty documents": Case([{0: 1, 3: 2}], [{}, {0: 2}, {}, {3: 1, 4: 9}, {0: -1}]),
    "a shard of empty documents": Case([{0: 1}], [{}, {}, {0: 1}, {0: -1}]),
    "empty queries": Case([{}, {1: 0}, {2: 1}], [{1: 1}, {}, {2: 5}]),
    "one weight": Case([{1: 2}], [{1: 1}, {1: 3}, {0: 1}, {1: -2}]),
    "huge norms": Case([{0: HUGE, 1: 1}], [{0: HUGE, 1: 1}, {0: -HUGE}, {1: 1}, {0: 1, 1: HUGE}]),
    "ten thousand weights": Case(
        [dict.fromkeys(range(10_000), 1), {7: 1}],
        [{7: 2}, dict.fromkeys(range(10_000), 1), {}, dict.fromkeys(range(5_000), 2)],
    ),
    "equal scores": Case([{0: 1, 1: 1}], [{0: 1, 1: 1}] * 70),
    "equal scores in different ways": Case([{0: 1, 1: 2}], [{0: 2}, {1: 1}, {0: 4, 1: -1}] * 9),
    "k beyond n": Case([{0: 1}], [{0: 1}, {1: 1}, {0: 2}], k=50),
}
CASES = [(kind, name) for kind, of in (("tokens", TOKENS), ("sparse", SPARSE)) for name in of]


def case_of(kind: str, name: str) -> Case:
    return TOKENS[name] if kind == "tokens" else SPARSE[name]


def arrays_of(kind: str, texts: list[Any], width: int) -> Arrays:
    """The arrays of a file."""
    offsets = np.cumsum([0, *map(len, texts)])
    if kind == "tokens":
        rows = [row for text in texts for row in text]
        return {
            "embeddings": np.array(rows, np.float32).reshape(len(rows), width),
            "offsets": offsets,
        }
    columns = [column for text in texts for column in text]
    weights = [float(weight) for text in texts for weight in text.values()]
    shape = np.array([len(texts), width])
    return {
        "format": np.array("csr"),
        "shape": shape,
        "indptr": offsets,
        "indices": np.array(columns, np.int32),
        "data": np.array(weights),
    }


def vectors_of(kind: str, arrays: Arrays) -> Any:
    if kind == "tokens":
        return TokenVectors(arrays["embeddings"], arrays["offsets"])
    return SparseVectors(
        arrays["indptr"], arrays["indices"], arrays["data"], int(arrays["shape"][1])
    )


def expected(kind: str, case: Case) -> list[list[tuple[int, float]]]:
    """The definition in plain Python."""
    lists = []
    for query in case.queries:
        scores: dict[int, float] = {}
        for number, doc in enumerate(case.docs):
            if kind == "tokens" and doc:
                best = np.array(query) @ np.array(doc).T
                scores[number] = float(best.max(axis=1).sum())
            elif kind == "sparse":
                shared = sorted(column for column in query if column in doc)
                scores[number] = float(sum(query[column] * doc[column] for column in shared))
        best_first = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
        lists.append(best_first[: case.k])
    return lists


def lists_of(ranking: Any) -> list[list[tuple[int, float]]]:
    ends = pairwise(ranking.offsets)
    docs, scores = ranking.docs.tolist(), ranking.scores.tolist()
    return [list(zip(docs[a:b], scores[a:b], strict=True)) for a, b in ends]


def write(folder: Path, kind: str, case: Case, shards: int) -> tuple[str, str, str]:
    """Queries, documents in one file, and in shards; a part needs a token."""
    width = 2 if kind == "tokens" else 10_001
    folder.mkdir()
    np.savez(folder / "q.npz", **arrays_of(kind, case.queries, width))
    np.savez(folder / "d.npz", **arrays_of(kind, case.docs, width))
    cuts = [len(case.docs) * number // shards for number in range(shards + 1)]
    for number, (first, last) in enumerate(pairwise(cuts)):
        np.savez(folder / f"part-{number}.npz", **arrays_of(kind, case.docs[first:last], width))
    return str(folder / "q.npz"), str(folder / "d.npz"), str(folder / "part-*.npz")


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_every_way_gives_what_the_definition_gives(kind, name, tmp_path):
    case = case_of(kind, name)
    metric: Any = "maxsim" if kind == "tokens" else "dot"
    q, d, shards = write(tmp_path / "files", kind, case, 2)
    queries = vectors_of(kind, dict(np.load(q)))
    docs = vectors_of(kind, dict(np.load(d)))
    want = expected(kind, case)
    for engine in ENGINES:
        assert lists_of(rank(queries, docs, case.k, metric=metric, engine=engine)) == want
    whole = rank(queries, docs, case.k, metric=metric)
    ways = [
        rank(q, d, case.k, metric=metric),
        rank(queries, prepare(docs), case.k, metric=metric),
        rank_shards(queries, d, case.k, metric=metric),
        rank_shards(queries, shards, case.k, metric=metric),
    ]
    with ThreadExecutor(2) as executor:
        ways.append(rank_shards(queries, shards, case.k, metric=metric, cluster=Cluster(executor)))
    for ranking in ways:
        assert lists_of(ranking) == want
        assert ranking.scores.tobytes() == whole.scores.tobytes()
        split = [
            None if each.tie_split is None else each.tie_split.tolist() for each in (ranking, whole)
        ]
        assert split[0] == split[1]
    for number, source in enumerate((d, shards)):
        run = str(tmp_path / f"{number}.npz")
        arguments = ["rank", q, source, "-k", str(case.k), "--metric", metric, "-o", run]
        assert main(arguments) == 0
        written = read_run(run)
        assert [sorted(written.row(row)) for row in range(len(want)) if want[row]] == [
            sorted(row) for row in want if row
        ]


def change(arrays: Arrays, **parts: Any) -> Arrays:
    return {**arrays, **parts}


LIES: dict[str, dict[str, tuple[Any, str]]] = {
    "tokens": {
        "NaN": (lambda a: change(a, embeddings=a["embeddings"] * np.nan), "nan"),
        "infinite": (lambda a: change(a, embeddings=a["embeddings"] + np.inf), "inf|nan"),
        "offsets that fall": (lambda a: change(a, offsets=[0, 3, 2, 4]), "fall"),
        "offsets beyond the end": (lambda a: change(a, offsets=[0, 1, 2, 9]), "offsets"),
        "offsets that begin late": (lambda a: change(a, offsets=[1, 2, 3, 4]), "offsets"),
        "negative offsets": (lambda a: change(a, offsets=[0, -1, 2, 4]), "offsets"),
        "no tokens at all": (
            lambda a: change(a, embeddings=a["embeddings"][:0], offsets=[0, 0, 0, 0]),
            "token|row|empty",
        ),
    },
    "sparse": {
        "NaN": (lambda a: change(a, data=a["data"] * np.nan), "nan"),
        "infinite": (lambda a: change(a, data=a["data"] * np.inf), "inf"),
        "offsets that fall": (lambda a: change(a, indptr=[0, 3, 2, 4]), "fall"),
        "offsets beyond the end": (lambda a: change(a, indptr=[0, 1, 2, 9]), "offsets"),
        "offsets that begin late": (lambda a: change(a, indptr=[1, 2, 3, 4]), "offsets"),
        "negative offsets": (lambda a: change(a, indptr=[0, -1, 2, 4]), "offsets"),
        "negative columns": (lambda a: change(a, indices=[0, -1, 1, 2]), "column"),
        "columns beyond the width": (lambda a: change(a, indices=[0, 1, 1, 2**31 - 1]), "column"),
        "duplicate columns": (lambda a: change(a, indices=[0, 1, 1, 2]), "twice"),
        "fewer rows than the shape says": (
            lambda a: change(a, shape=np.array([7, 10_001])),
            "rows",
        ),
    },
}
SOUND = {
    "tokens": [tokens([1, 2]), tokens([1, 1], [0, 3]), tokens([2, 0])],
    "sparse": [{0: 1}, {1: 1, 2: 2}, {5: 1}],
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in LIES for name in LIES[kind]])
def test_every_way_refuses_what_is_wrong_and_names_the_file(kind, name, tmp_path, capsys):
    metric: Any = "maxsim" if kind == "tokens" else "dot"
    case = Case(SOUND[kind][:1], SOUND[kind])
    q, d, shards = write(tmp_path / "files", kind, case, 1)
    lie, message = LIES[kind][name]
    broken = lie(dict(np.load(d)))
    (tmp_path / "lies").mkdir()
    lying = str(tmp_path / "lies" / "part-1.npz")
    np.savez(lying, **{key: np.asarray(value) for key, value in broken.items()})
    queries = vectors_of(kind, dict(np.load(q)))
    ways: list[Any] = [
        lambda: rank(queries, lying, 2, metric=metric),
        lambda: rank(lying, d, 2, metric=metric),
        lambda: rank_shards(queries, lying, 2, metric=metric),
        lambda: rank_shards(queries, [shards, lying], 2, metric=metric),
    ]
    if name != "fewer rows than the shape says":  # which only a file can say
        ways.append(lambda: rank(queries, prepare(vectors_of(kind, broken)), 2, metric=metric))
    for way in ways:
        with pytest.raises(AssayError, match=message):
            way()
    with pytest.raises(AssayError, match=r"part-1\.npz"):
        rank_shards(queries, [shards, lying], 2, metric=metric)
    for source in (lying, str(tmp_path / "lies" / "part-*.npz")):
        run = tmp_path / "run.npz"
        assert main(["rank", q, source, "--metric", metric, "-o", str(run)]) in (3, 4, 5)
        assert not run.exists()
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("way", ["rank", "shards", "command"])
def test_queries_without_tokens_find_nothing_if_dropped(way, tmp_path, capsys):
    case = Case([tokens([1, 2]), []], SOUND["tokens"])
    q, d, shards = write(tmp_path / "files", "tokens", case, 2)
    queries = vectors_of("tokens", dict(np.load(q)))
    if way == "command":
        for source in (d, shards):
            arguments = ["rank", q, source, "--metric", "maxsim", "-o", str(tmp_path / "r.npz")]
            assert main(arguments) != 0
            assert "has no tokens" in capsys.readouterr().err
            assert main([*arguments, "--zero", "drop"]) == 0
        return
    search: Any = rank if way == "rank" else rank_shards
    docs = d if way == "rank" else shards
    with pytest.raises(AssayError, match="has no tokens"):
        search(queries, docs, 2, metric="maxsim")
    found = lists_of(search(queries, docs, 2, metric="maxsim", zero="drop"))
    assert [len(row) for row in found] == [2, 0]
