"""Speed of tests and intervals beside scipy and ranx, all measured in one run.

    python benchmarks/resampling.py [--queries 10000] [--resamples 10000] [--repeats 3]

Five measures on the same queries. Assay does all five; a peer does one, and its time counts five
times (they have no way to share work between measures). Repeats are interleaved and the shortest
time of each counts. scipy works in batches of 100 resamples, which is where it is fastest and stays
within memory. ranx is timed after its first, compiling call, and left out if it is not installed.
"""

from __future__ import annotations

import sys

if sys.path and sys.path[0].endswith("benchmarks"):
    del sys.path[0]  # or this file would stand in for the standard module of its name

import argparse
import os
import platform
import subprocess
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from assay.native import engine_name
from assay.stats import interval, intervals, paired_test

Jobs = dict[tuple[str, str], Callable[[], Any]]

MEASURES = 5
AIMS = {
    ("randomisation", "scipy"): 50,
    ("randomisation", "ranx"): 20,
    ("percentile", "scipy"): 8,
    ("bca", "scipy"): 20,
}


def tables(queries: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    a = rng.beta(0.8, 1.5, (MEASURES, queries))
    return a, np.clip(a + rng.normal(0.0005, 0.1, a.shape), 0, 1)


def scipy_test(a: Any, b: Any, resamples: int) -> Any:
    import scipy.stats

    return scipy.stats.permutation_test(
        (a, b),
        lambda x, y, axis=-1: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=resamples,
        batch=100,
        vectorized=True,
        rng=np.random.default_rng(0),
    )


def scipy_bootstrap(values: Any, resamples: int, method: str) -> Any:
    import scipy.stats

    return scipy.stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=resamples,
        batch=100,
        method=method,
        vectorized=True,
        rng=np.random.default_rng(0),
    )


def ranx_test() -> Callable[[Any, Any, int], Any] | None:
    if find_spec("ranx") is None:
        return None
    from ranx.statistical_tests import fisher_randomization_test

    return fisher_randomization_test


def assay_jobs(a: Any, b: Any, resamples: int) -> Jobs:
    return {
        ("randomisation", "assay"): lambda: [
            paired_test(x, y, resamples=resamples) for x, y in zip(a, b, strict=True)
        ],
        ("percentile", "assay"): lambda: intervals(a, method="percentile", resamples=resamples),
        ("bca", "assay"): lambda: intervals(a, method="bca", resamples=resamples),
        ("bca", "assay, one by one"): lambda: [interval(x, resamples=resamples) for x in a],
    }


def peer_jobs(a: Any, b: Any, resamples: int) -> Jobs:
    found: Jobs = {
        ("randomisation", "scipy"): lambda: scipy_test(a[0], b[0], resamples),
        ("percentile", "scipy"): lambda: scipy_bootstrap(a[0], resamples, "percentile"),
        ("bca", "scipy"): lambda: scipy_bootstrap(a[0], resamples, "BCa"),
    }
    ranx = ranx_test()
    if ranx is not None:
        ranx(a[0], b[0], 1)  # compiles
        found["randomisation", "ranx"] = lambda: ranx(a[0], b[0], resamples)
    return found


def shortest(work: Jobs, repeats: int) -> dict[Any, float]:
    times: dict[Any, float] = {}
    for _ in range(repeats):
        for name, job in work.items():
            start = time.perf_counter()
            job()
            taken = (time.perf_counter() - start) * (1 if name[1].startswith("assay") else MEASURES)
            times[name] = min(times.get(name, taken), taken)
    return times


def print_peak_memory(queries: int, resamples: int) -> None:
    """For a process of its own: how much the peak rises while Assay does all tasks."""
    work = assay_jobs(*tables(queries), resamples)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = status("VmRSS")
    for job in work.values():
        job()
    print((status("VmHWM") - before) / 1024)


def status(name: str) -> int:
    """A size from Linux's account of this process, in kilobytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def peak_memory(engine: str, queries: int, resamples: int) -> float:
    command = [sys.executable, __file__, "--memory"]
    sizes = [f"--queries={queries}", f"--resamples={resamples}"]
    env = {**os.environ, "ASSAY_NATIVE": "1" if engine == "native" else "0"}
    done = subprocess.run([*command, *sizes], capture_output=True, text=True, check=True, env=env)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print_peak_memory(options.queries, options.resamples)
        return
    print(
        f"{MEASURES} measures × {options.queries} queries × {options.resamples} resamples, "
        f"{engine_name()} kernels, {os.cpu_count()} cores, {platform.machine()}"
    )
    a, b = tables(options.queries)
    work = assay_jobs(a, b, options.resamples) | peer_jobs(a, b, options.resamples)
    times = shortest(work, options.repeats)
    for (task, package), taken in sorted(times.items()):
        line = f"  {task:<14} {package:<17} {taken:9.3f} s"
        if (task, package) in AIMS:
            ratio = taken / times[task, "assay"]
            line += f"   {ratio:7.1f} × as long (aim {AIMS[task, package]})"
        print(line)
    for engine in ("native", "numpy") if sys.platform == "linux" else ():
        rise = peak_memory(engine, options.queries, options.resamples)
        print(f"  peak memory, {engine} kernels: {rise:.0f} MB above the inputs (aim 100)")


if __name__ == "__main__":
    main()
