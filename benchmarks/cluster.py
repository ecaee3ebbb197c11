"""What a cluster costs beside the thread engine on the same cores, and how it grows.

    python benchmarks/cluster.py --quick     a minute, small sizes
    python benchmarks/cluster.py             10,000 × 1,000,000 × 128, as in docs/scaling.md
    python benchmarks/cluster.py --kind tokens --parts overhead     MaxSim: --docs and --queries are
                                                    texts of 64 and 16 tokens; or --kind sparse

Four parts: overhead (Ray and threads over shards against `rank` on one array), shards (time
against their number), memory (of the driver while the corpus grows four times), and model (the
cost model against measured times). Start-up of Ray is timed apart. benchmarks/README.md says more.
"""

from __future__ import annotations

import sys

if sys.path and sys.path[0].endswith("benchmarks"):
    sys.path.append(sys.path.pop(0))  # last, or files here would hide standard modules

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

PARTS = ("overhead", "shards", "memory", "model")
_PART_ROWS = 50_000  # made at a time


def make_docs(path: Path, rows: int, columns: int) -> None:
    """Unit vectors in one .npy file, made piece by piece."""
    docs = np.lib.format.open_memmap(path, "w+", np.float32, (rows, columns))
    rng = np.random.default_rng(1)
    for start in range(0, rows, _PART_ROWS):
        part = rng.standard_normal((min(_PART_ROWS, rows - start), columns), dtype=np.float32)
        docs[start : start + len(part)] = part / np.linalg.norm(part, axis=1, keepdims=True)
    docs.flush()


def write_shards(docs: Path, folder: Path, count: int) -> str:
    """The same rows in so many files."""
    rows = np.load(docs, mmap_mode="r")
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        first, last = len(rows) * number // count, len(rows) * (number + 1) // count
        np.save(folder / f"part-{number}.npy", rows[first:last])
    return str(folder / "part-*.npy")


def make_queries(count: int, columns: int) -> np.ndarray:
    return np.random.default_rng(2).standard_normal((count, columns), dtype=np.float32)


def write_ragged(sizes: argparse.Namespace, folder: Path) -> tuple[Any, Any, str]:
    """Queries, the file of all documents, and shards: of tokens, or of sparse weights."""
    from assay.arrays import offsets_of
    from assay.search.engine import SparseVectors, TokenVectors

    rng, columns = np.random.default_rng(1), sizes.columns

    def make(texts: int, each: int) -> Any:
        offsets = offsets_of(rng.integers(each // 2, each * 3 // 2, texts))
        if sizes.kind == "tokens":
            values = rng.standard_normal((offsets[-1], columns), dtype=np.float32)
            return TokenVectors(values / np.linalg.norm(values, axis=1, keepdims=True), offsets)
        lengths, width = np.diff(offsets), 30_000
        steps = np.minimum(rng.zipf(1.3, offsets[-1]), width // (2 * each))
        ends = np.repeat(np.cumsum(steps)[offsets[:-1]] - steps[offsets[:-1]], lengths)
        numbers = (np.cumsum(steps) - ends) % width
        return SparseVectors(offsets, numbers, rng.gamma(2.0, size=offsets[-1]), width)

    def save(file: Path, part: Any) -> None:
        if sizes.kind == "tokens":
            np.savez(file, embeddings=part.values, offsets=part.offsets)
        else:
            arrays = {"indptr": part.offsets, "indices": part.columns, "data": part.weights}
            np.savez(file, format=np.array("csr"), shape=np.array(part.shape), **arrays)

    docs, queries = make(sizes.docs, 64), make(sizes.queries, 16)
    save(folder / "docs.npz", docs)
    shards = folder / "ragged"
    shards.mkdir()
    for number in range(sizes.shards):
        first, last = (len(docs) * at // sizes.shards for at in (number, number + 1))
        save(shards / f"part-{number}.npz", docs[first:last])
    return queries, folder / "docs.npz", str(shards / "part-*.npz")


def timed(function: Any, clock: Any = time.perf_counter) -> tuple[float, Any]:
    start = clock()
    value = function()
    return clock() - start, value


def same(left: Any, right: Any) -> bool:
    return (
        left.docs.tobytes() == right.docs.tobytes()
        and left.scores.tobytes() == right.scores.tobytes()
    )


def overhead(sizes: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """One array on threads, then shards on threads and on Ray; they take turns."""
    from assay.cluster import open_cluster, rank_shards
    from assay.search.engine import rank

    metric: Any = {"dense": "cosine", "tokens": "maxsim", "sparse": "dot"}[sizes.kind]
    if sizes.kind == "dense":
        docs = folder / "docs.npy"
        shards = write_shards(docs, folder / "overhead", sizes.shards)
        queries: Any = make_queries(sizes.queries, sizes.columns)
    else:
        queries, docs, shards = write_ragged(sizes, folder)
    times: dict[str, list[float]] = {}
    cores: dict[str, list[float]] = {}
    journals: dict[str, Any] = {}
    for turn in range(sizes.repeats):
        start = time.process_time()
        seconds, want = timed(
            lambda: rank(queries, docs, sizes.k, metric=metric, threads=sizes.workers)
        )
        times.setdefault("rank, threads", []).append(seconds)
        cores.setdefault("rank, threads", []).append(time.process_time() - start)
        for where, name in (("threads", "shards, threads"), ("local", "shards, Ray")):
            manager = open_cluster(where, workers=sizes.workers, query_block=sizes.query_block)
            start_up, cluster = timed(manager.__enter__)
            try:
                # Workers import what they need before the clock starts.
                rank_shards(queries[:64], shards, 1, metric=metric, cluster=cluster)
                workers = {step.worker for step in cluster.journal.steps}
                cluster.journal.steps.clear()
                before = _cpu_seconds(workers)
                seconds, got = timed(
                    lambda cluster=cluster: rank_shards(
                        queries, shards, sizes.k, metric=metric, cluster=cluster
                    )
                )
                cores.setdefault(name, []).append(_cpu_seconds(workers) - before)
            finally:
                manager.__exit__(None, None, None)
            if not same(want, got):
                raise SystemExit(f"{where}: not the same bytes")
            times.setdefault(name, []).append(seconds)
            journals[name] = {"start_up": start_up, **cluster.journal.totals()}
        print(f"turn {turn + 1}: " + ", ".join(f"{k} {v[-1]:.2f} s" for k, v in times.items()))
    base, least = min(times["rank, threads"]), min(cores["rank, threads"])
    return [
        {
            "way": name,
            "seconds": min(found),
            "ratio": min(found) / base,
            "core seconds": min(cores[name]),
            "ratio of these": min(cores[name]) / least,
            **journals.get(name, {}),
        }
        for name, found in times.items()
    ]


def _cpu_seconds(workers: set[str]) -> float:
    """Time of cores that this process and the workers, named host:process, have used so far."""
    total = time.process_time()
    for worker in workers:
        pid = int(worker.rpartition(":")[2])
        if pid != os.getpid():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def by_shards(sizes: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Time against the number of shards, on Ray that is started once."""
    from assay.cluster import Cluster, RayExecutor, rank_shards

    queries = make_queries(sizes.queries, sizes.columns)
    found = []
    with RayExecutor("local", workers=sizes.workers) as executor:
        for count in sizes.shard_counts:
            shards = write_shards(folder / "docs.npy", folder / f"by-{count}", count)
            cluster = Cluster(executor, query_block=sizes.query_block)
            rank_shards(queries[:64], shards, 1, cluster=Cluster(executor))
            seconds, _ = timed(
                lambda cluster=cluster, shards=shards: rank_shards(
                    queries, shards, sizes.k, cluster=cluster
                )
            )
            shutil.rmtree(folder / f"by-{count}")
            totals = cluster.journal.totals()
            busy = sum(kind["seconds"] for kind in totals.values())
            found.append(
                {
                    "shards": count,
                    "tasks": int(totals["search"]["tasks"]),
                    "seconds": seconds,
                    "search": totals["search"]["seconds"],
                    "merge": totals.get("merge", {}).get("seconds", 0.0),
                    "idle and moving": sizes.workers * seconds - busy,
                    "most held": cluster.journal.most_held,
                }
            )
    return found


_DRIVER = """
import sys
import numpy as np
from assay.cluster import open_cluster, rank_shards, evaluate_shards
from assay import Judgments

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("VmHWM"))

shards, workers, n, columns, k, block = sys.argv[1], *map(int, sys.argv[2:])
queries = np.random.default_rng(2).standard_normal((n, columns), dtype=np.float32)
with open_cluster("local", workers=workers, query_block=block) as cluster:
    rank_shards(queries[:64], shards, 1, cluster=cluster)
    found = [peak()]
    judged = Judgments.from_targets(np.arange(n) % 1000)
    evaluate_shards(queries, shards, judged, "RR", k=k, cluster=cluster)
    found.append(peak())
    rank_shards(queries, shards, k, cluster=cluster)
    print(*found, peak())
"""


def driver_memory(sizes: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Peak memory of the driver, in a process of its own, while the corpus grows four times."""
    found = []
    rows = len(np.load(folder / "docs.npy", mmap_mode="r"))
    for share in (4, 2, 1):
        part = folder / f"memory-{share}.npy"
        docs = np.load(folder / "docs.npy", mmap_mode="r")[: rows // share]
        np.save(part, docs)
        shards = write_shards(part, folder / f"memory-{share}", sizes.shards * 4 // share)
        part.unlink()
        arguments = [
            shards,
            sizes.workers,
            sizes.queries // 4,
            sizes.columns,
            sizes.k,
            sizes.query_block,
        ]
        done = subprocess.run(
            [sys.executable, "-c", _DRIVER, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        before, scores, after = (int(word) / 1024 for word in done.stdout.split())
        found.append(
            {"docs": rows // share, "before MB": before, "evaluate MB": scores, "rank MB": after}
        )
        shutil.rmtree(folder / f"memory-{share}")
    return found


def model(sizes: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """What the cost model says of two sizes, and what was measured: time of cores."""
    from assay.cluster import Cluster, ThreadExecutor, plan_shards, rank_shards

    found = []
    for part in (4, 1):
        queries = make_queries(sizes.queries // part, sizes.columns)
        shards = write_shards(folder / "docs.npy", folder / "model", sizes.shards)
        plan = plan_shards(queries, shards, sizes.k, query_block=sizes.query_block)
        with ThreadExecutor(sizes.workers) as executor:
            cluster = Cluster(executor, query_block=sizes.query_block)
            seconds, _ = timed(
                lambda cluster=cluster, queries=queries, shards=shards: rank_shards(
                    queries, shards, sizes.k, cluster=cluster
                ),
                time.process_time,
            )
        found.append(
            {
                "queries": len(queries),
                "docs": plan.n_docs,
                "model core s": plan.seconds,
                "measured core s": seconds,
                "ratio": seconds / plan.seconds,
                "Gflop/s of a core": plan.flops / seconds / 1e9,
                **plan.rates._asdict(),
            }
        )
        shutil.rmtree(folder / "model")
    return found


def constants(sizes: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Speed of reading a shard (from the page cache) and of merging lists, on one core."""
    from assay.cluster.searching import lists_of, merge_lists
    from assay.search.engine import rank

    docs = np.load(folder / "docs.npy", mmap_mode="r")
    float(np.asarray(docs[: 1 << 18]).sum())
    seconds, _ = timed(lambda: float(np.asarray(docs[: 1 << 18]).sum()), time.process_time)
    queries = make_queries(2000, sizes.columns)
    some = np.array(docs[:40_000])
    parts = [
        lists_of(rank(queries, some[a : a + 5000], sizes.k), a, None)
        for a in range(0, len(some), 5000)
    ]
    merging, _ = timed(lambda: merge_lists(parts, sizes.k, keep_ties=False), time.process_time)
    entries = sum(len(part.docs) for part in parts)
    return {
        "read GB/s": docs[: 1 << 18].nbytes / seconds / 1e9,
        "merged entries/s": entries / merging,
    }


def show(title: str, rows: list[dict[str, Any]]) -> None:
    print(f"\n{title}")
    for row in rows:
        flat = {key: value for key, value in row.items() if not isinstance(value, dict)}
        print("  " + "  ".join(f"{key} {_short(value)}" for key, value in flat.items()))
        for key, value in row.items():
            if isinstance(value, dict):
                print(f"    {key}: " + "  ".join(f"{k} {_short(v)}" for k, v in value.items()))


def _short(value: Any) -> str:
    return (
        f"{value:.4g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--docs", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--shard-counts", type=int, nargs="+", default=[2, 8, 32, 128])
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--query-block", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--kind", choices=("dense", "tokens", "sparse"), default="dense")
    parser.add_argument("--json", action="store_true")
    sizes = parser.parse_args()
    if sizes.quick:
        sizes.queries, sizes.docs, sizes.repeats = 2000, 100_000, 1
        sizes.shard_counts, sizes.query_block = [2, 8, 32], 1024
    if sizes.kind != "dense" and list(sizes.parts) != ["overhead"]:
        parser.error("--kind tokens and --kind sparse go with --parts overhead")
    ways = {"overhead": overhead, "shards": by_shards, "memory": driver_memory, "model": model}
    print(
        f"{sizes.queries:,} × {sizes.docs:,} × {sizes.columns}, k {sizes.k}, {sizes.workers} "
        f"workers; load {os.getloadavg()[0]:.1f}"
    )
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="assay-cluster-") as name:
        folder = Path(name)
        if sizes.kind == "dense":
            make_docs(folder / "docs.npy", sizes.docs, sizes.columns)
            results["constants"] = [constants(sizes, folder)]
            show("constants", results["constants"])
        for part in sizes.parts:
            results[part] = ways[part](sizes, folder)
            show(part, results[part])
    print(f"load {os.getloadavg()[0]:.1f}")
    if sizes.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
