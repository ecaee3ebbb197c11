"""How often the default comparison errs: wrong separations, and intervals that miss.

For each kind of scores, number of systems and number of queries it prints in how many of the
replications any of equal systems were separated, and in how many all intervals held the true
difference of systems with unequal means. Both are 5 % and 95 % if the method is calibrated.

With `--verdicts` it prints how often systems are called better, and probably better, where their
means are equal, and where they are not (power): also for scores that no test of means can judge.

    python benchmarks/calibration.py --systems 2 5 10 --queries 10 25 50 --seconds 20
    python benchmarks/calibration.py --verdicts --systems 2 20 --queries 10 25 50 200
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import combinations, product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from assay.comparison.pairs import ComparisonSettings, compare_pairs
from assay.stats import compare_jointly, inverted_interval
from assay.stats.confidence import test_units

Table = NDArray[np.float64]
LEVEL: Final = 0.05


def bernoulli(rng: np.random.Generator, shifts: Table, n: int) -> tuple[Table, Table]:
    """Hits and misses; queries differ in difficulty."""
    ease = rng.uniform(0.2, 0.8, n)
    return (rng.random((len(shifts), n)) < ease + shifts[:, None]).astype(float), shifts


def beta(rng: np.random.Generator, shifts: Table, n: int) -> tuple[Table, Table]:
    """Values between 0 and 1 such as nDCG, with a common part for each query."""
    common = rng.beta(2, 2, n) * 0.5
    return common + 0.4 * rng.beta(2, 3, (len(shifts), n)) + shifts[:, None], shifts


def zero_inflated(rng: np.random.Generator, shifts: Table, n: int) -> tuple[Table, Table]:
    """Reciprocal ranks: most queries find nothing, in all systems alike."""
    found = rng.random((len(shifts), n)) < rng.uniform(0.1, 0.6, n) + shifts[:, None]
    return found / rng.integers(1, 6, found.shape), shifts * float(np.mean(1 / np.arange(1, 6)))


def heavy_tailed(rng: np.random.Generator, shifts: Table, n: int) -> tuple[Table, Table]:
    """Student's t with 3 degrees of freedom around a common value."""
    return rng.normal(size=n) + rng.standard_t(3, (len(shifts), n)) + shifts[:, None], shifts


def noisy(rng: np.random.Generator, shifts: Table, n: int) -> tuple[Table, Table]:
    """Two of the systems have ten times the spread of the others."""
    spread = np.where(np.arange(len(shifts)) < 2, 1.0, 0.1)[:, None]
    return rng.normal(size=n) + spread * rng.normal(size=(len(shifts), n)) + shifts[:, None], shifts


def clustered(rng: np.random.Generator, shifts: Table, n: int) -> tuple[Table, Table]:
    """Groups of 1 to 9 queries, of very uneven size, that share most of their noise."""
    groups = cluster_labels(n)
    shared = rng.normal(size=(len(shifts), int(groups.max()) + 1))[:, groups]
    return shared + 0.5 * rng.normal(size=(len(shifts), n)) + shifts[:, None], shifts


def cluster_labels(n: int) -> NDArray[np.int64]:
    """The group of each query, for n groups' worth of sizes 1, 1, 1, 2, 2, 3, 5, 9 in turn."""
    sizes = np.resize([1, 1, 1, 2, 2, 3, 5, 9], n)
    return np.repeat(np.arange(n), sizes)[:n]


KINDS: Final[dict[str, Callable[..., tuple[Table, Table]]]] = {
    each.__name__.replace("_", " "): each
    for each in (bernoulli, beta, zero_inflated, heavy_tailed, noisy, clustered)
}


def rare_losses(rng: np.random.Generator, better: bool, systems: int, n: int) -> Table:
    """Every second system wins a little on nearly all queries; others lose much on 5 %, or not."""
    values = rng.uniform(0.3, 0.6, n) + 0.01 * rng.normal(size=(systems, n))
    lost = 0.0 if better else np.where(rng.random((systems // 2, n)) < 0.05, 0.4, 0.0)
    values[::2][: systems // 2] += 0.02 - lost
    return values


def rare_hits(rng: np.random.Generator, better: bool, systems: int, n: int) -> Table:
    """Every second system hits a tenth of the queries; others have Beta(1, 9), or half of it."""
    values = (rng.random((systems, n)) < 0.1).astype(float)
    smooth = rng.beta(1, 9, (systems // 2, n))
    values[1::2] = smooth / 2 if better else smooth
    return values


def plain(rng: np.random.Generator, better: bool, systems: int, n: int) -> Table:
    """Values such as nDCG; every second system is better by 0.1, or equal."""
    values, _ = beta(rng, np.zeros(systems), n)
    values[::2] += 0.1 * better
    return values


VERDICTS: Final = {
    each.__name__.replace("_", " "): each for each in (plain, rare_losses, rare_hits)
}


def say(kind: str, better: bool, systems: int, n: int, limits: dict[str, float]) -> str:
    """Return in how many samples any system is called better, and any only probably."""
    rng = np.random.default_rng([systems, n, len(kind), better])
    names, pairs = [f"s{i}" for i in range(systems)], list(combinations(range(systems), 2))
    sure = unsure = number = 0
    begun = time.perf_counter()
    while number < limits["most"] and time.perf_counter() - begun < limits["seconds"] / 2:
        settings = ComparisonSettings(resamples=int(limits["resamples"]), seed=number)
        values = VERDICTS[kind](rng, better, systems, n)
        bounds = {"settings": settings, "clusters": None, "bounds": (0.0, 1.0)}
        outcomes = {pair.outcome for pair in compare_pairs("RR", names, values, pairs, **bounds)}
        flat = bool(outcomes & {"better", "worse"})
        sure += flat
        unsure += not flat and bool(outcomes & {"probably better", "probably worse"})
        number += 1
    return f"{sure / number:.1%} / {unsure / number:.1%} ({number:,})"


def one(
    values: Table, truth: Table, clusters: NDArray[np.int64] | None, resamples: int, seed: int
) -> bool:
    """Whether all intervals hold the true differences."""
    if len(values) == 2:
        test = test_units(values[0], values[1], clusters, resamples=resamples, seed=seed)
        separate = bool(test.p <= LEVEL)
        found = inverted_interval(
            values[0], values[1], test, level=LEVEL, separate=separate, clusters=clusters
        )
        return np.isnan(found.low) or found.low <= truth[0] - truth[1] <= found.high
    pairs = list(combinations(range(len(values)), 2))
    found = compare_jointly(
        values, pairs, clusters=clusters, level=LEVEL, resamples=resamples, seed=seed
    )
    first, second = np.array(pairs).T
    true = truth[first] - truth[second]
    known = ~np.isnan(found.low)
    return bool(((found.low <= true) & (true <= found.high))[known].all())


def cell(
    kind: str, systems: int, n: int, *, seconds: float, most: int, resamples: int
) -> tuple[float, float, int]:
    """Share of wrong separations of equal systems, coverage of unequal ones, replications."""
    rng = np.random.default_rng([systems, n, len(kind)])
    clusters = cluster_labels(n) if kind == "clustered" else None
    equal, spread = np.zeros(systems), np.linspace(0, 0.15, systems)
    wrong = held = number = 0
    begun = time.perf_counter()
    while number < most and time.perf_counter() - begun < seconds:
        values, truth = KINDS[kind](rng, equal, n)
        wrong += not one(values, truth, clusters, resamples, number)
        values, truth = KINDS[kind](rng, spread, n)
        held += one(values, truth, clusters, resamples, number)
        number += 1
    return wrong / number, held / number, number


def main() -> None:
    """Print a line for each cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", type=int, nargs="+", default=[2, 5, 10, 27, 100])
    parser.add_argument("--queries", type=int, nargs="+", default=[10, 25, 50, 200, 1000])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--seconds", type=float, default=20, help="at most, for each line")
    parser.add_argument("--most", type=int, default=10_000, help="replications, at most")
    parser.add_argument(
        "--resamples",
        type=int,
        default=999,
        help="of each comparison; 199 are as well calibrated, and let more replications be made",
    )
    parser.add_argument("--verdicts", action="store_true", help="what is said, and power")
    options = parser.parse_args()
    limits = {name: getattr(options, name) for name in ("seconds", "most", "resamples")}
    if options.verdicts:
        print("| scores | systems | queries | equal: better / probably | unequal: the same |")
        print("|---|---|---|---|---|")
        for kind, systems, n in product(VERDICTS, options.systems, options.queries):
            said = [say(kind, better, systems, n, limits) for better in (False, True)]
            print(f"| {kind} | {systems} | {n} | {' | '.join(said)} |", flush=True)
        return
    print("| scores | systems | queries | wrongly separated | all covered | replications |")
    print("|---|---|---|---|---|---|")
    for kind in options.kinds:
        for systems in options.systems:
            for n in options.queries:
                wrong, held, number = cell(kind, systems, n, **limits)
                print(
                    f"| {kind} | {systems} | {n} | {wrong:.1%} | {held:.1%} | {number:,} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
