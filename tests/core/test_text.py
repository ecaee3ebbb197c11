"""Texts for people: keys and passwords do not show."""

from __future__ import annotations

import pytest

from assay.core.text import mask_secrets


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
