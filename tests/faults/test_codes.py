"""Faults 5 to 9, 19 to 23, 26 and 27 among binary codes."""

from __future__ import annotations

import numpy as np
import pytest

from assay import Conventions, Judgments, evaluate
from assay.core.hits import judge
from assay.errors import InputError, MismatchError, ShapeError, UsageError, ValueRangeError
from assay.scoring.chance import chance
from assay.search.engine import Codes, codes, distance_histogram, pack_codes, rank_codes


def bits_of(rows: int, bits: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((rows, bits)) < 0.5


def bytes_of(ranking) -> tuple:
    return ranking.offsets.tobytes(), ranking.docs.tobytes(), ranking.scores.tobytes()


@pytest.mark.parametrize("shape", [(4,), (1, 2, 3), (0, 8), (3, 0)])
def test_shapes_that_are_no_rows_of_bits(shape):
    for build in (pack_codes, lambda bits: rank_codes(bits_of(2, 8), bits, 1)):
        with pytest.raises(ShapeError) as caught:
            build(np.zeros(shape, int))
        assert str(shape) in str(caught.value)


def test_different_lengths_are_refused():
    with pytest.raises(MismatchError, match="16 bits and docs have 24"):
        rank_codes(bits_of(1, 16), bits_of(2, 24), 1)


@pytest.mark.parametrize("value", [2, -2, 0.5, np.nan, np.inf, 255])
def test_the_first_cell_that_is_no_bit_is_named(value):
    cells = bits_of(6, 9).astype(float)
    cells[4, 7] = cells[5, 0] = value
    with pytest.raises(ValueRangeError, match=r"row 4, column 7") as caught:
        pack_codes(cells)
    assert f"{np.float64(value)}" in str(caught.value)
    with pytest.raises(ValueRangeError, match="docs holds"):
        rank_codes(bits_of(1, 9), cells, 1)


def test_zero_and_minus_one_do_not_mix():
    with pytest.raises(ValueRangeError, match=r"holds -1 in row 1, column 0, but 0"):
        pack_codes([[0, 1], [-1, 1]])


def test_packed_rows_are_not_taken_for_bits():
    with pytest.raises(ValueRangeError, match=r"Codes\(packed, bits\)"):
        pack_codes(np.array([[160, 1]], np.uint8))


@pytest.mark.parametrize("bits", [["a"], [[None]], [["0", "1"]], [[1, 0], [1]], [[1j]]])
def test_what_is_no_number_is_refused(bits):
    with pytest.raises(InputError):
        pack_codes(bits)


@pytest.mark.parametrize("bits", [1, 7, 9, 63, 250, 257])
def test_pad_bits_are_never_counted(bits, engine):
    queries, docs = bits_of(5, bits, 1), bits_of(40, bits, 2)
    docs[3] = ~queries[0]
    counts = distance_histogram(queries, docs)
    assert counts.shape == (5, bits + 1)
    assert counts[0, bits] >= 1
    ranking = rank_codes(queries, docs, 40)
    assert -ranking.scores.min() == (queries[:, None] != docs).sum(axis=2).max() == bits


def test_padding_that_is_not_zero_is_refused():
    packed = np.zeros((5, 2), np.uint8)
    packed[3, 1] = 0b00010000
    assert len(Codes(packed, 12)) == 5
    with pytest.raises(ValueRangeError, match=r"Row 3 .* beyond its 11 bits"):
        Codes(packed, 11)


def test_equal_distances_never_look_good(engine):
    docs = np.zeros((60, 16), int)
    for lucky in (0, 30, 59):
        judgments = Judgments.from_targets([lucky], n_docs=60)
        whole = rank_codes(docs[:1], docs, 60)
        rules = Conventions(ties="expected")
        found = evaluate(whole, judgments, ["RR", "nDCG@10"], conventions=rules)
        expected = chance(judge(whole, judgments), ["RR", "nDCG@10"])
        np.testing.assert_allclose(found.values, expected.values, atol=1e-13)
        assert evaluate(rank_codes(docs[:1], docs, 5), judgments, "RR").tied.all()


def test_queries_in_another_order_give_the_same_rows(engine):
    queries, docs = bits_of(33, 12, 1), bits_of(200, 12, 2)
    order = np.random.default_rng(3).permutation(33)
    straight, mixed = rank_codes(queries, docs, 9), rank_codes(queries[order], docs, 9)
    assert [mixed.row(i) for i in range(33)] == [straight.row(int(q)) for q in order]


@pytest.mark.parametrize("block", [1, 7, 100])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_blocks_and_threads_change_nothing(block, threads, engine, monkeypatch):
    queries, docs = bits_of(100, 9, 1), bits_of(150, 9, 2)
    expected = bytes_of(rank_codes(queries, docs, 12, threads=1))
    monkeypatch.setattr(codes, "MOST_QUERIES", block)
    assert bytes_of(rank_codes(queries, docs, 12, threads=threads)) == expected


@pytest.mark.parametrize("k", [0, -1, 2.5, True, None, "3"])
def test_invalid_cutoffs_are_refused(k):
    with pytest.raises(UsageError, match="whole number"):
        rank_codes(bits_of(2, 8), bits_of(2, 8), k)


@pytest.mark.parametrize("k", [5, 6, 10**15])
def test_k_beyond_the_collection_retrieves_all(k, engine):
    ranking = rank_codes(bits_of(3, 8, 1), bits_of(5, 8, 2), k)
    assert ranking.complete.all()
    assert not ranking.tie_split.any()
    found = evaluate(ranking, Judgments.from_labels([1] * 3, [1] * 5), "P@10")
    assert found.values.tolist() == [[0.5] * 3]


def test_self_is_excluded_but_its_duplicate_stays(engine):
    docs = bits_of(50, 16)
    docs[40] = docs[7]
    ids = [f"d{i}" for i in range(50)]
    ranking = rank_codes(docs, docs, 49, exclude="self", query_ids=ids, doc_ids=ids)
    assert ranking.lengths.tolist() == [49] * 50
    assert ranking.row("d7")[0] == ("d40", 0.0)
    assert ranking.row("d40")[0] == ("d7", 0.0)
    assert all(own not in dict(ranking.row(own)) for own in ids)


@pytest.mark.parametrize("keep_ties", [False, True])
@pytest.mark.parametrize("bits", [4, 64])
def test_shards_merged_are_one_search(bits, keep_ties, engine, monkeypatch):
    queries, docs = bits_of(20, bits, 1), bits_of(400, bits, 2)
    whole = rank_codes(queries, docs, 30, keep_ties=keep_ties, threads=1)
    monkeypatch.setattr(codes, "FEWEST_DOCS", 1)
    for threads in (2, 3, 7):
        parts = rank_codes(queries, docs, 30, keep_ties=keep_ties, threads=threads)
        assert bytes_of(parts) == bytes_of(whole)
        if not keep_ties:
            assert parts.tie_split.tolist() == whole.tie_split.tolist()
