"""Time and memory of `assay predict --results` on a folder of many training runs.

    python benchmarks/imports.py [--models 1228] [--seeds 1 3] [--folder FOLDER]

Makes the tree that training scripts leave behind: a folder with a time stamp for each run, in it a
configuration with its seed, and the results on the test and validation samples as counts, percents
and F1 as a fraction. Each command runs in a process of its own; printed are its processor seconds
(start-up included, which a busy machine strikes less than the clock) and its peak memory. With
several seeds, 1,228 models would make 753,378 pairs: only those with the baseline are compared.
`--folder` measures a folder that is already there instead.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

DATASETS = {"geolife": (3334, 3502), "diy": (10160, 12368)}
MODELS = ("pointer_v45", "MHSA", "LSTM", "ht_optuna")
MEASURE = (
    "import resource, subprocess, sys; "
    "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE); "
    "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
    "sys.stderr.buffer.write(done.stderr); "
    "print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss)"
)


def make_tree(folder: Path, n_models: int, n_seeds: int, seed: int = 0) -> None:
    """`n_models` models of two datasets, each with `n_seeds` seeds and its own settings."""
    rng = random.Random(seed)
    moment = time.mktime((2025, 12, 26, 12, 0, 0, 0, 0, 0))
    for number in range(n_models):
        dataset = rng.choice(tuple(DATASETS))
        settings = {"dataset": dataset, "d_model": 8 * (1 + number), "lr": rng.random() / 100}
        level = rng.uniform(0.2, 0.6)
        for one in range(n_seeds):
            moment += rng.randrange(1, 400)
            stamp = time.strftime("%Y%m%d_%H%M%S", time.localtime(moment))
            run = folder / f"{dataset}_{MODELS[number % len(MODELS)]}_{stamp}"
            run.mkdir(parents=True)
            lines = [f"{key}: {value}" for key, value in (*settings.items(), ("seed", 42 + one))]
            (run / "config.yaml").write_text("\n".join(lines) + "\n")
            for split, total in zip(("val", "test"), DATASETS[dataset], strict=True):
                made = json.dumps(
                    make_result(level + rng.gauss(0, 0.005), total, rng.uniform(2, 4)), indent=2
                )
                (run / f"{split}_results.json").write_text(made)


def make_result(level: float, total: int, loss: float) -> dict[str, float]:
    """Counts and the rates that follow from them, where a sample is found at rank 1, 3, 5 or 10."""
    steps = [round(total * share) for share in (level, 0.7 * (1 - level), 0.1 * (1 - level))]
    at = {1: steps[0], 3: sum(steps[:2]), 5: sum(steps[:2]), 10: sum(steps)}
    reciprocal = steps[0] + steps[1] / 3 + steps[2] / 10
    gain = steps[0] + steps[1] / 2 + steps[2] / 3.4594316186372973
    return {
        **{f"correct@{k}": float(count) for k, count in at.items()},
        "rr": reciprocal,
        "ndcg": 100 * gain / total,
        "f1": 2 * at[1] ** 2 / (total * (total + at[1])) + 0.05,
        "total": float(total),
        **{f"acc@{k}": 100 * at[k] / total for k in (1, 5, 10)},
        "mrr": 100 * reciprocal / total,
        "loss": loss,
    }


def commands(folder: Path) -> Iterator[list[str]]:
    """All results; one split; one split with every model against a baseline."""
    first = min(path.parent for path in folder.rglob("test_results.json"))
    yield []
    yield ["--split", "test"]
    yield ["--split", "test", "--baseline", str(first)]
    yield ["--pattern", f"{first.name.split('_')[0]}_*/test_results.json", "--json"]


def measure(folder: Path) -> None:
    for options in commands(folder):
        command = [sys.executable, "-m", "assay", "predict", "--results", str(folder), *options]
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, check=True
        )
        wall = time.perf_counter() - started
        code, seconds, kilobytes = done.stdout.split()
        if code not in ("0", "1"):
            raise SystemExit(done.stderr)
        words = " ".join(
            "BASELINE" if option == str(options[-1]) and "--baseline" in options else option
            for option in options
        )
        print(
            f"{float(seconds):9.2f} {wall:8.2f} {int(kilobytes) / 1024:8.0f}  {words or '(none)'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--models", type=int, default=1228)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    title = "processor    clock   memory  options\n  seconds  seconds      MiB"
    if args.folder is not None:
        print(title)
        return measure(args.folder)
    for n_seeds in args.seeds:
        with tempfile.TemporaryDirectory() as made:
            make_tree(Path(made), args.models, n_seeds)
            print(f"\n{args.models} models × {n_seeds} seeds × 2 splits\n{title}")
            measure(Path(made))
    return None


if __name__ == "__main__":
    main()
