"""A search needs its inputs, or nothing where they lie on disk, and at most 512 MB beside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ALLOWANCE = 512 << 20
COLUMNS = 256

_LIMITED = """
import resource, sys
import numpy as np
from assay.search.engine import TokenVectors, rank, target_ranks
from assay.native import load

path, engine, way, allowance = sys.argv[1:]
load(engine)
queries = np.random.default_rng(1).standard_normal((int(sys.stdin.read()), {columns}))
queries = queries.astype(np.float32)
if way in ("array", "outlier", "float64"):
    path = np.load(path).astype(np.float64 if way == "float64" else np.float32, copy=False)
    path[7] *= 1e30 if way == "outlier" else 1
rank(queries[:2], queries[:9], 3, engine=engine, threads=2)  # what libraries take once
with open("/proc/self/statm") as file:
    taken = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + int(allowance),) * 2)


def blocks():
    with open(path, "rb") as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        for start in range(0, shape[0], 5000):
            rows = min(5000, shape[0] - start)
            yield np.fromfile(file, dtype, rows * shape[1]).reshape(rows, shape[1])


if way == "tokens":
    docs = TokenVectors(path, np.arange(0, 420_001, 100))
    found = rank([queries[:20]] * 9, docs, 100, metric="maxsim", engine=engine, threads=2)
    print(found.docs.sum(), found.n_docs)
elif way == "targets":
    found = target_ranks(queries, path, np.arange(len(queries)), engine=engine, threads=2)
    print(found.rank.sum(), found.n_docs)
else:
    docs = blocks() if way == "iterator" else path
    found = rank(queries, docs, 100, engine=engine, threads=2)
    print(found.docs.sum(), found.n_docs)
"""


def write_corpus(path: Path, n_docs: int, dtype: str = "f4") -> None:
    """Real numbers, made block by block; rows are a cheap mix of random ones."""
    rng = np.random.default_rng(2)
    some = rng.standard_normal((4096, COLUMNS)).astype(dtype)
    file = np.lib.format.open_memmap(path, "w+", dtype, (n_docs, COLUMNS))
    for start in range(0, n_docs, len(some)):
        rows = file[start : start + len(some)]
        rows[...] = np.roll(some, start % 251, axis=1)[: len(rows)]
    file.flush()


def search(path: Path, engine: str, way: str, n_queries: int, allowance: int = ALLOWANCE):
    """Search in a process that may take no more than the allowance beside its inputs."""
    return subprocess.run(
        [sys.executable, "-c", _LIMITED.format(columns=COLUMNS), path, engine, way, str(allowance)],
        input=str(n_queries),
        capture_output=True,
        text=True,
        check=False,
    )


def check(path: Path, engine: str, way: str, n_queries: int, n_docs: int) -> None:
    done = search(path, engine, way, n_queries)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[1] == str(n_docs)


linux = pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS and /proc")


@linux
@pytest.mark.slow
@pytest.mark.parametrize("way", ["path", "iterator", "targets"])
def test_a_corpus_of_several_times_the_allowance(way, engine, tmp_path):
    path = tmp_path / "docs.npy"
    n_docs = 4 * ALLOWANCE // (4 * COLUMNS)
    write_corpus(path, n_docs)
    check(path, engine, way, 500 if engine == "native" else 10, n_docs)
    path.unlink()


@linux
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f8", "f2", "i1"])
def test_a_corpus_that_has_to_be_widened(dtype, engine, tmp_path):
    path = tmp_path / "docs.npy"
    n_docs = 2 * ALLOWANCE // (np.dtype(dtype).itemsize * COLUMNS)
    write_corpus(path, n_docs, dtype)
    check(path, engine, "path", 50, n_docs)
    path.unlink()


@linux
def test_a_corpus_larger_than_what_there_is(tmp_path):
    """Less than the allowance is enough for a larger file. Each thread may reserve 64 MB or more
    of addresses for its memory, used or not, so that much less would depend on chance."""
    pytest.importorskip("assay.native._kernels")
    path = tmp_path / "docs.npy"
    write_corpus(path, 420_000)
    allowance = 384 << 20
    assert path.stat().st_size > allowance
    done = search(path, "native", "path", 50, allowance)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[1] == "420000"


@linux
def test_token_vectors_take_bounded_room(tmp_path):
    pytest.importorskip("assay.native._kernels")
    path = tmp_path / "tokens.npy"
    write_corpus(path, 420_000)
    allowance = 384 << 20
    assert path.stat().st_size > allowance
    done = search(path, "native", "tokens", 50, allowance)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[1] == "4200"


@linux
@pytest.mark.slow
@pytest.mark.parametrize("way", ["array", "outlier", "float64"])
def test_a_corpus_in_memory_is_not_copied(way, engine, tmp_path):
    """Not even where one document is so long that the product needs scaled rows."""
    path = tmp_path / "docs.npy"
    write_corpus(path, 400_000)
    check(path, engine, way, 20, 400_000)


_MANY_QUERIES = """
import resource
import numpy as np
from assay.search.engine import rank

rng = np.random.default_rng(0)
queries = rng.standard_normal((60_000, 8)).astype(np.float32)
docs = np.roll(queries[:20_000], 1, axis=1)
rank(queries[:600], docs[:9], 3, engine="native", threads=2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = rank(queries, docs, 100, engine="native", threads=2)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) // 1024, found.scores.nbytes + found.docs.nbytes >> 20)
"""


@linux
@pytest.mark.slow
def test_many_queries_keep_no_room_for_candidates():
    """What is kept for each query is its list, not the work space that found it."""
    pytest.importorskip("assay.native._kernels")
    done = subprocess.run(
        [sys.executable, "-c", _MANY_QUERIES], capture_output=True, text=True, check=True
    )
    grown, result = map(int, done.stdout.split())
    assert grown < 512 + result


_LONG_LISTS = """
import resource, sys
import numpy as np
from assay.search.engine import rank

n_docs, columns, n_queries, k = map(int, sys.argv[1:5])
rng = np.random.default_rng(0)
some = rng.integers(-99, 99, (4096, columns)).astype(sys.argv[5])
docs = np.empty((n_docs, columns), some.dtype)
for start in range(0, n_docs, len(some)):
    rows = docs[start : start + len(some)]
    rows[...] = np.roll(some, start // len(some) % 251, axis=1)[: len(rows)]
queries = (some[:n_queries] + rng.standard_normal((n_queries, columns)) * 99).astype(np.float32)
rank(queries, docs[:9], 3, metric="dot", engine="native", threads=2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = rank(queries, docs, k, metric="dot", engine="native", threads=8)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) // 1024, found.scores.nbytes + found.docs.nbytes >> 20)
"""


@linux
@pytest.mark.slow
@pytest.mark.parametrize("shape", ["5000000 128 200 4000 i1", "800000 256 1000 4000 f2"])
def test_long_lists_and_many_blocks_take_no_more(shape):
    """One block of codes at a time, and few lists of one query side by side."""
    pytest.importorskip("assay.native._kernels")
    command = [sys.executable, "-c", _LONG_LISTS, *shape.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    grown, result = map(int, done.stdout.split())
    assert grown < 512 + result
