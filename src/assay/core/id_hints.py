"""Ids that should be equal and are not: they differ in zeros, case, a prefix or their accents."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from itertools import takewhile
from typing import Final

from assay.core.ids import Ids

__all__ = ["near_misses"]

_ZEROS: Final = re.compile(r"(?<!\d)0+(?=\d)")
_FEWEST: Final = 2  # a single id has no shared prefix


def near_misses(judged: Ids, ranked: Ids) -> dict[str, list[tuple[str, str]]]:
    """Pairs of a judged and a ranked id, by what they differ in; each id is taken once.

    Give ids that found no partner.

    >>> near_misses(Ids.of(["CACM-950"]), Ids.of(["CACM-0950"]))
    {'in zero padding': [('CACM-950', 'CACM-0950')]}
    """
    left = {str(value) for value in judged}
    right = {str(value) for value in ranked}
    found: dict[str, list[tuple[str, str]]] = {}
    for difference, plain in _plain_forms(left, right).items():
        pairs = _pair_ids(left, right, plain)
        if pairs:
            found[difference] = pairs
            left -= {ours for ours, _ in pairs}
    return found


PlainForm = Callable[[str, bool], str]


def _plain_forms(left: set[str], right: set[str]) -> dict[str, PlainForm]:
    """For each kind of difference, what an id (judged: True) is without it."""
    forms: dict[str, PlainForm] = {
        "in zero padding": lambda text, _: _ZEROS.sub("", text),
        "in upper and lower case": lambda text, _: text.casefold(),
        "in the form of accented characters (NFC, NFD)": lambda text, _: unicodedata.normalize(
            "NFC", text
        ),
        "in quotes or white space": lambda text, _: text.strip("'\"\u00a0\u2007\u202f\ufeff"),
    }
    ends = [_shared_ends(ids) for ids in (right, left)]
    if ends[0] != ends[1]:
        forms["in a prefix or suffix"] = lambda text, ours: _without_ends(text, ends[ours])
    return forms


def _shared_ends(ids: set[str]) -> tuple[str, str]:
    """The prefix and the suffix that all ids share, without cutting a number apart."""
    if len(ids) < _FEWEST:
        return "", ""
    prefix = _shared_start(ids).rstrip("0123456789")
    rest = {text[len(prefix) :][::-1] for text in ids}
    return prefix, _shared_start(rest)[::-1].lstrip("0123456789")


def _shared_start(ids: set[str]) -> str:
    first, last = min(ids), max(ids)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(left for left, _ in same)


def _without_ends(text: str, ends: tuple[str, str]) -> str:
    return text.removeprefix(ends[0]).removesuffix(ends[1])


def _pair_ids(left: set[str], right: set[str], plain: PlainForm) -> list[tuple[str, str]]:
    """Judged ids whose plain form is that of exactly one ranked id."""
    by_form: dict[str, str] = {}
    doubtful: set[str] = set()
    wanted = {plain(text, True) for text in left}
    for text in right:
        form = plain(text, False)
        if form in wanted:
            doubtful |= {form} if form in by_form else set()
            by_form[form] = text
    pairs = ((text, plain(text, True)) for text in left)
    return sorted(
        (text, by_form[form]) for text, form in pairs if form in by_form and form not in doubtful
    )
