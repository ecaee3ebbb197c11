"""Remarks of a report by kind: what is said of several runs or measures is said once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from assay.comparison.verdict import join_names

__all__ = ["SharedRemark", "group_remarks"]

_OTHER: Final = "Data and systems"
# The first pattern that is found names the kind.
_KINDS: Final = (
    (_OTHER, r"^(error|warning|note): "),
    ("Ties", r"\bties?\b|\btied\b"),
    ("Chance", r"\bchance\b|random order"),
    ("Statistics", r"minimum detectable|\bp is\b|resamples|interval|groups by|Tukey|correction"),
    ("Queries", r"\bquer(y|ies)\b"),
)
_CHANGING: Final = re.compile(r"'[^']*'|[\d.,]+")
_MORE: Final = re.compile(r" \(as for \d+ more\)")


@dataclass(frozen=True)
class SharedRemark:
    """A sentence; `others` say the same with other numbers of the runs or measures in `also`."""

    text: str
    others: tuple[str, ...] = ()
    also: str = ""


def group_remarks(remarks: Iterable[str], subjects: Sequence[str]) -> dict[str, list[SharedRemark]]:
    """Remarks by kind; `subjects` are runs and measures, which begin a remark.

    >>> group_remarks(["a: 3 queries empty", "b: 3 queries empty"], ["a", "b"])
    {'Queries': [SharedRemark(text='a and b: 3 queries empty', others=(), also='')]}
    """
    kinds: dict[str, list[SharedRemark]] = {kind: [] for kind, _ in _KINDS}
    for same in _alike(remarks, subjects):
        first, *others = _merge(same)
        also = join_names([subject for subject, _ in others]) if others else ""
        remark = SharedRemark(first[1], tuple(text for _, text in others), also)
        kinds.setdefault(_kind(same[0][1]), []).append(remark)
    return {kind: found for kind, found in kinds.items() if found}


def _kind(text: str) -> str:
    return next((kind for kind, pattern in _KINDS if re.search(pattern, text)), _OTHER)


def _alike(remarks: Iterable[str], subjects: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Subjects and texts, those together that differ only in names and numbers."""
    longest = sorted(set(subjects), key=len, reverse=True)
    names = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest))})(?!\w)")
    found: dict[str, list[tuple[str, str]]] = {}
    for remark in remarks:
        subject = next((one for one in longest if remark.startswith(f"{one}: ")), "")
        text = remark[len(subject) + 2 :] if subject else remark
        skeleton = _CHANGING.sub("#", names.sub("#", _MORE.sub("", text)))
        found.setdefault(f"{bool(subject)} {skeleton}", []).append((subject, text))
    return list(found.values())


def _merge(same: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """A sentence for each text, after all that it is said of."""
    subjects: dict[str, list[str]] = {}
    for subject, text in same:
        subjects.setdefault(text, []).append(subject)
    told = {text: join_names(names) for text, names in subjects.items()}
    return [(names, f"{names}: {text}" if names else text) for text, names in told.items()]
