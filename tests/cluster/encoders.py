"""A text model for tests: how often some letters stand in a text, and how long it is."""

from __future__ import annotations


def letters(texts: list[str]) -> list[list[float]]:
    return [[text.count(letter) for letter in "aeiou"] + [len(text)] for text in texts]


letters.fingerprint = "letters-1"  # type: ignore[attr-defined]


def unknown(texts: list[str]) -> list[list[float]]:
    """The same, of which nobody says whether it is what it was."""
    return letters(texts)
