"""Search of documents on disk with less memory than they take: python benchmarks/disk.py FOLDER

Makes unit vectors of 384 dimensions in FOLDER, in blocks, and prepares them; both files are then
mapped. A process whose own memory is limited to `--memory` megabytes (RLIMIT_DATA, so that mapped
pages, which the system may drop, do not count) reads the prepared file in blocks and searches it.
Prints gigabytes a second of both and the memory of its own. `--docs 10000000` takes 20 GB of disk.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

COLUMNS, BLOCK = 384, 100_000


def write_vectors(path: Path, n_docs: int) -> None:
    """Write unit vectors, some rows at a time."""
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (n_docs, COLUMNS))
    rng = np.random.default_rng(3)
    for start in range(0, n_docs, BLOCK):
        block = rng.standard_normal((min(BLOCK, n_docs - start), COLUMNS), np.float32)
        rows[start : start + len(block)] = block / np.linalg.norm(block, axis=1, keepdims=True)
    rows.flush()


def read_once(path: Path) -> float:
    """Return the seconds that reading all bytes takes."""
    start, block = time.perf_counter(), bytearray(4 << 20)
    with path.open("rb", buffering=0) as file:
        while file.readinto(block):
            pass
    return time.perf_counter() - start


def own_megabytes() -> float:
    """Return the memory of this process that is no file's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def search(folder: Path, megabytes: int) -> None:
    """Search under the limit."""
    import assay

    limit = megabytes << 20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    corpus = assay.prepare(folder / "docs.npy", folder / "docs.prepared")
    size = (folder / "docs.prepared").stat().st_size
    for n_queries in (1, 64):
        queries = np.random.default_rng(4).standard_normal((n_queries, COLUMNS), np.float32)
        best = dict.fromkeys(("read", "search"), np.inf)
        for _ in range(3):
            best["read"] = min(best["read"], read_once(folder / "docs.prepared"))
            start = time.perf_counter()
            assay.rank(queries, corpus, 10)
            best["search"] = min(best["search"], time.perf_counter() - start)
        speed = {name: size / seconds / 1e9 for name, seconds in best.items()}
        print(
            f"{n_queries} queries, {size / 1e9:.2f} GB prepared, {megabytes} MB allowed: "
            f"read {speed['read']:.2f} GB/s, search {speed['search']:.2f} GB/s "
            f"({best['search'] / best['read']:.2f} of the read), own {own_megabytes():.0f} MB"
        )


def main() -> None:
    """Make the files unless they are there, and search them in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--docs", type=int, default=1_000_000)
    parser.add_argument("--memory", type=int, default=600, help="megabytes")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        search(options.folder, options.memory)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    if not (options.folder / "docs.npy").exists():
        write_vectors(options.folder / "docs.npy", options.docs)
    import assay

    assay.prepare(options.folder / "docs.npy", options.folder / "docs.prepared")
    again = [str(options.folder), "--memory", str(options.memory), "--child"]
    subprocess.run([sys.executable, __file__, *again], check=True)


if __name__ == "__main__":
    main()
