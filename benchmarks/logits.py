"""Acc@1, 3, 5, 10, MRR and nDCG@10 from logits, beside the way of document 001 and a bare read.

    python benchmarks/logits.py [--samples 4096] [--classes 1187 100000] [--repeats 7]

Jobs take turns and the shortest time of each counts. "read" is numpy's maximum over the matrix,
which does nothing but read it, in one thread and in as many as there are cores. The document's way
is torch: topk for each cut-off and twice argsort over all classes; it is left out without torch,
and done once where it takes longer than ten seconds. The two must agree on samples without ties.
"""

from __future__ import annotations

import sys

if sys.path and sys.path[0].endswith("benchmarks"):
    del sys.path[0]  # files here must not stand in for standard modules

import argparse
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import numpy as np

from assay.native import engine_name
from assay.prediction import evaluate_predictions
from assay.prediction.compat import calculate_correct_total_prediction
from assay.search.engine import target_ranks_from_scores

CUTS = (1, 3, 5, 10)
SLOW = 10.0


def matrix(samples: int, classes: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((samples, classes), dtype=np.float32)
    targets = rng.integers(0, classes, samples)
    logits[np.arange(samples), targets] += 2.5
    return logits, targets


def document_way(logits: Any, targets: Any) -> list[float]:
    """The formulas of document 001, chapter 7, written anew."""
    import torch

    scores, wanted = torch.from_numpy(logits), torch.from_numpy(targets)[:, None]
    sums = [float((scores.topk(k).indices == wanted).any(dim=1).sum()) for k in CUTS]
    sums.append(float((1 / _argsort_ranks(torch, scores, wanted)).sum()))
    ranks = _argsort_ranks(torch, scores, wanted).numpy()
    return [*sums, float((1 / np.log2(ranks[ranks <= 10] + 1)).sum())]


def _argsort_ranks(torch: Any, scores: Any, wanted: Any) -> Any:
    order = torch.argsort(scores, dim=1, descending=True)
    return (order == wanted).nonzero()[:, 1].double() + 1


def jobs(logits: Any, targets: Any, pool: ThreadPoolExecutor) -> dict[str, Callable[[], Any]]:
    parts = np.array_split(logits, os.cpu_count() or 1)
    found: dict[str, Callable[[], Any]] = {
        "read, one thread": logits.max,
        "read, all cores": lambda: list(pool.map(np.max, parts)),
        "ranks, one thread": lambda: target_ranks_from_scores(logits, targets, threads=1),
        "ranks, all cores": lambda: target_ranks_from_scores(logits, targets),
        "all six sums, and top-1": lambda: calculate_correct_total_prediction(logits, targets),
        "a result per sample": lambda: evaluate_predictions(logits, targets).mean(),
    }
    if find_spec("torch") is not None:
        found["document 001 (torch)"] = lambda: document_way(logits, targets)
    return found


def shortest(work: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    times: dict[str, float] = {}
    for _ in range(repeats):
        for name, job in work.items():
            if times.get(name, 0) > SLOW:
                continue
            start = time.perf_counter()
            job()
            times[name] = min(times.get(name, np.inf), time.perf_counter() - start)
    return times


def check_agreement(logits: Any, targets: Any) -> None:
    """On samples whose target ties with no other class: torch orders equal logits by no rule."""
    own = np.take_along_axis(logits, targets[:, None], axis=1)
    plain = (logits == own).sum(axis=1) == 1
    if not plain.all():
        print(f"{(~plain).sum()} of {len(plain)} samples tie and are left out of the check")
    ours = calculate_correct_total_prediction(logits[plain], targets[plain])[0][:-1]
    np.testing.assert_allclose(ours, document_way(logits[plain], targets[plain]), rtol=1e-10)


def report(samples: int, classes: int, repeats: int) -> None:
    logits, targets = matrix(samples, classes)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        work = jobs(logits, targets, pool)
        if "document 001 (torch)" in work and classes < 20_000:
            check_agreement(logits, targets)
        times = shortest(work, repeats)
    print(f"\n{samples} × {classes} float32, {logits.nbytes / 1e6:.0f} MB")
    read = times["read, one thread"]
    print(f"  {'':<26}{'ms':>10}{'GB/s':>8}{'÷ read':>9}{'÷ sums':>9}")
    for name, taken in times.items():
        speed = logits.nbytes / taken / 1e9
        ratio = taken / times["all six sums, and top-1"]
        print(f"  {name:<26}{taken * 1e3:10.2f}{speed:8.1f}{taken / read:9.2f}{ratio:9.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--classes", type=int, nargs="+", default=[1187, 100_000])
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    print(f"{engine_name()} kernels, {os.cpu_count()} cores, {platform.machine()}")
    for classes in options.classes:
        report(options.samples, classes, options.repeats)


if __name__ == "__main__":
    main()
