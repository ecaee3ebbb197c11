"""Speed of descriptor evaluation beside an argsort and beside the matrix products alone.

    python benchmarks/descriptors.py [--scenes 116] [--pairs 5] [--keypoints 2000] [--dims 128]

Evaluation only: descriptors are there, every keypoint has a true match, and AP, Success@1, 5, 10 of
each and their means by scene are wanted. Three ways take turns on every pair of images: assay
(ranks of each pair, then all means at the end; and, on its own, ranks together with the nearest
neighbours that image matching needs, as experiments do), numpy (all distances, a stable argsort of
every row, the place of the true match), and the float32 matrix product of each pair alone, which is
the least that any of them must do. Each has one thread, and the seconds are those that the
processor spent on it, so that a busy machine strikes all alike. The argsort runs on every
`--every`-th pair and is scaled. Ranks must agree where no other keypoint is as near as the true
match, or the run stops: among ties the argsort takes one order, assay the mean of all.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from assay.native import engine_name
from assay.vision import DescriptorResult, rank_pair

WORDS = {
    "assay": "assay",
    "ranks": "  ranks of all pairs",
    "means": "  all scores and means",
    "matching": "ranks and nearest",
    "products": "matrix products alone",
    "argsort": "numpy, stable argsort",
}


def make_pair(keypoints: int, dims: int, seed: int) -> tuple[Any, Any, Any]:
    """Descriptors like SIFT's: whole numbers from 0 to 255; the second image is a noisy copy."""
    rng = np.random.default_rng(seed)
    left = rng.gamma(0.6, 30.0, (keypoints, dims)).clip(0, 255).round().astype(np.float32)
    noisy = left + rng.normal(0, 35, left.shape)
    truth = rng.permutation(keypoints)
    right = np.empty_like(left)
    right[truth] = noisy.clip(0, 255).round()
    return left, right, truth


def argsort_ranks(left: Any, right: Any, truth: Any) -> Any:
    """Ranks of true matches as they are often written; only a stable sort has a rule for ties."""
    squares = (left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2 * left @ right.T
    order = np.argsort(squares, axis=1, kind="stable")
    return 1 + np.argmax(order == truth[:, None], axis=1)


class Clock:
    """Seconds of processor time by way."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, way: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        found = work()
        self.seconds[way] = self.seconds.get(way, 0.0) + time.process_time() - start
        return found


def measure(args: argparse.Namespace) -> dict[str, float]:
    """Seconds of each way; assay's are those of the ranks and of the means."""
    clock, pairs, sampled = Clock(), [], {}
    for number in range(args.scenes * args.pairs):
        data = make_pair(args.keypoints, args.dims, number)
        clock.time("products", partial(np.matmul, data[0], data[1].T))
        name = name_of(number, args)
        evaluate = partial(rank_pair, data[0], data[1], truth=data[2], threads=1, **name)
        pairs.append(clock.time("ranks", evaluate))
        clock.time("matching", partial(evaluate, matching=True))
        if number % args.every == 0:
            sampled[number] = clock.time("argsort", partial(argsort_ranks, *data))
    result = DescriptorResult.of("x", pairs)
    clock.time("means", lambda: (result.mean(by="scene"), result.mean()))
    check(result, {tuple(name_of(n, args).values()): found for n, found in sampled.items()})
    clock.seconds["argsort"] *= args.scenes * args.pairs / len(sampled)
    clock.seconds["assay"] = clock.seconds["ranks"] + clock.seconds["means"]
    return clock.seconds


def name_of(number: int, args: argparse.Namespace) -> dict[str, str]:
    scene, k = divmod(number, args.pairs)
    return {"scene": f"s{scene:03}", "pair": f"1-{k + 2}"}


def check(result: DescriptorResult, sampled: dict[tuple[str, ...], Any]) -> None:
    """Squared distances are whole numbers that float32 holds up to 128 dimensions."""
    left_out = queries = 0
    pairs = {(pair.scene, pair.pair): pair for pair in result.pairs}
    for name, ranks in sampled.items():
        pair = pairs[name]
        untied = pair.tied == 0
        wrong = np.flatnonzero(untied & (pair.above + 1 != ranks))
        if len(wrong):
            here, there = pair.above[wrong[0]] + 1, ranks[wrong[0]]
            raise SystemExit(f"pair {name}, query {wrong[0]}: assay {here}, argsort {there}")
        left_out, queries = left_out + int((~untied).sum()), queries + len(ranks)
    print(f"ranks agree; {left_out} of {queries} sampled queries tie and were left out")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name, value in (
        ("scenes", 116),
        ("pairs", 5),
        ("keypoints", 2000),
        ("dims", 128),
        ("every", 20),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}, {engine_name()} engine")
    with threadpool_limits(1):
        found = measure(args)
    sizes = f"{args.scenes} scenes × {args.pairs} pairs × {args.keypoints} × {args.dims}"
    print(f"{sizes}; load after {os.getloadavg()[0]:.1f}\n")
    print("way                       seconds")
    for way in ("assay", "ranks", "means", "matching", "products", "argsort"):
        print(f"{WORDS[way]:<24}  {found[way]:7.2f}")
    print(f"\nassay ÷ products: {found['assay'] / found['products']:.2f}")
    print(f"ranks and nearest ÷ products: {found['matching'] / found['products']:.2f}")
    print(f"argsort ÷ assay: {found['argsort'] / found['assay']:.1f}")


if __name__ == "__main__":
    main()
