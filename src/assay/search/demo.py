"""Shards of the demo's vectors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


def write_files(folder: Path, rng: object) -> None:
    """Write the vectors of the documents in two files, and the manifest that names them."""
    docs = np.load(folder / "docs.npy")
    shards = [f"docs-{number}.npy" for number in range(2)]
    for name, rows in zip(shards, np.array_split(docs, 2), strict=True):
        np.save(folder / name, rows)
    manifest = {"shards": [{"path": name} for name in shards]}
    (folder / "shards.json").write_text(json.dumps(manifest), "utf-8")
