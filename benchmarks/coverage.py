"""How often 95 % intervals of means hold the true mean, by measure, share of hits and queries.

Scores of a query are 0, or, with a hit, drawn from a law of the measure or from the real scores of
runs on Robust 2003, Cranfield and SciFact (those above 0). The default interval was chosen by this
table; the aim is 93.5 to 97 % in every cell.

    python benchmarks/coverage.py                    # simulated scores
    python benchmarks/coverage.py --real ../shared/data
    python benchmarks/coverage.py --groups           # groups of even and of Zipf sizes
    python benchmarks/coverage.py --methods score bca studentised percentile t --queries 10 50
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import assay
from assay.stats import interval, intervals

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
MEASURES: Final = ("RR", "P@10", "R@10", "nDCG@10", "AP")
AIM: Final = (0.935, 0.97)


def recalls(rng: np.random.Generator, n: int) -> Floats:
    """Recall of queries with at least one of a few relevant documents in reach."""
    relevant = rng.geometric(0.4, n)
    return np.maximum(rng.binomial(relevant, 0.5), 1) / relevant


# Scores of queries with a hit.
LAWS: Final[dict[str, Draw]] = {
    "RR": lambda rng, n: 1 / rng.geometric(0.35, n),
    "P@10": lambda rng, n: np.maximum(rng.binomial(10, rng.beta(1.5, 4, n)), 1) / 10,
    "R@10": recalls,
    "nDCG@10": lambda rng, n: rng.beta(1.5, 2, n),
    "AP": lambda rng, n: rng.beta(0.7, 2.5, n),
}


class Cell(NamedTuple):
    """One law of scores: the share of queries with a hit, and the true mean."""

    law: str
    hits: float
    draw: Draw
    mean: float


def simulated(hits: list[float]) -> Iterator[Cell]:
    """Yield the laws of all measures."""
    for name, law in LAWS.items():
        mean = float(law(np.random.default_rng(0), 4_000_000).mean())
        for share in hits:
            yield Cell(name, share, law, share * mean)


def real(folder: Path, hits: list[float]) -> Iterator[Cell]:
    """Yield the real scores of all runs, as they are (share −1) and with another share of hits."""
    for run, scores in real_scores(folder):
        for measure, row in zip(MEASURES, np.asarray(scores.values), strict=True):
            values = row[~np.isnan(row)]
            found = values[values > 0]
            yield Cell(f"{run} {measure}", -1.0, _choose_from(values), float(values.mean()))
            for share in hits:
                mean = share * float(found.mean())
                yield Cell(f"{run} {measure}", share, _choose_from(found), mean)


def _choose_from(values: Floats) -> Draw:
    return lambda rng, n: rng.choice(values, n)


def real_scores(folder: Path) -> Iterator[tuple[str, assay.Scores]]:
    """Score five runs of Robust 2003, and MiniLM on Cranfield and SciFact."""
    qrels = str(folder / "robust03" / "robust03_qrels.txt.gz")
    for path in sorted((folder / "robust03").glob("input.*")):
        yield path.name.split(".")[1], assay.evaluate(str(path), qrels, MEASURES)
    for name in ("cranfield", "scifact"):
        vectors = np.load(folder / name / "minilm.npz")
        with gzip.open(folder / name / "corpus.jsonl.gz", "rt") as file:
            docs = [str(json.loads(line)["_id"]) for line in file]
        with open(folder / name / "queries.jsonl", encoding="utf-8") as file:
            queries = [str(json.loads(line)["_id"]) for line in file]
        scores = vectors["queries"].astype(np.float32) @ vectors["docs"].astype(np.float32).T
        run = {
            query: {docs[place]: float(row[place]) for place in np.argsort(-row)[:1000]}
            for query, row in zip(queries, np.nan_to_num(scores, nan=-9.0), strict=True)
        }
        judged = str(folder / name / "qrels.trec")
        yield name, assay.evaluate(run, judged, MEASURES, allow_mismatch=True)


def cover(cell: Cell, n: int, method: str, samples: int) -> tuple[float, float]:
    """Return the share of samples whose interval holds the mean, and the mean width."""
    rng = np.random.default_rng([n, round(1000 * abs(cell.hits))])
    values = cell.draw(rng, samples * n).reshape(samples, n)
    if cell.hits >= 0:
        values = np.where(rng.random(values.shape) < cell.hits, values, 0.0)
    ends = intervals(values, method=method, resamples=1000, bounds=[(0.0, 1.0)] * samples)
    held = [cell.mean in each for each in ends]
    return float(np.mean(held)), float(np.nanmean([each.half_width for each in ends]))


def print_cells(cells: list[Cell], options: argparse.Namespace) -> None:
    """Print the coverage of each cell, and of each method in how many cells it meets the aim."""
    numbers = {method: [] for method in options.methods}
    print("| scores | share with a hit |", *(f"n = {n} |" for n in options.queries))
    print("|---|---|" + "---|" * len(options.queries))
    for cell in cells:
        texts = []
        for n in options.queries:
            shares = []
            for method in options.methods:
                held, width = cover(cell, n, method, options.samples)
                numbers[method].append((held, width))
                shares.append(f"{100 * held:.1f}")
            texts.append(" / ".join(shares))
        share = "as it is" if cell.hits < 0 else f"{cell.hits:g}"
        print(f"| {cell.law} | {share} | {' | '.join(texts)} |", flush=True)
    print("\n| method | 93.5–97 % | below 93.5 % | above 97 % | least | most | width |")
    print("|---|---|---|---|---|---|---|")
    first = np.array(numbers[options.methods[0]])[:, 1]
    for method, pairs in numbers.items():
        held, width = np.array(pairs).T
        inside = [(held >= AIM[0]) & (held <= AIM[1]), held < AIM[0], held > AIM[1]]
        shares = " | ".join(f"{100 * part.mean():.0f} %" for part in inside)
        ends = f"{100 * held.min():.1f} | {100 * held.max():.1f}"
        print(f"| `{method}` | {shares} | {ends} | {np.nanmean(width / first):.2f} |")


def print_groups(options: argparse.Namespace) -> None:
    """Print the coverage with groups of queries, by sizes and intraclass correlation."""
    print("| values | groups | queries | sizes | correlation | effective |", *options.methods)
    print("|---|---|---|---|---|---|" + "---|" * len(options.methods))
    rng = np.random.default_rng(5)
    rank_mean = float(LAWS["RR"](rng, 4_000_000).mean())
    for kind, mean in (("hits", 0.5), ("RR", 0.4)):
        for n_groups, n, even in _GROUPS:
            weight = np.ones(n_groups) if even else 1 / np.arange(1, n_groups + 1)
            for correlation in (0.05, 0.3):
                held, effective = dict.fromkeys(options.methods, 0), []
                for number in range(options.samples):
                    sizes = np.maximum(1, rng.multinomial(n, weight / weight.sum()))
                    ab = np.array([mean, 1 - mean]) * (1 - correlation) / correlation
                    rates = np.repeat(rng.beta(*ab, n_groups), sizes)
                    values = (rng.random(len(rates)) < rates).astype(float)
                    truth = mean if kind == "hits" else mean * rank_mean
                    if kind == "RR":
                        values *= LAWS["RR"](rng, len(values))
                    groups = np.repeat(np.arange(n_groups), sizes)
                    for method in options.methods:
                        each = interval(
                            values,
                            method=method,
                            resamples=500,
                            seed=number,
                            clusters=groups,
                            bounds=(0.0, 1.0),
                        )
                        held[method] += truth in each
                    effective.append(each.groups)
                shares = " | ".join(f"{100 * each / options.samples:.1f}" for each in held.values())
                front = f"| {kind} | {n_groups} | {n} | {'even' if even else 'Zipf'}"
                middle = f"{correlation} | {np.mean(effective):.1f}"
                print(f"{front} | {middle} | {shares} |", flush=True)


_GROUPS: Final = (  # number, queries, whether of even size
    (10, 200, True),
    (10, 200, False),
    (20, 200, False),
    (40, 400, False),
    (100, 1000, False),
)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=Path, metavar="FOLDER", help="real scores in this folder")
    parser.add_argument("--groups", action="store_true", help="groups of queries")
    parser.add_argument("--methods", nargs="+", default=["score"])
    parser.add_argument("--samples", type=int, default=2000, help="of each cell")
    parser.add_argument("--queries", type=int, nargs="+", default=[10, 25, 50, 200, 1000])
    parser.add_argument(
        "--hits", type=float, nargs="+", default=[0.02, 0.05, 0.1, 0.25, 0.4, 0.7, 1.0]
    )
    options = parser.parse_args()
    if options.groups:
        print_groups(options)
    elif options.real:
        print_cells(list(real(options.real, options.hits)), options)
    else:
        print_cells(list(simulated(options.hits)), options)


if __name__ == "__main__":
    main()
