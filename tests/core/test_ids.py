"""Ids: what is accepted, what is refused and how, and what can be asked of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay.core.ids
from assay.core.ids import Ids
from assay.errors import IdError, ShapeError
from assay.native import load

CLEAN = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f\0"), min_size=1
)


@pytest.fixture(autouse=True, params=["native", "numpy"])
def engine(request, monkeypatch):
    try:
        kernels = load(request.param)
    except ImportError:
        pytest.skip("assay.native._kernels is not built")
    monkeypatch.setattr(assay.core.ids, "kernels", lambda: kernels)


@given(texts=st.lists(CLEAN))
def test_text_comes_back(texts):
    ids = Ids.of(texts)
    assert ids.to_list() == list(ids) == [ids[i] for i in range(len(texts))] == texts
    assert len(ids) == len(texts)
    assert ids.kind == "text"


@given(numbers=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_integers_come_back(numbers):
    ids = Ids.of(numbers)
    assert ids.to_list() == list(ids) == [ids[i] for i in range(len(numbers))] == numbers
    assert ids.kind == "integer"


@pytest.mark.parametrize(
    "values",
    [
        ("a", "b"),
        np.array(["a", "b"]),
        np.array(["a", "b"], object),
        np.array([np.str_("a"), "b"], object),
        {"a": 1, "b": 2}.keys(),
        Ids.of(["a", "b"]),
    ],
)
def test_any_sequence_of_text(values):
    assert Ids.of(values) == Ids.of(["a", "b"])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", ">i4", "uint64", "int64"])
def test_any_integer_array(dtype):
    assert Ids.of(np.array([3, 1], dtype)) == Ids.of([np.int16(3), 1])
    assert Ids.of(np.arange(10, dtype=dtype)[::-3]).to_list() == [9, 6, 3, 0]


def test_the_input_may_change_later():
    numbers = np.array([1, 2])
    ids = Ids.of(numbers)
    numbers[0] = 9
    assert ids[0] == 1


def test_count():
    assert Ids.count(3) == Ids.of([0, 1, 2])


def test_arrays_are_read_only():
    for array in (*Ids.of(["a"]).utf8, Ids.count(2).numbers, Ids.of(["b", "a"]).order()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, "1"], "the query ids|row 1 is '1', row 0 is 1"),
        (["a", 5], "row 0 is 'a', row 1 is 5"),
        (["a", None], "row 1 is missing: None"),
        (["a", float("nan")], "row 1 is missing: nan"),
        ([1, 2.0], "row 1 is not an id: 2.0 of type float"),
        ([1, True], "row 1 is not an id: True of type bool"),
        ([b"a"], "row 0 is not an id: b'a' of type bytes"),
        (np.array([1.5]), "row 0 is not an id: 1.5 of type float"),
        (np.array([True]), "row 0 is not an id: True of type bool"),
        (["a", ""], "row 1 is '': an id cannot be empty"),
        ([""], "row 0 is ''"),
        (["a", "b c"], "row 1 is 'b c': an id cannot hold white space"),
        (["a\tb"], r"row 0 is 'a\\tb'"),
        (["x", "a\nb"], r"row 1 is 'a\\nb'"),
        (["x", "a\n"], r"row 1 is 'a\\n'"),
        (["\n", "b"], r"row 0 is '\\n'"),
        (["a\0"], r"row 0 is 'a\\x00'"),
        (["a", "\ud800"], r"row 1 is '\\ud800': .* surrogate"),
        (["a" * 100 + " "], "row 0 is 'a{58}…:"),
        (["a" * 57 + " "], "row 0 is 'a{57} ':"),
        (["a" * 58 + " "], "row 0 is 'a{58}…:"),
        ([1, 2**63], "row 1, 9223372036854775808, exceeds 64 bits"),
        (np.array([1, 2**63], np.uint64), "row 1, 9223372036854775808, exceeds 64 bits"),
        ("abc", "must be a sequence"),
        ({"a"}, "must be a sequence"),
        (7, "must be a sequence"),
    ],
)
def test_refusals_name_the_row(values, message):
    with pytest.raises(IdError, match=message):
        Ids.of(values, "query")


@pytest.mark.parametrize("values", [np.array([["a"]]), np.array([[1]]), np.array(1)])
def test_arrays_of_other_shapes(values):
    with pytest.raises(ShapeError, match="shape"):
        Ids.of(values)


def test_composed_and_decomposed_stay_distinct():
    ids = Ids.of(["\u00e9", "e\u0301"])
    assert ids.first_duplicate() is None
    assert ids.match(Ids.of(["e\u0301"])).tolist() == [-1, 0]


@given(texts=st.lists(CLEAN, min_size=1), data=st.data())
def test_take_and_concat(texts, data):
    places = data.draw(st.lists(st.integers(-len(texts), len(texts) - 1)))
    ids = Ids.of(texts)
    assert ids.take(places).to_list() == [texts[place] for place in places]
    assert Ids.concat([ids, ids.take(places), Ids.of([])]).to_list() == texts + [
        texts[place] for place in places
    ]


def test_places_must_exist():
    for ids in (Ids.count(2), Ids.of(["a", "b"])):
        for places in ([2], [-3], [0.5]):
            with pytest.raises(IndexError):
                ids.take(places)
        for place in (2, -3):
            with pytest.raises(IndexError, match=f"id {place} is out of range for 2 ids"):
                ids[place]
        assert (ids[-1], ids[-2]) == (ids[1], ids[0])
        assert len(ids.take([])) == 0


def test_concat_of_kinds_and_nothing():
    assert len(Ids.concat([])) == 0
    assert Ids.concat([Ids.count(2), Ids.of([]), Ids.count(1)]).to_list() == [0, 1, 0]
    assert Ids.concat([Ids.of([-1, 10]), Ids.of(["0"])]).to_list() == ["-1", "10", "0"]
    with pytest.raises(IdError, match="Numbered rows"):
        Ids.concat([Ids.count(1), Ids.of(["0"])])


@given(texts=st.lists(CLEAN), others=st.lists(CLEAN, unique=True), descending=st.booleans())
def test_match_and_order_of_text(texts, others, descending):
    found = Ids.of(texts).match(Ids.of(others)).tolist()
    assert found == [others.index(text) if text in others else -1 for text in texts]
    order = Ids.of(texts).order(descending).tolist()
    assert order == sorted(range(len(texts)), key=lambda i: texts[i].encode(), reverse=descending)


NUMBERS = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])


@given(numbers=st.lists(NUMBERS), others=st.lists(NUMBERS, unique=True), descending=st.booleans())
def test_match_and_order_of_integers(numbers, others, descending):
    ids = Ids.of(np.array(numbers, np.int64))
    found = ids.match(Ids.of(np.array(others, np.int64))).tolist()
    assert found == [others.index(n) if n in others else -1 for n in numbers]
    texts = list(map(str, numbers))
    order = ids.order(descending).tolist()
    assert order == sorted(range(len(numbers)), key=texts.__getitem__, reverse=descending)
    assert order == Ids.of(texts).order(descending).tolist()
    seconds = [i for i, n in enumerate(numbers) if n in numbers[:i]]
    pair = (numbers.index(numbers[seconds[0]]), seconds[0]) if seconds else None
    assert ids.first_duplicate() == pair


def test_integers_are_ordered_as_their_text_is():
    edge = [-(2**63), 2**63 - 1, 10**18, 10**17, 0, 1, 10, 2, 100, -1, -10, -2, 9, 99]
    assert [edge[i] for i in Ids.of(edge).order()] == sorted(edge, key=str)
    assert [edge[i] for i in Ids.of(edge).order(descending=True)] == sorted(edge, key=str)[::-1]


def test_rows_without_ids_are_ordered_by_number():
    rows = Ids.count(12)
    assert rows.numbered
    assert rows.order().tolist() == list(range(12))
    assert rows.order(descending=True).tolist() == list(range(11, -1, -1))
    assert rows.take([11, 2, 10]).order(descending=True).tolist() == [0, 2, 1]
    assert rows.take([11, 2, 10]).order().tolist() == [1, 2, 0]
    assert Ids.concat([rows, Ids.count(2, 12)]).numbered
    named = Ids.of(list(range(12)))
    assert named == rows
    assert not named.numbered
    assert not Ids.concat([rows, named.take([0])]).numbered


@pytest.mark.parametrize("others", [[4, 6], [4, 7], [4, 5, 8], [5, 4], [4, 4 + 2**40], [7]])
def test_match_among_numbers_with_gaps(others):
    wanted = list(range(3, 10))
    found = Ids.of(wanted).match(Ids.of(others)).tolist()
    assert found == [others.index(one) if one in others else -1 for one in wanted]


@pytest.mark.parametrize(
    "ids",
    [
        Ids.count(300),
        Ids.count(5, -2),
        Ids.of([20, 10, 99, 10]),
        Ids.of([5, -5, 10, 1, 100, -(2**63)]),
        Ids.of(["b", "ab"]),
    ],
)
def test_sort_bytes_stand_in_the_order_of_the_ids(ids):
    blob, ends = ids.sort_bytes
    keys = [blob[start:end].tobytes() for start, end in pairwise(ends)]
    assert sorted(range(len(ids)), key=keys.__getitem__) == ids.order().tolist()


def test_rows_of_large_numbers_cost_no_more_than_others():
    used, places = Ids.of_rows(np.array([[2**30, -1], [5, 2**30]], np.int32))
    assert (used.to_list(), used.numbered) == ([5, 2**30], True)
    assert (places.tolist(), places.dtype) == ([[1, -1], [0, 1]], np.int32)
    for numbers, size, count in (([4, -1], None, 5), ([-1], None, 0), ([4], 7, 7)):
        rows, places = Ids.of_rows(np.array(numbers), size)
        assert (rows.to_list(), places.tolist()) == (list(range(count)), numbers)
    assert len(Ids.of_rows(np.array([4]), 2**40)[0]) == 1


def test_match_of_two_kinds_goes_by_text():
    assert Ids.of(["1", "01", "-7"]).match(Ids.of([-7, 1])).tolist() == [1, -1, 0]
    assert Ids.of([10, 2]).match(Ids.of(["2", "x"])).tolist() == [-1, 0]


def test_match_refuses_duplicates_and_numbered_rows():
    with pytest.raises(IdError, match="'a' appears twice, in rows 0 and 2"):
        Ids.of(["a"]).match(Ids.of(["a", "b", "a"]))
    with pytest.raises(IdError, match=r"Numbered rows.*ids such as '1'"):
        Ids.of(["1"]).match(Ids.count(3))
    assert Ids.of([]).match(Ids.count(3)).tolist() == []


def test_equality_and_repr():
    assert Ids.of(["1"]) != Ids.of([1])
    assert Ids.of(["ab", "c"]) != Ids.of(["a", "bc"])
    assert repr(Ids.of(["a", "b", "c", "d"])) == "Ids(4 text: 'a', 'b', 'c', …)"
    assert repr(Ids.count(1)) == "Ids(1 integer: 0)"
    assert repr(Ids.count(3)) == "Ids(3 integer: 0, 1, 2)"
    with pytest.raises(TypeError):
        hash(Ids.count(1))
