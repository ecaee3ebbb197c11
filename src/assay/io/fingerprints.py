"""Where and with what something is computed: versions, the commit, fingerprints of files."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from assay import __version__
from assay.arrays import Array
from assay.io.mapped import FileState
from assay.io.streams import FilePath, split_array, unreadable
from assay.native import engine_name


def fingerprint_of(identity: Mapping[str, Any]) -> str:
    """Return a short digest of entries in any order.

    >>> fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1})
    True
    """
    import json

    text = json.dumps(identity, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def digest_of_arrays(*arrays: Array) -> str:
    """Return SHA-256 of content, shape and type of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def digest_of_file(path: FilePath) -> str:
    """Return SHA-256 of a file's content; an unchanged file is read once.

    One that changed in the last moments is read each time: its times cannot tell the next change.
    """
    name = os.fspath(path)
    state = _settled_state(name)
    if state is None:
        return str(fingerprint_file(name)["sha256"])
    digest = _DIGESTS.get((os.path.abspath(name), state))
    if digest is None:
        digest = str(fingerprint_file(name)["sha256"])
        if _settled_state(name) == state:
            _DIGESTS[os.path.abspath(name), state] = digest
    return digest


SETTLED: Final = 2.0  # seconds after which a change of a file shows in its times
_DIGESTS: Final[dict[tuple[str, FileState], str]] = {}


def _settled_state(name: str) -> FileState | None:
    try:
        stat = os.stat(name)
    except OSError:
        return None
    settled = max(stat.st_mtime, stat.st_ctime) < time.time() - SETTLED
    return FileState.of(stat) if settled else None


def version_of(package: str, fallback: str = "unknown") -> str:
    """Return the version of an installed package, by the name it is installed under."""
    from importlib import metadata  # slow to load, and most commands need no versions

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return fallback


# Packages whose version may change a number or an order; only those in use are named.
_PACKAGES: Final = (
    *("numpy", "narwhals", "pandas", "polars", "pyarrow", "backports.zstd", "wordllama", "torch"),
    *("sentence_transformers", "model2vec", "safetensors", "sqlalchemy", "onnxruntime"),
    *("tokenizers", "bm25s", "faiss", "usearch", "lancedb", "qdrant_client", "sqlite_vec"),
    *("pgvector", "cv2", "skimage", "sklearn", "scipy", "ray"),
)


def versions() -> dict[str, str]:
    """Return versions of Python, Assay with its kernels, and the loaded packages."""
    packages = {
        "python": platform.python_version(),
        "assay": __version__,
        "engine": engine_name(),
        "platform": f"{sys.platform}-{platform.machine()}",
    }
    for module in _PACKAGES:
        if module in sys.modules:
            fallback = str(getattr(sys.modules[module], "__version__", "unknown"))
            packages[module] = version_of(module.replace("_", "-"), fallback)
    return packages


def git_commit(folder: str | None = None) -> str:
    """Return the checked-out commit; empty without one."""
    import subprocess  # which takes long, for commands that never ask

    try:
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "HEAD"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=5,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    commit = done.stdout.strip()
    return commit if done.returncode == 0 and len(commit) in (40, 64) else ""


def fingerprints(files: Iterable[FilePath]) -> dict[str, dict[str, Any]]:
    """Return size and SHA-256 of each file."""
    return {os.fspath(file): fingerprint_file(os.fspath(file)) for file in files}


def fingerprint_file(file: str) -> dict[str, Any]:
    """Return the size and digest of a file."""
    try:
        with open(split_array(file)[0], "rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            return {"bytes": os.fstat(stream.fileno()).st_size, "sha256": digest}
    except OSError as error:
        raise unreadable(file, error) from None
