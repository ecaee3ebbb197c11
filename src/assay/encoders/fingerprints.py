"""Fingerprints: the same for the same model, settings and versions, another for others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from assay.store.environment import fingerprints

__all__ = ["fingerprint_of", "version_of", "weights_of"]


def fingerprint_of(identity: Mapping[str, Any]) -> str:
    """A short digest of what makes a model what it is; the order of the entries does not matter.

    >>> fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1})
    True
    """
    text = json.dumps(identity, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def version_of(package: str) -> str:
    """The version of an installed package, by the name it is installed under."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def weights_of(place: str | Path) -> dict[str, Any]:
    """What is in a file or a folder, by digests; a model that is fetched is known by its name."""
    path = Path(place)
    if not path.exists():
        return {"model": str(place)}
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    found = fingerprints(files)
    return {
        "weights": {file.relative_to(path).as_posix(): found[str(file)]["sha256"] for file in files}
    }
