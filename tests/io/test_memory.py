"""What a hostile file costs: a table of inputs and the memory that reading each may take.

The limit is set low (ASSAY_MAX_BYTES), and every reader runs in a process of its own whose address
space ends a little above it.
"""

from __future__ import annotations

import gzip
import io
import os
import resource
import sys

import numpy as np
import pytest

from assay.bench.config import read_config
from assay.core.hits import judge
from assay.core.ids import Ids
from assay.errors import AssayError
from assay.io.collections import read_judgments
from assay.io.formats import read_qrels, read_run
from assay.io.texts import read_texts
from assay.search.safetensors import load_safetensors
from assay.tasks.tables import read_task_lines
from assay.vision.settings import read_experiment
from tests.zst import zst_compress as zst

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

LIMIT = 128 << 20
SLACK = 96 << 20  # chunks, bites of decompressed bytes, and packages imported on the way
LARGE = 4_000_000


def gz(data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


def npz(**arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def dictionary_parquet(text: str) -> bytes:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    indices = arrow.array(np.zeros(LARGE, np.int32))
    column = arrow.DictionaryArray.from_arrays(indices, arrow.array([text]))
    table = arrow.table({"query": column, "doc": column, "score": np.zeros(LARGE)})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def pairs() -> bytes:
    return b"".join(b"q%d Q0 d 1 1 t\n" % n for n in range(LARGE // 10))


def texts(path) -> None:
    read_texts(path, "doc")


FAR = np.array([[0, 400_000_000], [7, 2_147_483_000]])
INPUTS = {
    "json objects": ("r.json.gz", lambda: gz(b"[" + b"{}," * LARGE + b"{}]"), read_run),
    "json lists": ("r.json.gz", lambda: gz(b"[" + b"[]," * LARGE + b"[]]"), read_run),
    "json texts": ("r.json.gz", lambda: gz(b"[" + b'"ab",' * LARGE + b'"c"]'), read_run),
    "json numbers": ("r.json.gz", lambda: gz(b"[" + b"300," * LARGE + b"1]"), read_run),
    "json entries": ("q.json.gz", lambda: gz(b"[" + b'["q",[]],' * LARGE + b"0]"), read_judgments),
    "json blanks": ("r.json.zst", lambda: zst(b" " * (64 * LARGE)), read_run),
    "json tasks": ("t.json.gz", lambda: gz(b"[" + b"{}," * LARGE + b"{}]"), read_task_lines),
    "jsonl objects": ("r.jsonl.gz", lambda: gz(b"{}\n" * LARGE), read_run),
    "jsonl texts": ("t.jsonl.gz", lambda: gz(b'{"text":""}\n' * LARGE), texts),
    "csv": ("r.csv.gz", lambda: gz(b"query,doc,score\n" + b"q,d,1\n" * LARGE), read_run),
    "csv blanks": ("r.csv.zst", lambda: zst(b"\n" * (32 * LARGE)), read_run),
    "csv texts": ("t.csv.gz", lambda: gz(b"id,text\n" + b"a,b\n" * LARGE), texts),
    "tsv": (
        "r.tsv.zst",
        lambda: zst(b"query\tdoc\tscore\n" + b"q\td\t1\n" * LARGE),
        read_run,
    ),
    "trec": ("r.trec.gz", lambda: gz(pairs() * 10), read_run),
    "trec zst": ("q.trec.zst", lambda: zst(b"q 0 d 1\n" * LARGE), read_qrels),
    "npz scores": ("s.npz", lambda: npz(scores=np.zeros((2000, 2000), bool)), read_run),
    "npz docs": ("s.npz", lambda: npz(docs=np.full((LARGE, 1), 1, np.int8)), read_run),
    "npz labels": (
        "q.npz",
        lambda: npz(query_labels=np.zeros(LARGE, "<U1"), doc_labels=np.zeros(9, "<U1")),
        read_qrels,
    ),
    "npz ids": (
        "s.npz",
        lambda: npz(docs=np.zeros((LARGE, 1), np.int8), query_ids=np.zeros(LARGE, "<U1")),
        read_run,
    ),
    "far docs": ("s.npz", lambda: npz(docs=FAR), read_run),
    "far collection": ("s.npz", lambda: npz(docs=FAR, n_docs=np.int64(10**15)), read_run),
    "far targets": ("q.npz", lambda: npz(targets=FAR[0]), read_qrels),
    "far targets, n_docs": (
        "q.npz",
        lambda: npz(targets=FAR[0], n_docs=np.int64(10**15)),
        read_qrels,
    ),
    "far judgments": (
        "q.npz",
        lambda: npz(queries=np.arange(2), docs=FAR[0], grades=np.ones(2)),
        read_qrels,
    ),
    "far queries": (
        "q.npz",
        lambda: npz(queries=FAR[0], docs=np.arange(2), grades=np.ones(2)),
        read_qrels,
    ),
    "parquet": ("r.parquet", lambda: dictionary_parquet("q"), read_run),
    "parquet long": ("r.parquet", lambda: dictionary_parquet("q" * 100_000), read_run),
    "yaml": ("e.yaml", lambda: b"a: [" + b"a," * 2_000_000 + b"a]", read_experiment),
    "toml": ("b.toml", lambda: b"a = [" + b"1," * 2_000_000 + b"1]", read_config),
    "safetensors": (
        "a.safetensors",
        lambda: (2**63).to_bytes(8, "little") + b"{}" * 100,
        load_safetensors,
    ),
}
NEED_NO_REFUSAL = {"far docs", "far collection", "far targets", "far targets, n_docs"}


def growth_of(read, path) -> tuple[int, str]:
    """How many bytes a process grows by that reads the file, and how the reading ended."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover, in another process
        os._exit(_read_bounded(read, path, tell))
    os.close(tell)
    with os.fdopen(told) as pipe:
        words = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, words
    before, after, ended = words.split(" ", 2)
    return int(after) - int(before), ended


def _read_bounded(read, path, tell: int) -> int:  # pragma: no cover, in another process
    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

    before = max(peak(), _size("VmRSS"))
    end = _size("VmSize") + 8 * LIMIT
    resource.setrlimit(resource.RLIMIT_AS, (end, end))
    try:
        read(path)
        ended = "read"
    except AssayError as error:
        ended = f"refused: {error}"
    except BaseException as error:
        ended = f"broke: {type(error).__name__} {error}"
    os.write(tell, f"{before} {peak()} {ended}".encode())
    return 0


def _size(field: str) -> int:  # pragma: no cover, in another process
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(field))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("case", INPUTS)
def test_memory_of_a_hostile_file_is_bounded(tmp_path, monkeypatch, case):
    name, build, read = INPUTS[case]
    path = tmp_path / name
    path.write_bytes(build())
    monkeypatch.setenv("ASSAY_MAX_BYTES", str(LIMIT))
    growth, ended = growth_of(read, path)
    assert not ended.startswith("broke"), ended
    assert growth <= max(LIMIT, 200 * path.stat().st_size) + SLACK
    if case in NEED_NO_REFUSAL:
        assert ended == "read"


def test_the_limit_can_be_raised(tmp_path, monkeypatch):
    path = tmp_path / "q.trec.gz"
    path.write_bytes(gz(b"q 0 d 1\n" * 100_000))
    monkeypatch.setenv("ASSAY_MAX_BYTES", "1000")
    with pytest.raises(AssayError, match=r"q\.trec\.gz holds .* set ASSAY_MAX_BYTES to more"):
        read_qrels(path)
    monkeypatch.setenv("ASSAY_MAX_BYTES", str(LIMIT))
    assert len(read_qrels(path)) == 1
    monkeypatch.setenv("ASSAY_MAX_BYTES", "1 GB")
    with pytest.raises(AssayError, match="a whole number of bytes"):
        read_qrels(path)


def test_numbered_documents_are_judged_as_small_ones_are():
    """Ids of documents that are far apart are only those that are used; nothing else changes."""
    from assay.core.judgments import Judgments
    from assay.core.ranking import Ranking

    near = judge(Ranking.from_arrays([[0, 3, 1]]), Judgments.from_targets([3]))
    far = judge(Ranking.from_arrays([[0, 10**9, 7]]), Judgments.from_targets([10**9]))
    assert far.rank.tolist() == near.rank.tolist() == [2]
    ids, places = Ids.of_rows(np.array([5, -1, 10**9]))
    assert ids.to_list() == [5, 10**9]
    assert places.tolist() == [0, -1, 1]
    assert ids.numbered
