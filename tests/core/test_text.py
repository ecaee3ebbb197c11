"""Texts for people: keys and passwords do not show."""

from __future__ import annotations

import pytest

from assay.core.text import (
    Remark,
    did_you_mean,
    fixed,
    mask_secrets,
    natural_order,
    shorten_remarks,
    signed,
    unguard_formula,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: ***"),
        ("proxy-authorization:bearer   abc", "proxy-authorization:***"),
        ("{'X-API-KEY' : 'abc', 'n': 1}", "{'X-API-KEY' : '***', 'n': 1}"),
        ("api key = abc", "api key = ***"),
        ("?access_token=abc&k=10", "?access_token=***&k=10"),
        ("PASSWORD=abc", "PASSWORD=***"),
        ("postgresql://me:p@ss@host/db?Password=x", "postgresql://me:***@host/db?Password=***"),
        ("the key SK-ABCDEFGHIJKLMNOP is wrong", "the key *** is wrong"),
        ("nDCG@10: 0.5, tokens:5:1, faiss:HNSW32?efSearch=64", None),
        ("sk-learn and risk-free", None),
    ],
)
def test_secrets_are_masked_in_any_case_and_spacing(text, shown):
    assert mask_secrets(text) == (text if shown is None else shown)


def test_a_short_key_is_masked_as_it_is():
    assert mask_secrets("a b ab", "ab") == "a b ***"
    assert mask_secrets("a b c d e f g h", "ABCDEFGH") == "***"


def test_a_key_of_seven_characters_is_masked_as_it_is():
    assert mask_secrets("a b c d e f g", "abcdefg") == "a b c d e f g"
    assert mask_secrets("xABCDEFGx", "abcdefg") == "x***x"


def test_numbers_beside_nothing():
    assert [signed(x) for x in (0.0, 0.00004, -0.00004, 0.00006, -1.0)] == [
        *["0.0000"] * 3,
        *["+0.0001", "-1.0000"],
    ]
    assert [fixed(x, sign=True) for x in (0.5, 0.0, -0.0, 2e-5, -2e-5)] == [
        *["+0.5000", "0.0000", "0.0000"],
        *["+2.0e-05", "-2.0e-05"],
    ]
    assert [fixed(x) for x in (0.5, -2e-5, 0.0)] == ["0.5000", "-2.0e-05", "0.0000"]


def test_names_in_natural_order():
    names = ["a", "a1", "a01", "a2", "a10", "a10b2", "a10b10", "b", "10", "9"]
    assert sorted(names, key=natural_order) == [
        "9",
        "10",
        "a",
        "a01",
        "a1",
        "a2",
        "a10",
        *names[5:8],
    ]


def test_only_a_guard_is_taken_away():
    texts = {"'=1": "=1", "''=1": "'=1", "'tis": "'tis", "=1": "=1"}
    assert {text: unguard_formula(text) for text in texts} == texts


def test_the_nearest_names():
    known = ["nDCG@10", "nDCG@5", "AP", "RR"]
    assert did_you_mean("nDCG@1", known) == " Did you mean nDCG@10?"
    assert did_you_mean("nDCG@1", known, most=2) == " Did you mean nDCG@10 or nDCG@5?"
    assert did_you_mean("xyz", known) == ""
    assert did_you_mean("xyz", known, fallback=2) == " Did you mean nDCG@10 or nDCG@5?"
    assert did_you_mean("APP", known, forms={"AP": "AP[@k]"}) == " Did you mean AP[@k]?"
    assert did_you_mean("RRRRR", known) == ""  # 4 of 7 letters are not six tenths


def test_braces_in_names_stay_in_short_remarks():
    name = "run {}-{x}"
    assert shorten_remarks([f"{name}: tied scores"] * 2) == [f"{name}: tied scores (2×)"]
    named = [Remark(text, "tied {}", "tied in {} runs") for text in (name, "b")]
    assert shorten_remarks(named) == ["tied in 2 runs"]
    assert shorten_remarks(named[:1]) == ["tied {}"]
