"""Checks: where what is accepted ends, and which place a refusal names."""

from __future__ import annotations

import re

import numpy as np
import pytest

from assay.core import checks
from assay.core.ids import Ids
from assay.core.text import finite_or_none, parse_whole
from assay.errors import IdError, MismatchError, ShapeError, UsageError, ValueRangeError

TOP = 10**15


def refused(error, words, function, *given, **options):
    with pytest.raises(error, match=re.escape(words)):
        function(*given, **options)


@pytest.mark.parametrize("k", [1, np.int8(2), TOP])
def test_a_cutoff_is_a_whole_number_from_1(k):
    found = checks.check_cutoff(k)
    assert (found, type(found)) == (int(k), int)


@pytest.mark.parametrize("k", [0, -1, True, np.True_, 2.0, "3", None])
def test_what_is_no_cutoff(k):
    refused(
        UsageError,
        f"depth must be a whole number ≥ 1, found {k!r}",
        checks.check_cutoff,
        k,
        "depth",
    )


def test_a_cutoff_beyond_the_largest():
    refused(UsageError, "must be at most 10^15", checks.check_cutoff, TOP + 1)


def test_a_choice_in_either_spelling():
    assert checks.check_choice("t", ("randomisation", "t"), "test") == "t"
    assert checks.check_choice("zero", ("zero", "sero"), "empty") == "zero"
    for odd in ("x", 3, None):
        words = f"test must be one of randomisation, t; found {odd!r}."
        refused(UsageError, words, checks.check_choice, odd, ("randomisation", "t"), "test")


def test_the_first_value_that_is_not_finite_is_named():
    matrix = np.array([[1.0, 2.0], [np.nan, -np.inf]])
    words = "scores holds nan at row 1, column 0; 2 such values in all."
    refused(ValueRangeError, words, checks.check_finite, matrix, "scores")
    words = "at row 1, column 0 (query 'q2'); 2"
    refused(ValueRangeError, words, checks.check_finite, matrix, "s", Ids.of(["q1", "q2"]))
    words = "holds inf at row 2; 1 such"
    refused(
        ValueRangeError, words, checks.check_finite, np.array([0, 1, np.inf]), "s", Ids.count(3)
    )
    checks.check_finite(np.zeros((0, 2)), "scores")
    checks.check_finite(np.array([1e308, -1e308]), "scores")


def test_both_places_of_an_id_are_named():
    words = "The doc id 'b' appears twice, in rows 1 and 3."
    refused(IdError, words, checks.check_unique, Ids.of(["a", "b", "c", "b"]), "doc")


def test_document_numbers_from_unused_to_the_last():
    largest = 2**31 - 2
    for numbers, size in (([[-1, 4]], 5), ([[0, largest]], None), ([[0, largest]], 2**40)):
        found = checks.check_doc_numbers(np.array(numbers), size)
        assert (found.tolist(), found.dtype) == (numbers, np.int32)
    cases = [
        ([[0, 1], [5, 6]], 5, "5 at (1, 0) is out of range for 5 documents."),
        ([[0, -2]], 5, "-2 at (0, 1)"),
        ([[largest + 1]], None, "is out of range."),
        ([[largest + 1]], 2**40, "at (0, 0)"),
    ]
    for numbers, size, words in cases:
        refused(ValueRangeError, words, checks.check_doc_numbers, np.array(numbers), size)


@pytest.mark.parametrize("make", [list, lambda labels: np.array(labels, object)])
def test_labels_fill_64_bits(make):
    edge = [-(2**63), 0, 2**63 - 1]
    found = checks.check_labels(make(edge), "labels")
    assert (found.tolist(), found.dtype) == (edge, np.int64)
    for odd in (2**63, -(2**63) - 1):
        words = f"labels holds {odd} in row 1, which does not fit 64 bits"
        refused(ValueRangeError, words, checks.check_labels, make([1, odd]), "labels")


def test_unsigned_labels():
    assert checks.check_labels(np.array([2**63 - 1], np.uint64), "y").tolist() == [2**63 - 1]
    refused(ValueRangeError, "in row 1", checks.check_labels, np.array([0, 2**63], np.uint64), "y")


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([1, None], "y is missing in row 1 (found None)"),
        (["a", float("nan")], "y is missing in row 1 (found nan)"),
        (["a", 3, 2.5], "y mixes text with int, e.g. 3."),
        (["a", "b\0"], r"y holds NUL in row 1: 'b\x00'"),
        ([1.0, 2.5], "y holds 2.5 in row 1. Use text or whole numbers"),
        (np.array([1.0, -np.inf]), "y holds -inf in row 1"),
        (np.array([1j]), "found dtype complex128"),
    ],
)
def test_the_faulty_label_is_named(labels, words):
    refused(ValueRangeError, words, checks.check_labels, labels, "y")


def test_labels_of_every_kind():
    assert checks.check_labels(["a", "b"], "y").tolist() == ["a", "b"]
    assert checks.check_labels([True, False], "y").tolist() == [1, 0]
    assert checks.check_labels(np.array([True, False]), "y").tolist() == [True, False]
    assert checks.check_labels([2.0, np.float32(3)], "y").tolist() == [2, 3]
    refused(ShapeError, "found shape (1, 1)", checks.check_labels, np.array([["a"]]), "y")


def test_text_is_compared_with_text_only():
    text, numbers = np.array(["3"]), np.array([3])
    checks.check_one_kind_of_label(text, text)
    checks.check_one_kind_of_label(numbers, np.array([True]))
    words = "Query labels are integers and document labels are text"
    refused(MismatchError, words, checks.check_one_kind_of_label, numbers, text)


def test_ranks_from_the_lowest_to_the_largest():
    assert checks.check_ranks([0, TOP]).tolist() == [0, TOP]
    assert checks.check_ranks([1.0, 2.0], low=1).tolist() == [1, 2]
    for ranks, low, row in (([0, -1], 0, 1), ([1, 0], 1, 1), ([TOP + 1], 0, 0), ([1, 2.5], 0, 1)):
        words = f"n must be whole numbers from {low} to 10^15; row {row} is {ranks[row]}."
        refused(ValueRangeError, words, checks.check_ranks, ranks, "n", low)
    refused(ValueRangeError, "row 0", checks.check_ranks, np.array([2**64 - 1], np.uint64))
    refused(ShapeError, "shape (1,) of bool", checks.check_ranks, [True])


def test_row_numbers_within_their_limit():
    assert checks.check_numbers([0, 2], 3, "rows").tolist() == [0, 2]
    assert checks.check_numbers([], 0, "rows").tolist() == []
    for rows in ([0, 3], [0, 3, 9], [0, -1]):
        words = f"rows must lie from 0 to 2; row 1 is {rows[1]}."
        refused(ValueRangeError, words, checks.check_numbers, rows, 3, "rows")
    for odd in ([[0]], [0.0], [True]):
        refused(ShapeError, "whole numbers", checks.check_numbers, odd, 3, "rows")


@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_scores_that_float64_holds(kind):
    limit = 2**53
    signs = [1, -1] if kind == "int64" else [1]
    for sign in signs:
        assert (
            checks.exact_scores(np.array([0, sign * limit], kind), "s").tolist()[1] == sign * limit
        )
        odd = np.array([0, sign * (limit + 1)], kind)
        refused(ValueRangeError, "beyond 2^53", checks.exact_scores, odd, "s")
    assert checks.exact_scores(np.zeros(0, kind), "s").tolist() == []


def test_scores_of_more_than_64_bits():
    assert checks.exact_scores(np.array([1e300]), "s").tolist() == [1e300]
    if np.dtype(np.longdouble).itemsize > 8:
        refused(
            ValueRangeError,
            "Use float64 or a narrower one",
            checks.exact_scores,
            np.ones(1, np.longdouble),
            "s",
        )


def test_a_matrix_of_real_numbers():
    assert checks.real_matrix([[1], [2]], "s").shape == (2, 1)
    for odd in ([[True]], [[1j]], [["a"]]):
        refused(ValueRangeError, "must hold real numbers", checks.real_matrix, odd, "s")
    for shape in ((0, 2), (2, 0), (2,), (1, 1, 1)):
        refused(ShapeError, f"found shape {shape}", checks.real_matrix, np.zeros(shape), "s")


def test_a_list_is_not_a_single_value():
    assert checks.as_list((one for one in "ab"), "x") == ["a", "b"]
    assert [type(one) for one in checks.as_list(np.ones(1, np.float32), "x")] == [np.float32]
    assert [type(one) for one in checks.as_list(np.ones(1), "x")] == [float]
    for odd in ("ab", b"ab", 5, None, np.array(5)):
        refused(ShapeError, "x must be a list", checks.as_list, odd, "x")


def test_a_few_names():
    assert checks.name_few(["a"]) == "'a'"
    assert checks.name_few("abcde") == "'a', 'b', 'c', 'd', 'e'"
    assert checks.name_few("abcdef") == "'a', 'b', 'c', 'd', 'e', … (6 in all)"
    assert checks.name_few([1, 2, 3], 2) == "1, 2, … (3 in all)"


def test_whole_numbers_that_others_wrote():
    written = {"+7": 7, "-007": -7, "0": 0, str(TOP): TOP, f"-{TOP}": -TOP}
    assert {text: parse_whole(text) for text in written} == written
    assert [parse_whole(text) for text in (str(TOP + 1), f"-{TOP + 1}", "", "1.0", "-")] == [
        None
    ] * 5
    assert [finite_or_none(one) for one in (float("inf"), float("nan"), None, -2)] == [None] * 3 + [
        -2.0
    ]


def test_values_of_another_type_and_length():
    checks.require(True, bool, "flag", "True or False")
    words = "flag must be True or False, found str."
    refused(UsageError, words, checks.require, "yes", bool, "flag", "True or False")
    checks.check_lengths(a=2, b=2)
    words = "These must have the same length: a has 2, b has 2, c has 3."
    with pytest.raises(MismatchError, match=words):
        checks.check_lengths(a=2, b=2, c=3)


def test_why_something_is_no_text():
    assert [checks.flaw_of(text) for text in ("", "é", "a\nb")] == [""] * 3
    assert checks.flaw_of(3) == "is int, not text: 3"
    assert checks.flaw_of("a\ud800").startswith(
        r"holds half a character (a lone surrogate): 'a\ud8"
    )


def test_arrays_without_a_mask():
    assert checks.plain_array([[1, 2]], "x").shape == (1, 2)
    masked = np.ma.array([1.0], mask=[False])
    refused(ShapeError, "x is a masked array", checks.plain_array, masked, "x")
    refused(ShapeError, "rows of different lengths", checks.plain_array, [[1], [1, 2]], "x")
