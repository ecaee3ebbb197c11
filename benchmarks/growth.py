"""How time and memory grow with queries, documents and systems: python benchmarks/growth.py

Each command is measured at four sizes, each ten times the last, in a process of its own: seconds
of all cores, and the memory beyond what its inputs take. The exponent is that of the last decade:
1 is linear. It prints the rows of docs/growth.md; `--only rank` measures some of them,
`--largest 1` two decades only.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RNG = np.random.default_rng(7)
MEASURES = ["nDCG@10", "AP", "RR@10"]
Work = Callable[[], Any]


def write_run(folder: Path, n_queries: int, n_docs: int) -> tuple[Path, Path]:
    """Write a run of so many documents per query, and ten judgments of each query."""
    run, qrels = folder / "a.run", folder / "qrels.txt"
    with run.open("w") as to_run, qrels.open("w") as to_qrels:
        for query in range(n_queries):
            docs = RNG.permutation(2 * n_docs)[:n_docs].tolist()
            lines = [f"q{query} Q0 d{doc} 0 {n_docs - at} a\n" for at, doc in enumerate(docs)]
            to_run.writelines(lines)
            to_qrels.writelines(f"q{query} 0 d{doc} 1\n" for doc in sorted(docs)[:10])
    return run, qrels


def evaluate_files(n_queries: int, n_docs: int) -> Work:
    """Return `evaluate` of a file."""
    import assay

    files = write_run(Path(tempfile.mkdtemp(dir=FOLDER)), n_queries, n_docs)
    return lambda: assay.evaluate(*files, MEASURES).mean()


def compare_scores(n_systems: int, n_queries: int, baseline: bool = True) -> Work:
    """Return `compare` of systems whose lists of ten hold one relevant document each."""
    import assay

    docs, target = np.tile(np.arange(10), (n_queries, 1)), np.zeros(n_queries, np.int64)
    numbers = np.arange(n_queries)
    names = assay.Ids.of([f"q{number}" for number in numbers]), assay.Ids.of(list("abcdefghij"))
    qrels = assay.Judgments.from_pairs(*names, numbers, target, np.ones(n_queries))
    ids = {"query_ids": names[0], "doc_ids": names[1]}
    scores = {
        f"s{system}": assay.evaluate(
            assay.Ranking.from_arrays(docs, RNG.normal(size=docs.shape), **ids), qrels, ["RR@10"]
        )
        for system in range(n_systems)
    }
    how = {"names": list(scores), "baseline": "s0" if baseline else None, "resamples": 1000}
    return lambda: assay.compare(*scores.values(), **how)


def rank_vectors(n_queries: int, n_docs: int, k: int = 10) -> Work:
    """Return `rank` of unit vectors with 64 dimensions."""
    import assay

    queries, docs = (RNG.normal(size=(n, 64)).astype(np.float32) for n in (n_queries, n_docs))
    return lambda: assay.rank(queries, docs, k)


def pool_runs(n_systems: int, n_queries: int, n_docs: int) -> Work:
    """Return `make_pool` of 200 labels from rankings."""
    import assay
    from assay.judging import make_pool

    ids = {"query_ids": [f"q{number}" for number in range(n_queries)]}
    ids["doc_ids"] = [f"d{number}" for number in range(2 * n_docs)]
    places = np.argsort(RNG.random((n_systems, n_queries, 2 * n_docs)), axis=2)[..., :n_docs]
    runs = {f"s{at}": assay.Ranking.from_arrays(part, **ids) for at, part in enumerate(places)}
    return lambda: make_pool(runs, 200)


def bench_texts(n_models: int, n_queries: int, n_docs: int) -> Work:
    """Return `run_bench` of BM25 on texts of forty words, k1 different for each model."""
    import assay
    from assay.bench import run_bench
    from assay.io.collections import Collection

    words = np.array([f"w{number}" for number in range(5000)])
    texts = [" ".join(words[(5000 * RNG.random(40) ** 3).astype(int)]) for _ in range(n_docs)]
    docs, queries = (
        assay.Ids.of([f"{kind}{number}" for number in range(n)])
        for kind, n in (("d", n_docs), ("q", n_queries))
    )
    targets = RNG.integers(0, n_docs, n_queries)
    asked = [" ".join(texts[target].split()[:4]) for target in targets]
    qrels = assay.Judgments.from_pairs(
        queries, docs, np.arange(n_queries), targets, np.ones(n_queries)
    )
    collection = Collection(docs, texts, queries, asked, qrels, "made up")
    models = [f"bm25?k1={1 + at / 1000}" for at in range(n_models)]
    return lambda: run_bench(collection, models)


class Case(NamedTuple):
    """What grows, its first size, the work of a size, and the least exponent there can be."""

    grows: str
    first: int
    work: Callable[[int], Work]
    limit: str
    sizes: int = 4


# Limits: every line, vector, score or label is read once; ranks of systems rest on all n² pairs.
CASES = {
    "eval queries": Case("queries × 100 documents", 10, lambda n: evaluate_files(n, 100), "1"),
    "eval documents": Case("documents × 100 queries", 10, lambda n: evaluate_files(100, n), "1"),
    "compare queries": Case("queries, 3 systems", 100, lambda n: compare_scores(3, n), "1"),
    "compare systems": Case("systems against one", 2, lambda n: compare_scores(n, 50), "2", 3),
    "compare pairs": Case(
        "systems, all pairs", 2, lambda n: compare_scores(n, 50, baseline=False), "2", 3
    ),
    "rank queries": Case("queries × 10,000 documents", 10, lambda n: rank_vectors(n, 10_000), "1"),
    "rank documents": Case("documents × 100 queries", 1000, lambda n: rank_vectors(100, n), "1"),
    "pool queries": Case("queries, 4 systems", 10, lambda n: pool_runs(4, n, 20), "1"),
    "pool documents": Case("documents a list", 10, lambda n: pool_runs(4, 20, n), "1"),
    "pool systems": Case("systems, 20 queries", 2, lambda n: pool_runs(n, 20, 10), "1"),
    "bench queries": Case("queries × 1,000 documents", 10, lambda n: bench_texts(1, n, 1000), "1"),
    "bench documents": Case("documents, 50 queries", 100, lambda n: bench_texts(1, 50, n), "1"),
    "bench systems": Case("models, all pairs", 1, lambda n: bench_texts(n, 50, 500), "2", 3),
}
FOLDER = tempfile.gettempdir()


def peak_bytes(field: str) -> int:
    """Return VmRSS or VmHWM of this process (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def measure(name: str, size: int) -> dict[str, float]:
    """Measure one size in this process; smaller work first loads all that is loaded once."""
    case = CASES[name]
    case.work(case.first)()
    work = case.work(size)
    before = peak_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
    start = time.process_time()
    result = work()
    seconds = time.process_time() - start
    del result
    return {"seconds": seconds, "bytes": max(peak_bytes("VmHWM") - before, 0)}


def grow(name: str, largest: int) -> dict[str, Any]:
    """Measure all sizes of a case, each in a process of its own."""
    case = CASES[name]
    sizes = [case.first * 10**step for step in range(min(case.sizes, largest + 2))]
    points = []
    for size in sizes:
        command = [sys.executable, __file__, "--child", name, str(size)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        points.append(json.loads(printed.splitlines()[-1]))
    last, end = points[-2:]
    exponent = {key: math.log10(max(end[key], 1e-9) / max(last[key], 1e-9)) for key in end}
    return {"name": name, "sizes": sizes, "points": points, "exponent": exponent}


def show(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    case, points, exponent = CASES[row["name"]], row["points"], row["exponent"]
    seconds = " · ".join(f"{point['seconds']:.2g}" for point in points)
    memory = " · ".join(f"{point['bytes'] / 2**20:.0f}" for point in points)
    sizes = f"{row['sizes'][0]:,} … {row['sizes'][-1]:,}"
    by_time, by_memory = (f"{exponent[key]:.2f}" for key in ("seconds", "bytes"))
    cells = (row["name"].split()[0], case.grows, sizes, seconds, by_time, memory, by_memory)
    return f"| {' | '.join(cells)} | {case.limit} |"


def main() -> None:
    """Measure, and print a row for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    parser.add_argument("--largest", type=int, default=2, help="decades, less one")
    parser.add_argument("--json", action="store_true", help="print everything for a program")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child[0], int(options.child[1]))))
        return
    for name in CASES:
        if not options.only or name.startswith(tuple(options.only)):
            row = grow(name, options.largest)
            print(json.dumps(row) if options.json else show(row), flush=True)


if __name__ == "__main__":
    main()
