"""Values of two systems on six tasks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from assay.io.writers import write_delimited


def write_files(folder: Path, rng: np.random.Generator) -> None:
    """Write a table of queries, and results as mteb leaves them."""
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
