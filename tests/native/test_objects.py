"""Columns from dictionaries, tuples and lists: native = twin; what is not plain ends the walk."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples

TYPES = (np.float64, np.float32, np.float16, np.int64)

CLEAN = st.text("abé€", min_size=1, max_size=3) | st.sampled_from(
    ["a-long-id-beyond-sixteen-bytes-1", "a-long-id-beyond-sixteen-bytes-2", "\x01", "x" * 200]
)
PLAIN = st.sampled_from([0.5, -0.0, 1e300, 3, -(2**53) + 1, np.float32(0.1), np.int64(7)])
ODD_IDS = ["", " ", "a b", "abcdefgh\t", "12345678 ", "\0", "a\n", "\ud800", "\x0b", 1, None, b"a"]
ODD_VALUES = [
    float("nan"),
    float("-inf"),
    np.float32("inf"),
    np.int64(-(2**63)),
    2**53,
    10**400,
    True,
    None,
    "1",
    np.bool_(True),
    np.uint16(1),
]


def fresh(text):
    """An equal text that is another object, as ids read line by line are."""
    return "".join([text[:1], text[1:]]) if isinstance(text, str) and len(text) > 1 else text


def as_lists(found):
    return None if found is None else [(part.dtype, part.tolist()) for part in found]


def decoded(blob, offsets):
    raw = blob.tobytes()
    return [raw[a:b].decode() for a, b in pairwise(offsets)]


@examples(200)
@given(texts=st.lists(CLEAN, max_size=30))
def test_texts_are_numbered_by_first_appearance(engine, texts):
    blob, offsets, codes = engine.number_texts([fresh(text) for text in texts])
    names = list(dict.fromkeys(texts))
    assert decoded(blob, offsets) == names
    assert codes.tolist() == [names.index(text) for text in texts]
    assert (blob.dtype, offsets.dtype, codes.dtype) == (np.uint8, np.int64, np.int32)


@examples(200)
@given(rows=st.lists(st.dictionaries(CLEAN, PLAIN, max_size=8), max_size=6))
def test_rows_of_dictionaries(engine, rows):
    given_rows = [{fresh(doc): value for doc, value in row.items()} for row in rows]
    blob, ids, offsets, docs, values = engine.number_rows(given_rows, TYPES, False)
    names = decoded(blob, ids)
    assert offsets.tolist() == np.cumsum([0, *map(len, rows)]).tolist()
    assert [names[doc] for doc in docs] == [doc for row in rows for doc in row]
    assert values.tolist() == [float(value) for row in rows for value in row.values()]
    assert names == list(dict.fromkeys(doc for row in rows for doc in row))


@examples(200)
@given(rows=st.lists(st.tuples(CLEAN, CLEAN, PLAIN), max_size=20), width=st.sampled_from([2, 3]))
def test_tuples(engine, rows, width):
    found = engine.number_tuples([row[:width] for row in rows], width, TYPES, False)
    queries, docs = decoded(*found[:2]), decoded(*found[2:4])
    values = [float(row[2]) if width == 3 else 1.0 for row in rows]
    assert [queries[code] for code in found[4]] == [row[0] for row in rows]
    assert [docs[code] for code in found[5]] == [row[1] for row in rows]
    assert found[6].tolist() == values


@pytest.mark.parametrize("odd", ODD_IDS, ids=ascii)
def test_an_id_that_is_not_plain_ends_the_walk(engine, odd):
    assert engine.number_texts(["a", odd, "b"]) is None
    assert engine.number_rows([{"a": 1.0}, {odd: 1.0}], TYPES, False) is None
    for row in (("q", odd, 1.0), (odd, "a", 1.0)):
        assert engine.number_tuples([("q", "a", 1.0), row], 3, TYPES, False) is None


@pytest.mark.parametrize("odd", ODD_VALUES, ids=repr)
@pytest.mark.parametrize("truths", [False, True])
def test_a_value_that_is_not_plain_ends_the_walk(engine, odd, truths):
    fine = truths and odd is True
    assert (engine.number_rows([{"a": 1.0}, {"b": odd}], TYPES, truths) is not None) == fine
    assert (engine.number_tuples([("q", "b", odd)], 3, TYPES, truths) is not None) == fine


@pytest.mark.parametrize("row", [OrderedDict(a=1.0), MappingProxyType({"a": 1.0}), ["a"], None])
def test_a_row_that_is_no_plain_dictionary_ends_the_walk(engine, row):
    assert engine.number_rows([{"a": 1.0}, row], TYPES, False) is None


def test_tuples_of_another_width_or_type_end_the_walk(engine):
    for row in (("q", "a"), ("q", "a", 1.0, 2), ["q", "a", 1.0], None):
        assert engine.number_tuples([("q", "a", 1.0), row], 3, TYPES, False) is None
    with pytest.raises(ValueError, match="width"):
        engine.number_tuples([], 4, TYPES, False)


def test_many_ids_of_rows_longer_than_what_is_gathered_at_once(both):
    rng = np.random.default_rng(5)
    rows = [
        {f"doc-{doc}": float(doc) for doc in rng.choice(200_000, size, replace=False)}
        for size in (0, 1, 31, 32, 33, 64, 127, 128, 129, 1000, 70_000, 3)
    ]
    flat = [(f"q{at}", doc, value) for at, row in enumerate(rows) for doc, value in row.items()]
    texts = [row[1] for row in flat]
    native, twin = both
    assert as_lists(native.number_rows(rows, TYPES, False)) == as_lists(
        twin.number_rows(rows, TYPES, False)
    )
    assert as_lists(native.number_texts(texts)) == as_lists(twin.number_texts(texts))
    assert as_lists(native.number_tuples(flat, 3, TYPES, False)) == as_lists(
        twin.number_tuples(flat, 3, TYPES, False)
    )


def test_dictionaries_with_removed_and_mixed_keys(both):
    removed = {f"d{i}": float(i) for i in range(300)}
    for i in range(0, 300, 3):
        del removed[f"d{i}"]
    once_mixed = {1: 0.0, "a": 1.0}
    del once_mixed[1]

    class Holder:
        pass

    holder = Holder()
    holder.x, holder.y = 1.0, 2.0
    rows = [removed, once_mixed, holder.__dict__, {}]
    native, twin = (kernels.number_rows(rows, TYPES, False) for kernels in both)
    assert native is not None
    assert as_lists(native) == as_lists(twin)


SCORES = st.sampled_from([0.0, -0.0, 0.5, 1, 0.1, 0.1 + 1e-12, np.float32(0.1)])
GRADES = st.sampled_from([0, 1, 2.5, -1, True])


def join_as_lists(found):
    return found and (*map(as_lists, found[:2]), *as_lists(found[2:4]), *found[4:])


@st.composite
def joins(draw):
    rows = draw(st.lists(st.dictionaries(CLEAN, SCORES, max_size=9), max_size=5))
    judged = draw(st.lists(st.dictionaries(CLEAN, GRADES, max_size=5), max_size=5))
    row_of = draw(st.permutations([*range(len(judged)), *[-1] * len(rows)]))[: len(rows)]
    return rows, judged, np.array(row_of, np.int64), TYPES


@examples(300)
@given(join=joins(), ties=st.sampled_from([-1, 0, 1]), float32=st.booleans())
def test_join_of_dictionaries(both, join, ties, float32):
    native, twin = (kernels.join_rows(*join, ties, float32) for kernels in both)
    assert native is not None
    assert join_as_lists(native) == join_as_lists(twin)


@pytest.mark.parametrize("ties", [-1, 0, 1])
@pytest.mark.parametrize("levels", [1, 7, 100_000])
def test_join_of_rows_with_many_judged_documents(both, ties, levels):
    rng = np.random.default_rng(levels)
    names = [f"doc{number}" for number in range(900)]
    run, judged = [], []
    for size in (0, 1, 40, 300, 600):
        docs = rng.choice(900, size, replace=False).tolist()
        run.append({names[doc]: float(rng.integers(levels)) for doc in docs})
        judged.append({fresh(names[doc]): doc % 3 for doc in rng.choice(900, 200, replace=False)})
    args = run, judged, np.array([3, 0, 2, 1, 4]), TYPES, ties, False
    native, twin = (kernels.join_rows(*args) for kernels in both)
    assert join_as_lists(native) == join_as_lists(twin)
    assert max(np.diff(native[1][0])) > 32


@pytest.mark.parametrize("odd", ODD_IDS, ids=ascii)
def test_a_join_ends_at_ids_that_are_not_plain(engine, odd):
    fine, own = [{"a": 1.0}], np.zeros(1, np.int64)
    assert engine.join_rows(fine, [{odd: 1}], own, TYPES, 1, False) is None
    assert engine.join_rows([{odd: 1.0}], fine, own, TYPES, 1, False) is None


def test_a_join_ends_at_scores_that_are_not_plain(engine):
    own = np.zeros(1, np.int64)
    for odd in ODD_VALUES:
        assert engine.join_rows([{"a": odd}], [{"a": 1}], own, TYPES, 1, False) is None
    assert engine.join_rows([{"a": 1e39}], [{"a": 1}], own, TYPES, 1, True) is None
    assert engine.join_rows([{"a": 1e39}], [{"a": 1}], own, TYPES, 1, False) is not None


def test_a_join_refuses_numbers_of_rows_that_are_not_there(engine):
    for own in ([1], [-2], [0, 0]):
        with pytest.raises(ValueError, match="row"):
            engine.join_rows([{"a": 1.0}], [{"a": 1}], np.array(own), TYPES, 1, False)
    with pytest.raises(ValueError, match="ties"):
        engine.join_rows([], [], np.zeros(0, np.int64), TYPES, 2, False)


LINES = st.lists(st.tuples(st.sampled_from("pqrs"), CLEAN, SCORES), max_size=40)
JUDGED = st.lists(st.tuples(st.sampled_from("pqrs"), CLEAN, GRADES), max_size=15)


@examples(300)
@given(
    run=LINES,
    judged=JUDGED,
    sort=st.booleans(),
    width=st.sampled_from([2, 3]),
    ties=st.sampled_from([-1, 0, 1]),
)
def test_join_of_tuples(both, run, judged, sort, width, ties):
    if sort:
        run, judged = ({line[:2]: line for line in lines}.values() for lines in (run, judged))
        run, judged = (sorted(lines, key=lambda line: line[0]) for lines in (run, judged))
    lines = [(fresh(q), fresh(doc), score) for q, doc, score in run]
    args = lines, [line[:width] for line in judged], width, TYPES, ties, False
    native, twin = (kernels.join_tuples(*args) for kernels in both)
    assert sort <= (native is not None)
    assert (native is None) == (twin is None)
    if native is not None:
        assert [as_lists(part) for part in native[:2]] == [as_lists(part) for part in twin[:2]]
        assert native[2].tolist() == twin[2].tolist()
        assert join_as_lists(native[3]) == join_as_lists(twin[3])


def test_tuples_of_long_rows_are_joined_as_dictionaries_are(both):
    rng = np.random.default_rng(2)
    rows = [
        {f"doc{doc}": float(doc % 9) for doc in rng.choice(9000, size, replace=False)}
        for size in (1, 31, 32, 33, 64, 5000)
    ]
    judged = [{f"doc{doc}": 1 for doc in rng.choice(9000, 50, replace=False)} for _ in rows]
    lines, pairs = (
        [(f"q{at}", doc, value) for at, row in enumerate(side) for doc, value in row.items()]
        for side in (rows, judged)
    )
    for kernels in both:
        found = kernels.join_tuples(lines, pairs, 3, TYPES, -1, False)
        expected = kernels.join_rows(rows, judged, np.arange(len(rows)), TYPES, -1, False)
        assert join_as_lists(found[3]) == join_as_lists(expected)
        assert found[2].tolist() == [len(row) for row in rows]
        assert kernels.join_tuples([*lines, lines[-4000]], pairs, 3, TYPES, -1, False) is None


def test_a_join_of_tuples_ends_at_what_is_not_plain(engine):
    fine = [("q", "a", 1.0)]
    lines = [("q", "b"), ("q", "b", 1.0, 2), ["q", "b", 1.0], None]
    lines += [("q", odd, 1.0) for odd in ODD_IDS] + [(odd, "b", 1.0) for odd in ODD_IDS]
    for line in lines:
        for odd in ([line], [*fine, line]):
            assert engine.join_tuples(odd, fine, 3, TYPES, 1, False) is None
            assert engine.join_tuples(fine, odd, 3, TYPES, 1, False) is None
    for odd in ODD_VALUES:
        assert engine.join_tuples([*fine, ("q", "b", odd)], fine, 3, TYPES, 1, False) is None
    for width, ties in ((4, 1), (3, 2)):
        with pytest.raises(ValueError, match=r"width|ties"):
            engine.join_tuples(fine, fine, width, TYPES, ties, False)


@examples(200)
@given(texts=st.lists(CLEAN | st.sampled_from(["", "a b", "12345678\n"]), max_size=30))
def test_ids_of_bytes_are_numbered_as_texts_are(engine, texts):
    coded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, coded)])
    blob = np.frombuffer(b"".join(coded), np.uint8)
    assert as_lists(engine.number_ids(blob, offsets)) == as_lists(engine.number_texts(texts))
