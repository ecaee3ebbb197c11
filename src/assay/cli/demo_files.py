"""Files for every command that the documentation prints: small, and the same each time.

Texts and their vectors are some of Python's own docstrings; the rest is drawn by a seed. Each room
writes what its commands need.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from assay.io.demo_collection import SEED, DemoFiles, write_demo
from assay.io.writers import write_delimited
from assay.plugins import all_plugins, load_target


def write_files(folder: Path) -> DemoFiles:
    """Write the files of the line and of every plugin into a folder; tell where the runs are."""
    files = write_demo(folder)
    rng = np.random.default_rng(SEED)
    _write_slices(folder)
    for plugin in all_plugins():
        if plugin.demo_files:
            load_target(plugin.demo_files)(folder, rng)
    _write_tasks(folder, rng)
    return files


def _write_slices(folder: Path) -> None:
    rows = [(f"q{at:02}", "short" if at % 2 else "long") for at in range(50)]
    write_delimited([("query", "kind"), *rows], folder / "kinds.tsv", "\t")


def _write_tasks(folder: Path, rng: np.random.Generator) -> None:
    """Two systems on six tasks: a table of queries, and results as mteb leaves them."""
    rows = []
    for system, level in (("large", 0.6), ("small", 0.5)):
        home = folder / "results" / system / "1"
        home.mkdir(parents=True, exist_ok=True)
        for task in map("task-{}".format, range(6)):
            values = rng.normal(level, 0.1, size=20).clip(0, 1).round(4).tolist()
            rows += [(system, task, f"q{at:02}", value) for at, value in enumerate(values)]
            subset = {"hf_subset": "default", "languages": ["eng-Latn"], "main_score": values[0]}
            result = {"task_name": task, "scores": {"test": [subset]}}
            (home / f"{task}.json").write_text(json.dumps(result), "utf-8")
    write_delimited([("system", "task", "query", "value"), *rows], folder / "values.csv", ",")
