"""Chunks: every rule, against windows made by hand, and what no rule may lose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.ids import Ids
from assay.errors import UsageError
from assay.io.texts import ChunkRule, chunk_docs, chunk_text

RULES = st.builds(
    lambda unit, size, share: ChunkRule(unit, size, min(share, size - 1)),
    st.sampled_from(["characters", "sentences", "tokens"]),
    st.integers(1, 7),
    st.integers(0, 6),
)
TEXTS = st.text(st.sampled_from("ab .!?\n,é。"), max_size=60)


@given(TEXTS, RULES)
def test_nothing_is_lost_and_nothing_is_invented(text: str, rule: ChunkRule) -> None:
    chunks = chunk_text(text, rule)
    assert all(chunk.strip() and chunk in text for chunk in chunks)
    covered = [False] * len(text)
    start = 0
    for chunk in chunks:
        at = text.index(chunk, max(start - len(text), 0))
        while at != -1:  # wherever it stands: a chunk may stand twice
            covered[at : at + len(chunk)] = [True] * len(chunk)
            at = text.find(chunk, at + 1)
    assert all(done or char.isspace() for done, char in zip(covered, text, strict=True))


def test_windows_of_tokens_by_hand() -> None:
    words = [f"w{i}" for i in range(10)]
    found = chunk_text(" ".join(words), ChunkRule("tokens", 4, 1))
    assert found == [" ".join(words[i : i + 4]) for i in (0, 3, 6)]


@pytest.mark.parametrize(("n", "size", "overlap"), [(10, 4, 0), (10, 4, 3), (3, 5, 2), (5, 5, 4)])
def test_the_last_window_ends_with_the_text(n: int, size: int, overlap: int) -> None:
    text = "".join(chr(97 + i) for i in range(n))
    found = chunk_text(text, ChunkRule("characters", size, overlap))
    assert found[-1].endswith(text[-1])
    assert len(set(found)) == len(found)
    assert not any(one in other for one in found for other in found if one != other)


def test_sentences_end_where_people_end_them() -> None:
    text = 'He said "no." Then 3.5 metres!\n\nNew paragraph without a mark\n\nEnd.'
    assert chunk_text(text, ChunkRule("sentences", 1)) == [
        'He said "no."',
        "Then 3.5 metres!",
        "New paragraph without a mark",
        "End.",
    ]


def test_ids_and_owners() -> None:
    made = chunk_docs(
        Ids.of(["a", "b", "c"]), ["One. Two.", " ", "Three."], ChunkRule("sentences", 1)
    )
    assert made.ids.to_list() == ["a#1", "a#2", "c#1"]
    assert made.doc.tolist() == [0, 0, 2]


@pytest.mark.parametrize(
    "text",
    ["", "words:3", "tokens", "tokens:x", "tokens:0", "tokens:3:3", "tokens:3:1:1", "tokens:-3"],
)
def test_rules_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError):
        ChunkRule.parse(text)


def test_a_rule_is_what_it_prints() -> None:
    for text in ("characters:1000:200", "tokens:128:0"):
        assert str(ChunkRule.parse(text)) == text


@pytest.mark.parametrize("unit", ["characters", "sentences", "tokens"])
def test_a_megabyte_without_a_break(unit: str) -> None:
    text = "a" * (1 << 20)
    found = chunk_text(text, ChunkRule(unit, 1 << 18))
    assert len(found) == (4 if unit == "characters" else 1)
