"""A text model for tests: how often some letters stand in a text, and how long it is."""

from __future__ import annotations


def letters(texts: list[str]) -> list[list[float]]:
    return [[text.count(letter) for letter in "aeiou"] + [len(text)] for text in texts]


letters.fingerprint = "letters-1"  # type: ignore[attr-defined]


def unknown(texts: list[str]) -> list[list[float]]:
    """The same, of which nobody says whether it is what it was."""
    return letters(texts)


REFUSED = "a text that nobody can read"
refused: set[str] = set()


def strict(texts: list[str]) -> list[list[float]]:
    """Letters, but not of some texts."""
    for text in texts:
        if text == REFUSED or text in refused:
            raise KeyError("no such letter")
    return letters(texts)


strict.fingerprint = "strict-1"  # type: ignore[attr-defined]


def not_finite(texts: list[str]) -> list[list[float]]:
    return [[float("nan") if text == "odd one" else len(text), 1.0] for text in texts]


def offline(texts: list[str]) -> list[list[float]]:
    raise ConnectionError("nobody answers")


def few(texts: list[str]) -> list[list[float]]:
    """A model that takes no more than four texts."""
    if len(texts) > 4:
        raise TooManyError("too many texts")
    return letters(texts)


class TooManyError(Exception):
    """What a model's package may raise."""
