"""Homographies: where a point of one image lies in another, and how its surroundings turn."""

from __future__ import annotations

import os
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers.expat import ExpatError, ParserCreate

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.core import checks
from assay.core.numbers import is_decimal, parse_whole
from assay.errors import FormatError, ShapeError, UsageError, ValueRangeError
from assay.io.streams import open_chunks, read_text

__all__ = [
    "as_homography",
    "image_size",
    "inside",
    "local_affine",
    "project_points",
    "read_homography",
]


_LONGEST = 1 << 16  # nine numbers take a few hundred bytes
_WORST_CONDITION = 1e14


def as_homography(matrix: Any, *, what: str = "The homography") -> Floats:
    """A finite, invertible 3 × 3 matrix, read-only, with w > 0 at the corner of image 1.

    H and −H are the same map. The sign is settled here; no entry is scaled, so no bit is lost.
    """
    found = checks.plain_array(matrix, what)
    if found.shape != (3, 3) or found.dtype.kind not in "iuf":
        raise ShapeError(f"{what} must be 3 × 3 numbers, found {found.shape} of {found.dtype}.")
    result: Floats = np.array(found, np.float64)
    if not np.isfinite(result).all():
        row, column = np.argwhere(~np.isfinite(result))[0]
        raise ValueRangeError(
            f"{what} holds {result[row, column]} in row {row}, column {column}. Mend the file."
        )
    if not _condition(result) < _WORST_CONDITION:
        raise ValueRangeError(
            f"{what} is singular: it maps the whole image to a line or a point. Mend the file."
        )
    if result[2, 2] < 0:
        result = -result
    result.flags.writeable = False
    return result


def _condition(matrix: Floats) -> float:
    largest = np.abs(matrix).max()
    return float(np.linalg.cond(matrix / largest)) if largest else np.inf


def read_homography(path: str | os.PathLike[str]) -> Floats:
    """Nine numbers in three lines of text, or the matrix of an OpenCV XML file."""
    name = os.fspath(path)
    if sum(map(len, open_chunks(name))) > _LONGEST:
        raise FormatError(f"{name} is too long for nine numbers. Is it the right file?")
    text = read_text(name)
    matrix = _of_xml(text, name) if text.lstrip().startswith("<") else _of_text(text, name)
    return as_homography(matrix, what=f"The homography in {name}")


def _of_text(text: str, name: str) -> list[list[float]]:
    rows = [line.replace(",", " ").split() for line in text.splitlines() if line.strip()]
    try:
        matrix = [list(map(_number, row)) for row in rows]
    except ValueError as error:
        raise FormatError(f"{name}: a homography is nine numbers; {error}.") from None
    if [len(row) for row in matrix] != [3, 3, 3]:
        raise ShapeError(
            f"{name}: a homography is three lines of three numbers, found lines of "
            f"{[len(row) for row in matrix]} numbers."
        )
    return matrix


def _number(text: str) -> float:
    """A number; one that is not finite is refused later, with its place in the matrix."""
    if is_decimal(text) or text.lower().lstrip("+-") in ("nan", "inf"):
        return float(text)
    raise ValueError(f"found {text[:60]!r}")


def _of_xml(text: str, name: str) -> Floats:
    """The only matrix of an OpenCV file; definitions of types and entities are refused unread."""
    try:
        root = _parse_xml(text)
    except (ExpatError, ValueError) as error:
        raise FormatError(f"{name} is not valid XML ({error}).") from None
    found = [node for node in root if node.get("type_id") == "opencv-matrix"]
    if len(found) != 1:
        raise FormatError(f"{name}: expected one OpenCV matrix, found {len(found)}.")
    return _matrix(found[0], name)


def _parse_xml(text: str) -> Element:
    """The elements of a document that declares nothing: without entities it cannot grow."""
    builder, parser = TreeBuilder(), ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse_declarations
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.Parse(text, True)
    return builder.close()


def _refuse_declarations(*_: object) -> None:
    raise ValueError("it declares types or entities, which are not read")


def _matrix(node: Any, name: str) -> Floats:
    rows, columns = (parse_whole(node.findtext(key, "0").strip()) for key in ("rows", "cols"))
    try:
        values = list(map(_number, node.findtext("data", "").split()))
    except ValueError as error:
        raise FormatError(f"{name}: the matrix is not made of numbers; {error}.") from None
    if rows is None or columns is None:
        raise FormatError(f"{name}: the matrix is not made of numbers; rows or cols is none.")
    if (rows, columns, len(values)) != (3, 3, 9):
        raise ShapeError(
            f"{name}: a homography has 3 rows, 3 columns and 9 numbers, found {rows} rows, "
            f"{columns} columns and {len(values)} numbers."
        )
    return np.array(values).reshape(3, 3)


def project_points(xy: Floats, H: Floats) -> Floats:
    """Where points lie in the other image; NaN where w ≤ 0, at or behind the line at infinity.

    The sums run in one fixed order, so the result has the same bits on any machine.

    >>> project_points(np.array([[1.0, 2.0]]), np.array([[1.0, 0, 5], [0, 1, -1], [0, 0, 1]]))
    array([[6., 1.]])
    """
    x, y = xy[:, 0], xy[:, 1]
    w = H[2, 0] * x + H[2, 1] * y + H[2, 2]
    w = np.where(w > 0, w, np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        ahead = [(row[0] * x + row[1] * y + row[2]) / w for row in H[:2]]
    return np.stack(ahead, axis=1)


def local_affine(xy: Floats, H: Floats) -> Floats:
    """The 2 × 2 derivative of the homography at each point: how a small patch is turned and scaled.

    >>> local_affine(np.array([[3.0, 4.0]]), np.diag([2.0, 2.0, 1.0])).tolist()
    [[[2.0, 0.0], [0.0, 2.0]]]
    """
    ahead = project_points(xy, H)
    w = H[2, 0] * xy[:, 0] + H[2, 1] * xy[:, 1] + H[2, 2]
    affine: Floats = (H[:2, :2] - ahead[:, :, None] * H[2, :2]) / w[:, None, None]
    return affine


def inside(xy: Floats, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which points lie in an image of that shape: from its first pixel's centre to its last's."""
    height, width = image_size(shape)
    x, y = xy[:, 0], xy[:, 1]
    return (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)


def image_size(shape: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of an image of that shape."""
    sizes = tuple(shape[:2]) if isinstance(shape, tuple | list) else ()
    if len(sizes) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in sizes):
        raise UsageError(f"A shape is that of an image: (height, width, …); found {shape!r}.")
    return sizes
