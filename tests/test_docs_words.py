"""Pages are quick to read: paragraphs of at most 80 words, sentences of 20 words on average."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GENERATED = {"docs/architecture.md", "docs/measures.md"}
PAGES = sorted(
    {
        "README.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
    }
    - GENERATED
)
# Pages that are still too long to read. Take a page out once it passes; add none.
TOO_LONG: set[str] = set()
LONGEST_PARAGRAPH = 80
MEAN_SENTENCE = 20

_FENCE = re.compile(r"^```.*?^```", re.S | re.M)
_ITEM = re.compile(r"^(?:[-*]|\d+\.) ", re.M)
_NOT_PROSE = ("|", "#", "<", "!", "---", "$$")


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs and list items of a page, without code blocks, tables and headings."""
    for block in re.split(r"\n\s*\n", _FENCE.sub("", text)):
        prose = block.strip()
        if prose and not prose.startswith(_NOT_PROSE):
            items = _ITEM.split(prose) if _ITEM.match(prose) else [prose]
            yield from (simplify(item) for item in items if item.strip())


def simplify(paragraph: str) -> str:
    """Replace a link by its text and code by a single word."""
    without_links = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    return " ".join(re.sub(r"`[^`]*`", "x", without_links).split())


def count_words(text: str) -> int:
    """Count the words between white space."""
    return len(text.split())


def mean_sentence(texts: list[str]) -> float:
    """Return the mean number of words of the sentences of paragraphs."""
    lengths = [
        count_words(sentence) for text in texts for sentence in re.split(r"(?<=[.!?])\s+", text)
    ]
    return sum(lengths) / len(lengths)


def faults(text: str) -> list[str]:
    """Return the paragraphs that are too long, and the mean sentence if it is."""
    texts = list(paragraphs(text))
    wrong = [
        f"{length} words: {paragraph[:60]} …"
        for paragraph in texts
        if (length := count_words(paragraph)) > LONGEST_PARAGRAPH
    ]
    if texts and (mean := mean_sentence(texts)) > MEAN_SENTENCE:
        wrong.append(f"sentences have {mean:.1f} words on average")
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_paragraphs_and_sentences_are_short(page: str) -> None:
    wrong = faults((ROOT / page).read_text("utf-8"))
    if page in TOO_LONG:
        assert wrong, f"{page} passes now: take it out of TOO_LONG"
    else:
        assert not wrong, "\n".join([page, *wrong])


def test_every_page_that_is_too_long_exists() -> None:
    assert set(PAGES) >= TOO_LONG


def test_long_paragraphs_and_sentences_are_noticed() -> None:
    sentence = "word " * 19 + "end."
    assert faults(" ".join([sentence] * 4)) == []
    assert faults(" ".join([sentence] * 4) + " More.") == [f"81 words: {sentence[:60]} …"]
    assert faults("word " + sentence) == ["sentences have 21.0 words on average"]
    items = "\n".join(f"- {sentence} {sentence} {sentence}" for _ in range(3))
    assert faults(items) == []
    assert faults("# " + "heading " * 90 + "\n\n| " + "cell " * 90) == []
    assert faults("```python\n" + "code " * 90 + "\n```") == []
    assert list(paragraphs("See [the page](page.md) of `a b c`.")) == ["See the page of x."]
