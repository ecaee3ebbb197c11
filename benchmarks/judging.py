"""How well intervals from few labels cover the truth, what labels save, and how fast a pool is.

Five runs of TREC Robust 2003 (`FOLDER` holds input.*.gz and robust03_qrels.txt.gz) make ten pairs.
Their 100 queries are the population. A draw resamples queries, draws labels with probability
proportional to weight, and makes machine labels by one of four judges; the interval should hold the
population's difference of DCG@10 in 95 % of draws.

    python benchmarks/judging.py FOLDER --draws 1000
    python benchmarks/judging.py FOLDER --savings --draws 200
    python benchmarks/judging.py FOLDER --plan --draws 200
    python benchmarks/judging.py --speed
"""

from __future__ import annotations

import argparse
import math
import resource
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.core.ranking import Ranking
from assay.io.formats import read_qrels, read_run
from assay.judging import (
    DrawnLabels,
    Label,
    LabelLog,
    LabelSession,
    LabelTexts,
    make_pool,
    parse_linear,
)
from assay.judging.pool import inclusion_probabilities, weigh_systems

Numbers = NDArray[Any]
NAMES: Final = ("InexpC2", "NLPR03vb10", "pircRBa1", "rutcor03100", "MU03rob01")
JUDGES: Final = ("labels alone", "good", "useless", "biased", "adversarial")


def machine_gains(judge: str, gains: Numbers, weights: Numbers, rng: Any) -> Numbers:
    """Return what a judge says: right in 85 to 90 %, at random, for one system, or turned round."""
    number = rng.random(len(gains))
    relevant = gains > 0
    if judge == "labels alone":
        return np.zeros(len(gains))
    if judge == "good":
        says = np.where(relevant, number < 0.85, number < 0.1)
    elif judge == "useless":
        says = number < 0.4
    elif judge == "biased":
        says = np.where(relevant, number < 0.8, number < np.where(weights > 0, 0.25, 0.1))
    else:
        says = np.where(relevant, number < 0.1, number < 0.85)
    return says.astype(float)


class Pair:
    """The documents on which two systems differ, with their true gains."""

    def __init__(self, a: Ranking, b: Ranking, grades: dict[tuple[str, str], float]) -> None:
        weighed = weigh_systems([a, b], parse_linear("DCG@10"))
        difference = weighed.weights[:, 0] - weighed.weights[:, 1]
        heavy = np.abs(difference) > 1e-12
        self.weights, self.rows = difference[heavy], weighed.queries[heavy]
        self.n = len(weighed.query_ids)
        queries, docs = weighed.query_ids.to_list(), weighed.doc_ids.to_list()
        numbers = zip(self.rows.tolist(), weighed.docs[heavy].tolist(), strict=True)
        named = [(str(queries[q]), str(docs[d])) for q, d in numbers]
        self.gains = np.array([float(grades.get(pair, 0) > 0) for pair in named])
        values = np.bincount(self.rows, self.weights * self.gains, minlength=self.n)
        self.truth = float(values.mean())
        self.places = [np.flatnonzero(self.rows == row) for row in range(self.n)]
        full = DrawnLabels(
            self.rows,
            self.n,
            self.weights,
            np.ones(len(self.rows)),
            np.ones(len(self.rows), bool),
            self.gains,
            np.zeros(len(self.rows)),
        ).estimate()[0]
        self.verdict = (full.low > 0) - (full.high < 0)

    def draw(self, m: float, judge: str, rng: Any, *, resample: bool = True) -> DrawnLabels:
        """Draw queries, labels and machine labels."""
        drawn = rng.integers(0, self.n, self.n) if resample else np.arange(self.n)
        at = np.concatenate([self.places[row] for row in drawn])
        rows = np.repeat(np.arange(self.n), [len(self.places[row]) for row in drawn])
        weights, gains = self.weights[at], self.gains[at]
        size = np.abs(weights)
        chances = inclusion_probabilities(size, np.zeros(len(size)), float(m))
        labelled = rng.random(len(size)) < chances
        machine = machine_gains(judge, gains, weights, rng)
        seen = np.where(labelled, gains, 0.0)
        return DrawnLabels(rows, self.n, weights, chances, labelled, seen, machine)


def read_pairs(folder: Path) -> dict[str, Pair]:
    """Return the ten pairs of runs."""
    qrels: Any = read_qrels(folder / "robust03_qrels.txt.gz")
    queries, docs = qrels.query_ids.to_list(), qrels.doc_ids.to_list()
    grades = {
        (str(queries[row]), str(docs[qrels.docs[at]])): float(qrels.grades[at])
        for row in range(len(queries))
        for at in range(qrels.offsets[row], qrels.offsets[row + 1])
    }
    runs = {name: read_run(folder / f"input.{name}.gz") for name in NAMES}
    return {f"{a} − {b}": Pair(runs[a], runs[b], grades) for a, b in combinations(NAMES, 2)}


def print_coverage(pairs: dict[str, Pair], sizes: list[int], draws: int) -> None:
    """Print share of draws whose interval holds the truth, and the mean half width."""
    print("| pair | difference | labels | " + " | ".join(JUDGES) + " |")
    print("|:---|---:|---:|" + "---:|" * len(JUDGES))
    every: dict[str, list[float]] = {}
    for number, (name, pair) in enumerate(pairs.items()):
        for m in sizes:
            cells = []
            for place, judge in enumerate(JUDGES):
                rng = np.random.default_rng([number, m, place])
                intervals = [pair.draw(m, judge, rng).estimate()[0] for _ in range(draws)]
                covered = float(np.mean([pair.truth in each for each in intervals]))
                half = float(np.mean([each.half_width for each in intervals]))
                every.setdefault(judge, []).append(covered)
                cells.append(f"{100 * covered:.1f} % ± {half:.2f}")
            print(f"| {name} | {pair.truth:+.2f} | {m} | " + " | ".join(cells) + " |", flush=True)
    means = [
        f"{100 * np.mean(c):.1f} % ({100 * min(c):.1f}–{100 * max(c):.1f})" for c in every.values()
    ]
    print("| all (least–most) | | | " + " | ".join(means) + " |")


def print_savings(pairs: dict[str, Pair], draws: int) -> None:
    """Print how many labels reach the verdict of the full pool in 80 % of draws."""
    print("| pair | pairs in full pool | verdict | labels alone | with a good judge |")
    print("|:---|---:|:---|---:|---:|")
    words = {1: "first leads", -1: "second leads", 0: "not separable"}
    for number, (name, pair) in enumerate(pairs.items()):
        cells = []
        for judge in ("labels alone", "good"):
            answer = "all"
            for m in (25, 50, 75, 100, 150, 200, 300, 400, 600, 800, 1200):
                rng = np.random.default_rng([number, m])
                ends = [
                    pair.draw(m, judge, rng, resample=False).estimate()[0] for _ in range(draws)
                ]
                same = np.mean([((e.low > 0) - (e.high < 0)) == pair.verdict for e in ends])
                if same >= 0.8:
                    answer = str(m)
                    break
            cells.append(answer)
        verdict = words[int(pair.verdict)]
        print(
            f"| {name} | {len(pair.rows):,} | {verdict} | " + " | ".join(cells) + " |", flush=True
        )


def print_plan(pairs: dict[str, Pair], sizes: list[int], draws: int) -> None:
    """Print what half width the planned number of labels gives, over the one that was wanted."""
    print(
        "| labels now | judge | wanted | reached / wanted | within 10 % | never | of these wrong |"
    )
    print("|---:|:---|---:|---:|---:|---:|---:|")
    for m in sizes:
        for judge in ("labels alone", "good"):
            for share in (0.8, 0.65, 0.5):
                ratios, never, wrong = [], 0, 0
                for number, pair in enumerate(pairs.values()):
                    for draw in range(draws):
                        seed = [number, m, draw]
                        now = pair.draw(m, judge, np.random.default_rng(seed))
                        goal = share * now.estimate()[0].half_width
                        more = now.labels_needed(goal)
                        if math.isnan(more):
                            continue
                        # The same queries and the same random number of each pair.
                        rng = np.random.default_rng(seed)
                        size = len(now.rows) if math.isinf(more) else m + more
                        half = pair.draw(size, judge, rng).estimate()[0].half_width
                        if math.isinf(more):
                            never, wrong = never + 1, wrong + (half < goal)
                        else:
                            ratios.append(half / goal)
                if not ratios:
                    missed = f"{wrong / never:.0%}"
                    print(f"| {m} | {judge} | {share:.0%} of now | – | – | 100% | {missed} |")
                    continue
                near, n = np.mean([abs(ratio - 1) <= 0.1 for ratio in ratios]), len(ratios) + never
                print(
                    f"| {m} | {judge} | {share:.0%} of now | {np.mean(ratios):.3f} | {near:.0%} | "
                    f"{never / n:.0%} | {wrong / max(never, 1):.0%} |",
                    flush=True,
                )


def print_speed(n_systems: int = 20, n_queries: int = 10_000, depth: int = 100) -> None:
    """Print how long a pool of many systems takes, and its memory."""
    rng = np.random.default_rng(0)
    query_ids, doc_ids = (
        [f"{letter}{i}" for i in range(n)] for letter, n in (("q", n_queries), ("d", 200_000))
    )
    runs = {}
    first = rng.integers(0, 199_000, (n_queries, 1))
    for number in range(n_systems):
        orders = np.array([rng.permutation(3 * depth // 2)[:depth] * 6 for _ in range(100)])
        docs = first + orders[rng.integers(0, 100, n_queries)]
        runs[f"s{number}"] = Ranking.from_arrays(docs, query_ids=query_ids, doc_ids=doc_ids)
    began, busy = time.perf_counter(), time.process_time()
    pool = make_pool(runs, 500)
    pool.write("pool.tsv")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{n_systems} systems × {n_queries:,} queries × {depth} documents: {len(pool):,} pairs in "
        f"{time.perf_counter() - began:.1f} s ({time.process_time() - busy:.1f} s of one core), "
        f"peak {memory:.2f} GB"
    )


def print_keys(n_queries: int = 2000, depth: int = 30) -> None:
    """Print how long a labeller waits after a key, in a large pool that is nearly labelled."""
    runs = {
        name: {
            f"q{q}": [f"d{(q * 37 + rank * step) % 5000}" for rank in range(depth)]
            for q in range(n_queries)
        }
        for step, name in enumerate("abc", 1)
    }
    pool = make_pool(runs, method="all")
    texts = LabelTexts({}, {f"d{i}": "a text about a topic " * 100 for i in range(5000)}, {})
    with tempfile.TemporaryDirectory() as folder:
        log = LabelLog(Path(folder) / "labels.jsonl")
        made = pool.names[:100_000]
        log.append(*(Label(*pair, 1, "ab"[i % 2], pool=pool.digest) for i, pair in enumerate(made)))
        session = LabelSession(pool, log, "a", texts=texts)
        times = []
        for _ in range(100):
            pair = session.next_pair()
            assert pair is not None
            began = time.perf_counter()
            session.record(pair, 2)
            session.show(session.next_pair())
            times.append(time.perf_counter() - began)
    print(
        f"{len(pool):,} pairs, {len(made):,} labels: a key takes {1e3 * np.median(times):.1f} ms, "
        f"at most {1e3 * max(times):.1f} ms"
    )


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 200, 400])
    parser.add_argument("--savings", action="store_true")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    if options.speed:
        print_keys()
        print_speed()
        return
    if options.folder is None:
        parser.error("the folder of the runs is needed")
    pairs = read_pairs(options.folder)
    if options.savings:
        print_savings(pairs, options.draws)
    elif options.plan:
        print_plan(pairs, options.labels, options.draws)
    else:
        print_coverage(pairs, options.labels, options.draws)


if __name__ == "__main__":
    main()
