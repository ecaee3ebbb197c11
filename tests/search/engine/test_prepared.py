"""A prepared corpus stands for its documents: the same bytes, and a file that is never stale."""

from __future__ import annotations

import json
import os
import weakref
from itertools import product

import numpy as np
import pytest

from assay.core.ranking import Ranking
from assay.errors import (
    FormatError,
    MismatchError,
    ShapeError,
    StorageError,
    UsageError,
    ValueRangeError,
)
from assay.io.mapped import is_mapped, needs_copies
from assay.search.engine import Prepared, prepare, prepared, rank, rerank, target_ranks
from tests.search.engine.nasty import METRICS
from tests.search.engine.test_same_bytes import (
    CASES,
    DOCS,
    QUERIES,
    counted,
    crowded,
    kernels,  # noqa: F401 (a fixture)
    ranked,
    whole,  # noqa: F401 (a fixture)
)


def test_a_prepared_corpus_gives_the_same_bytes(kernels, whole, tmp_path):  # noqa: F811
    np.save(tmp_path / "docs.npy", DOCS)
    corpora = [prepare(DOCS), prepare(tmp_path / "docs.npy", tmp_path / "kept")]
    for corpus, case in product(corpora, CASES):
        for threads in (1, 3):
            assert ranked(corpus, *case, threads=threads, engine=kernels) == whole[case], case
        assert counted(corpus, *case[:2], engine=kernels) == whole[case[:2]], case


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64])
@pytest.mark.parametrize("metric", METRICS)
def test_every_type_and_metric(dtype, metric, kernels, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(prepared, "BLOCK_ROWS", 64)
    monkeypatch.setattr("assay.search.engine.inputs.WINDOW_BYTES", 64 * 4 * DOCS.shape[1])
    rng = np.random.default_rng(8)
    docs = (9 * rng.standard_normal((300, 19))).astype(dtype)
    docs[:, 0] = 3
    queries = docs[::9] + dtype(1)
    want = rank(queries, docs, 7, metric=metric, engine="numpy", threads=1)
    for corpus in (prepare(docs), prepare(docs, tmp_path / "a"), prepare(docs, tmp_path / "a")):
        got = rank(queries, corpus, 7, metric=metric, engine=kernels)
        assert got.docs.tobytes() == want.docs.tobytes()
        assert got.scores.tobytes() == want.scores.tobytes()


def test_one_corpus_serves_other_queries_metrics_and_depths(kernels):  # noqa: F811
    corpus = prepare(DOCS)
    others, _ = crowded(4)
    for queries, metric, k in product((QUERIES, others * 1000, QUERIES[:1]), METRICS, (1, 9, 200)):
        got = rank(queries, corpus, k, metric=metric, engine=kernels)
        want = rank(queries, DOCS, k, metric=metric, engine="numpy")
        assert (got.docs.tobytes(), got.scores.tobytes()) == (
            want.docs.tobytes(),
            want.scores.tobytes(),
        )


def test_rerank_takes_it(kernels):  # noqa: F811
    given = Ranking.from_arrays([[2, 0, 140]] * len(QUERIES), n_docs=len(DOCS))
    want = rerank(given, QUERIES, docs=DOCS, engine=kernels)
    assert rerank(given, QUERIES, docs=prepare(DOCS), engine=kernels).docs.tolist() == (
        want.docs.tolist()
    )


def test_sizes_that_8_bits_are_not_made_for(kernels):  # noqa: F811
    docs = DOCS.copy()
    docs[3] *= np.float32(1e35)
    corpus = prepare(docs)
    assert corpus.coarse is None
    got, want = (rank(QUERIES, each, 9, engine=kernels) for each in (corpus, docs))
    assert got.docs.tobytes() == want.docs.tobytes()


def test_rows_of_zeros_are_refused_by_the_search_that_must(kernels):  # noqa: F811
    docs = DOCS.copy()
    docs[5] = 0
    corpus = prepare(docs)
    with pytest.raises(ValueRangeError, match="docs row 5 is all zeros"):
        rank(QUERIES, corpus, 3, engine=kernels)
    for zero in ("drop", "last"):
        got, want = (rank(QUERIES, each, 150, zero=zero, engine=kernels) for each in (corpus, docs))
        assert got.docs.tobytes() == want.docs.tobytes()


def test_what_cannot_be_prepared():
    with pytest.raises(UsageError, match="prepare reads documents repeatedly"):
        prepare(iter([DOCS]))
    with pytest.raises(ValueRangeError, match="nan at row 1, column 2"):
        prepare([[1.0, 1.0, 1.0], [1.0, 1.0, np.nan]])
    with pytest.raises(ShapeError, match="two dimensions"):
        prepare(DOCS[0])
    with pytest.raises(MismatchError, match="queries have 3 columns, docs 19"):
        rank(QUERIES[:, :3], prepare(DOCS), 3)
    with pytest.raises(MismatchError, match="queries have 3 columns"):
        target_ranks(QUERIES[:, :3], prepare(DOCS), np.zeros(len(QUERIES), int))


# The file ------------------------------------------------------------------------------------


def test_codes_of_a_block_are_let_go_before_the_next(monkeypatch):
    monkeypatch.setattr("assay.search.engine.inputs.WINDOW_BYTES", 64 * 4 * DOCS.shape[1])
    codes, alive = [], []
    make = prepared.coarse_block

    def watching(*args):
        alive.append(sum(ref() is not None for ref in codes))
        coarse = make(*args)
        codes.append(weakref.ref(coarse.codes))
        return coarse

    monkeypatch.setattr(prepared, "coarse_block", watching)
    prepare(DOCS)
    assert len(alive) > 2
    assert max(alive) <= 1  # those of the block before


def made(monkeypatch) -> list[int]:
    """Counts how often documents are prepared."""
    calls: list[int] = []
    make = prepared.measure_corpus

    def counting(*args):
        calls.append(1)
        return make(*args)

    monkeypatch.setattr(prepared, "measure_corpus", counting)
    return calls


def same(one: Prepared, other: Prepared) -> bool:
    pairs = zip((*one.measures, *one.coarse), (*other.measures, *other.coarse), strict=True)
    return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in pairs)


def test_a_file_is_made_once_and_mapped_afterwards(tmp_path, monkeypatch):
    calls = made(monkeypatch)
    first = prepare(DOCS, tmp_path / "kept")
    again = prepare(DOCS.copy(), tmp_path / "kept")
    assert len(calls) == 1
    assert same(first, again)
    assert is_mapped(again.coarse.codes) != needs_copies()


def test_documents_that_changed_are_prepared_anew(tmp_path, monkeypatch):
    calls = made(monkeypatch)
    prepare(DOCS, tmp_path / "kept")
    changed = DOCS.copy()
    changed[7, 3] = np.nextafter(changed[7, 3], np.float32(9))
    for number, docs in enumerate((changed, DOCS[:-1], DOCS.astype(np.float64)), start=2):
        assert same(prepare(docs, tmp_path / "kept"), prepare(docs))
        assert len(calls) == 2 * number - 2 + 1  # one of them without a file


def test_an_old_file_of_documents_is_known_by_its_place(tmp_path, monkeypatch):
    path, kept = tmp_path / "docs.npy", tmp_path / "kept"
    np.save(path, DOCS)
    monkeypatch.setattr(prepared, "SETTLED", -60.0)  # as if it had been written long ago
    prepare(path, kept)
    monkeypatch.setattr(prepared, "digest_rows", lambda _: pytest.fail("it was read"))
    assert len(prepare(path, kept)) == len(DOCS)


def test_a_file_that_changed_at_its_place_is_noticed(tmp_path, monkeypatch):
    path, kept = tmp_path / "docs.npy", tmp_path / "kept"
    np.save(path, DOCS)
    monkeypatch.setattr(prepared, "SETTLED", -60.0)
    prepare(path, kept)
    before = os.stat(path)
    np.save(path, DOCS[::-1])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # ctime still tells
    assert same(prepare(path, kept), prepare(DOCS[::-1].copy()))


def test_a_file_that_has_just_changed_is_read(tmp_path):
    np.save(tmp_path / "docs.npy", DOCS)
    prepare(tmp_path / "docs.npy", tmp_path / "kept")
    head = (tmp_path / "kept").read_bytes().split(b"\n")[1]
    assert json.loads(head)["place"] is None


@pytest.mark.parametrize("how", ["flipped", "short", "long head", "no digest", "no codes"])
def test_a_damaged_file_is_refused(how, tmp_path):
    kept = tmp_path / "kept"
    prepare(DOCS, kept)
    content = bytearray(kept.read_bytes())
    if how == "flipped":
        content[-9] ^= 1
    elif how == "short":
        del content[-1:]
    elif how == "long head":
        content[content.index(b'"arrays"') + 12] ^= 3
    else:
        key = b'"arrays"' if how == "no digest" else b'"coarse"'
        content[content.index(key) + 1] ^= 1
    kept.write_bytes(content)
    with pytest.raises(FormatError, match=r"kept is damaged. Remove it"):
        prepare(DOCS, kept)


def test_another_file_is_never_overwritten(tmp_path):
    other = tmp_path / "thesis.txt"
    other.write_text("important")
    with pytest.raises(FormatError, match=r"thesis\.txt is not a prepared corpus"):
        prepare(DOCS, other)
    assert other.read_text() == "important"
    (tmp_path / "empty").touch()
    with pytest.raises((FormatError, StorageError)):
        prepare(DOCS, tmp_path / "empty")
    with pytest.raises(StorageError):
        prepare(DOCS, tmp_path)


def test_another_version_is_made_anew(tmp_path, monkeypatch):
    prepare(DOCS, tmp_path / "kept")
    monkeypatch.setattr(prepared, "VERSION", prepared.VERSION + 1)
    calls = made(monkeypatch)
    prepare(DOCS, tmp_path / "kept")
    assert len(calls) == 1
