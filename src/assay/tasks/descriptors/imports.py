"""Earlier results of the descriptor workbench: its SQLite database, or CSV with the same columns.

The unit is declared by whoever imports, never guessed; what contradicts it, or itself, is
reported and not repaired. −1 is the workbench's mark for what was not computed.
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from assay import __version__
from assay.comparison.compare import Comparison, compare
from assay.core.checks import check_choice
from assay.core.ids import Ids
from assay.core.numbers import LARGEST_WHOLE, finite_or_none, parse_number
from assay.core.text import unguard_formula
from assay.errors import AssayError, FormatError, UsageError
from assay.io.formats import check_path
from assay.io.tables import numbered_rows
from assay.measures import parse_many
from assay.scoring.scores import Scores
from assay.tables.table import Cell, Table
from assay.tasks.descriptors.result import default_conventions
from assay.tasks.descriptors.row_laws import ROUNDED, SCENE_END, broken_laws, contradicted_means
from assay.tasks.descriptors.sampling import as_id
from assay.tasks.descriptors.workbench_csv import read_metadata

__all__ = [
    "UNITS",
    "ImportReport",
    "ImportedRow",
    "ImportedRows",
    "compare_scenes",
    "import_results",
    "report_import",
]

UNITS: Final = ("fraction", "percent")
_TOLD: Final = ("keypoint_set", "tau")  # what tells results of one descriptor apart
# Other spellings of a column in versions of the workbench that are around.
_ALIASES: Final = {
    "true_map_micro_with_zeros": "true_map_micro_including_zeros",
    "true_map_macro_with_zeros": "true_map_macro_by_scene_including_zeros",
    "true_map_macro": "true_map_macro_by_scene",
    "macro_map": "true_map_macro_by_scene",
    "micro_map": "true_map_micro",
    "macro_map_with_zeros": "true_map_macro_by_scene_including_zeros",
    "micro_map_with_zeros": "true_map_micro_including_zeros",
    "viewpoint_map_with_zeros": "viewpoint_map_including_zeros",
    "illumination_map_with_zeros": "illumination_map_including_zeros",
    "legacy_mean_precision": "mean_precision",
}
_NAMES: Final = ("descriptor", "descriptor_type", "descriptor_name", "name")
_COUNTS: Final = (
    "retrieval_num_true_positives",
    "retrieval_num_hard_negatives",
    "retrieval_num_distractors",
    "total_matches",
    "total_keypoints",
    "total_queries_processed",
    "total_queries_excluded",
    "total_queries_failed",
    "num_scenes",
    "num_patches",
    "id",
    "experiment_id",
)
_RATE_ENDS: Final = ("_map", "_ap", "_precision", "_by_scene", "_including_zeros", "_with_zeros")
# Those of patches by name: map_improvement and the like are differences, which may be negative.
_RATE_STARTS: Final = (
    "true_map",
    "precision_at_",
    "recall_at_",
    *(f"map_{part}" for part in ("overall", "easy", "hard", "tough", "illumination", "viewpoint")),
)
# The columns of the short table.
_HEADLINE: Final = (
    "true_map_micro",
    "true_map_macro_by_scene",
    "viewpoint_map",
    "illumination_map",
    "keypoint_verification_ap",
    "keypoint_retrieval_ap",
    "precision_at_1",
    "precision_at_5",
    "mean_precision",
)


@dataclass(frozen=True)
class ImportedRow:
    """One result: where it stands, what it is of, its values as fractions, and its scenes."""

    place: str
    name: str
    values: dict[str, float]
    counts: dict[str, int] = field(default_factory=dict)
    scenes: dict[str, float] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ImportedRows:
    """All results of a file, and what contradicts something."""

    rows: tuple[ImportedRow, ...]
    contradictions: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The values that at least one row has."""
        return list(dict.fromkeys(name for row in self.rows for name in row.values))


def import_results(path: str | os.PathLike[str], *, unit: str) -> ImportedRows:
    """Read a database (.db, .sqlite, .sqlite3) or a table (.csv); `unit` is of the values in it."""
    scale = {"fraction": 1.0, "percent": 0.01}[check_choice(unit, UNITS, "unit")]
    ending = Path(os.fspath(path)).suffix.lower()
    if ending == ".csv":
        records = list(_csv_records(path))
    elif ending in (".db", ".sqlite", ".sqlite3"):
        records = list(_sqlite_records(path))
    else:
        raise FormatError(
            f"{os.fspath(path)}: results are read from .db, .sqlite, .sqlite3 or .csv files."
        )
    if not records:
        raise FormatError(f"{os.fspath(path)} holds no results.")
    found: list[str] = []
    rows = tuple(_row(place, record, scale, unit, found) for place, record in records)
    largest = max((value for row in rows for value in row.values.values()), default=0.0)
    if unit == "percent" and 0 < largest <= scale:
        found.append(f"{os.fspath(path)}: no value is above 1 percent, as if they were fractions")
    return ImportedRows(rows, tuple(found))


Record = tuple[str, dict[str, Any]]


def _csv_records(path: str | os.PathLike[str]) -> Iterator[Record]:
    rows = numbered_rows(path)
    head = list(map(unguard_formula, next(rows, (0, []))[1]))
    if len(set(head)) < len(head) or not any(name in head for name in _NAMES):
        raise FormatError(
            f"{os.fspath(path)}: the first line must name the columns, each once, one of them "
            f"{', '.join(_NAMES[:-1])} or {_NAMES[-1]}; found {head[:8]}."
        )
    for line, cells in rows:
        place = f"{os.fspath(path)}, line {line}"
        if len(cells) != len(head):
            raise FormatError(f"{place}: {len(cells)} cells under {len(head)} columns.")
        yield place, dict(zip(head, map(unguard_formula, cells), strict=True))


def _sqlite_records(path: str | os.PathLike[str]) -> Iterator[Record]:
    name = os.fspath(check_path(path))
    uri = f"{Path(name).resolve().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
            if "results" not in tables:
                have = ", ".join(sorted(tables)) or "none"
                raise FormatError(f"{name} has no table 'results'. Tables: {have}.")
            query = "SELECT * FROM results"
            if "experiments" in tables:
                query = (
                    "SELECT experiments.*, results.* FROM results LEFT JOIN experiments "
                    "ON experiments.id = results.experiment_id"
                )
            for row in connection.execute(f"{query} ORDER BY results.rowid"):
                yield f"{name}, result {row['id'] if 'id' in row.keys() else '?'}", dict(row)  # noqa: SIM118
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise FormatError(f"{name} cannot be read as a database: {error}.") from None


def _row(
    place: str, record: Mapping[str, Any], scale: float, unit: str, found: list[str]
) -> ImportedRow:
    name = next((str(record[key]) for key in _NAMES if record.get(key)), "")
    if not name:
        raise FormatError(f"{place}: the row names no descriptor.")
    values: dict[str, float] = {}
    counts, about = {}, {}
    first: dict[str, str] = {}  # the column that a value was taken from
    for key, cell in record.items():
        if cell is None or cell == "":
            continue
        if key in _COUNTS:
            counts[key] = _count(cell, place, key)
        elif _is_rate(key):
            value = _number(cell, place, key)
            if value != -1:
                fraction = _fraction(value, scale, unit, place, key, found)
                canonical = _ALIASES.get(key, key)
                first.setdefault(canonical, key)
                values.setdefault(canonical, fraction)
                if abs(values[canonical] - fraction) > ROUNDED:
                    found.append(
                        f"{place}: {key} {fraction:g} is {values[canonical]:g} under another name "
                        f"({first[canonical]})"
                    )
        elif key != "metadata":
            about[key] = str(cell)
    pairs = _pairs(record.get("metadata"), place, found)
    scenes = {
        key.removesuffix(SCENE_END): _fraction(float(value), scale, unit, place, key, found)
        for key, value in pairs.items()
        if key.endswith(SCENE_END)
    }
    wrong = (*broken_laws(values), *contradicted_means(values, counts, scenes, pairs, scale))
    found += [f"{place}: {line}" for line in wrong]
    return ImportedRow(place, name, values, counts, scenes, about)


def _is_rate(key: str) -> bool:
    return key.endswith(_RATE_ENDS) or key.startswith(_RATE_STARTS) or key in _ALIASES


def _number(cell: Any, place: str, key: str) -> float:
    value = parse_number(cell.strip()) if isinstance(cell, str) else finite_or_none(cell)
    if value is None:
        raise FormatError(f"{place}: {key} must be a finite number, found {cell!r:.40}.")
    return value


def _count(cell: Any, place: str, key: str) -> int:
    value = _number(cell, place, key)
    if value != int(value) or abs(value) > LARGEST_WHOLE:
        raise FormatError(f"{place}: {key} must be a whole number up to 10^15, found {cell!r:.40}.")
    return int(value)


def _fraction(
    value: float, scale: float, unit: str, place: str, key: str, found: list[str]
) -> float:
    fraction = value * scale
    if not 0 <= fraction <= 1:
        found.append(f"{place}: {key} is {value:g}, which is not a {unit}")
    return fraction


def _pairs(metadata: Any, place: str, found: list[str]) -> dict[str, float]:
    """The numbers of the metadata: only there are those of scenes."""
    if not isinstance(metadata, str) or not metadata.strip():
        return {}
    try:
        pairs = read_metadata(metadata, f"{place}, metadata")
    except AssayError as error:
        found.append(str(error))
        return {}
    return {key: value for key, value in pairs.items() if isinstance(value, int | float)}


def compare_scenes(rows: Iterable[ImportedRow], **settings: Any) -> Comparison:
    """Compare results by the mean AP of their scenes, which all of them must have.

    A scene is one query here, so keypoint sets may differ; that they do is for the reader to know.
    """
    known = [row for row in rows if row.scenes]
    if len(known) < 2:
        raise UsageError("Two or more results with the means of their scenes are needed.")
    names = _number_repeats([row.name for row in known])
    return compare(*map(_scene_scores, known), names=names, measures="AP", **settings)


def _scene_scores(row: ImportedRow) -> Scores:
    scenes = sorted(row.scenes)
    values = np.array([[row.scenes[scene] for scene in scenes]])
    unmarked = np.zeros(len(scenes), bool)
    ids = Ids.of(list(map(as_id, scenes)), what="scene")
    return Scores(parse_many("AP"), ids, values, unmarked[None], unmarked, default_conventions())


def _number_repeats(names: list[str]) -> list[str]:
    """The names, numbered where one comes again."""
    seen: dict[str, int] = {}
    made = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        made.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return made


@dataclass(frozen=True, eq=False)
class ImportReport:
    """Results of files, what contradicts something in them, and how their scenes compare."""

    unit: str
    sources: dict[str, ImportedRows]
    comparison: Comparison | None = None
    not_compared: str = ""

    @property
    def signature(self) -> str:
        """The unit that was declared, and which version has read the files."""
        return f"imported|unit:{self.unit}|version:{__version__}"

    @property
    def contradictions(self) -> list[str]:
        """What contradicts the unit, the range of a value or itself, a line each."""
        return [line for found in self.sources.values() for line in found.contradictions]

    def table(self) -> Table:
        """Every value, a row for each result."""
        return self._table(list(self._columns))

    def tables(self) -> list[Table]:
        """The best known values, and the comparison where there is one."""
        found = [self._table([name for name in _HEADLINE if name in self._columns])]
        if self.comparison is not None:
            found += [self.comparison.table(), self.comparison.pair_table()]
        return found

    @property
    def _columns(self) -> dict[str, None]:
        return dict.fromkeys(name for found in self.sources.values() for name in found.columns)

    def _table(self, columns: list[str]) -> Table:
        every = [row for found in self.sources.values() for row in found.rows]
        told = [key for key in _TOLD if len({row.about.get(key) for row in every}) > 1]
        rows = [
            (
                Cell(source),
                Cell(row.name),
                *(Cell(row.about.get(key, "")) for key in told),
                Cell(len(row.scenes), "count"),
                *(Cell(row.values.get(name, math.nan), "fraction") for name in columns),
            )
            for source, found in self.sources.items()
            for row in found.rows
        ]
        return Table(("source", "descriptor", *told, "scenes", *columns), tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "signature": self.signature,
            "contradictions": self.contradictions,
            **{
                name: [_row_data(row) for row in found.rows] for name, found in self.sources.items()
            },
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
        }


def _row_data(row: ImportedRow) -> dict[str, Any]:
    return {
        "place": row.place,
        "descriptor": row.name,
        "values": row.values,
        "counts": row.counts,
        "scenes": row.scenes,
        "about": row.about,
    }


def report_import(
    file: str | os.PathLike[str], *, unit: str, against: str | os.PathLike[str] | None = None
) -> ImportReport:
    """Read results of the workbench and, beside them, wide rows of an experiment (fractions).

    They are compared where both have means of the same scenes; `not_compared` says why not.
    """
    sources = {"imported": import_results(file, unit=unit)}
    if against is None:
        return ImportReport(unit, sources)
    sources["new"] = import_results(against, unit="fraction")
    rows = [row for found in sources.values() for row in found.rows]
    try:
        return ImportReport(unit, sources, compare_scenes(rows))
    except AssayError as error:
        return ImportReport(unit, sources, not_compared=str(error))
