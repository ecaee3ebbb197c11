"""Compact letter display: systems that share a letter could not be told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import ShapeError

__all__ = ["compact_letters"]

Flags = NDArray[np.bool_]


def compact_letters(separable: Any) -> list[str]:
    """Letters for each system from a symmetric matrix: True where two systems were separated.

    Two systems share a letter exactly if they were not separated. Systems are taken in the order
    given, best first for the usual look. After z come aa, ab, …; where such names are needed, the
    letters of one system are parted by commas.

    >>> compact_letters([[False, False, True], [False, False, False], [True, False, False]])
    ['a', 'ab', 'b']
    """
    matrix = np.asarray(separable)
    if matrix.dtype != np.bool_ or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(
            "separable must be a square matrix of True and False, one row per system; "
            f"found shape {matrix.shape} of {matrix.dtype}."
        )
    if (matrix != matrix.T).any() or matrix.diagonal().any():
        raise ShapeError("separable must be symmetric, with False on the diagonal.")
    groups = _needed(_cover(~matrix))
    names = [_letter(number) for number in range(len(groups))]
    joint = "," if len(groups) > 26 else ""
    members = np.array(groups, bool).reshape(len(groups), len(matrix))
    return [joint.join(names[g] for g in np.flatnonzero(column)) for column in members.T]


def _cover(alike: Flags) -> list[Flags]:
    """Groups in which all are alike, so that each alike pair is in one: grown from each pair.

    There are at most as many groups as pairs, whatever the matrix; all maximal groups could be
    exponentially many.
    """
    open_pairs = alike.copy()
    groups = []
    for first in range(len(alike)):
        while open_pairs[first, first:].any():
            group = _grow(first, alike, open_pairs)
            open_pairs[np.ix_(group, group)] = False
            groups.append(group)
    return groups


def _grow(first: int, alike: Flags, open_pairs: Flags) -> Flags:
    """The group of `first`, its first partner still open, and whoever is alike to all in it."""
    partner = first + int(np.argmax(open_pairs[first, first:]))
    group = np.zeros(len(alike), bool)
    group[[first, partner]] = True
    welcome = alike[first] & alike[partner] & ~group
    while welcome.any():
        gain = np.where(welcome, (open_pairs & group).sum(axis=1) + 1, 0)
        group[int(np.argmax(gain))] = True
        welcome &= alike[int(np.argmax(gain))] & ~group
    return group


def _needed(groups: list[Flags]) -> list[Flags]:
    """Leave out groups whose every pair is in another group too."""
    if not groups:
        return []
    members = np.array(groups, np.int64)
    times = members.T @ members
    kept = []
    for group in groups:
        inside = np.ix_(group, group)
        if (times[inside] > 1).all():
            times[inside] -= 1
        else:
            kept.append(group)
    return kept


def _letter(number: int) -> str:
    """a … z, aa … zz, aaa …"""
    name = ""
    number += 1
    while number:
        number, place = divmod(number - 1, 26)
        name = chr(ord("a") + place) + name
    return name
