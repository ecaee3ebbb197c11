"""ir_measures' tuples, the ways in which runs and judgments are given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from assay.errors import need
from assay.io.streams import read_lines
from assay.native.tie_order import rank_order

if TYPE_CHECKING:
    from assay.compat.ir_measures.measures import Measure


class Qrel(NamedTuple):
    """One judgment."""

    query_id: str
    doc_id: str
    relevance: int
    iteration: str = "0"


class ScoredDoc(NamedTuple):
    """One line of a run."""

    query_id: str
    doc_id: str
    score: float


class Metric(NamedTuple):
    """The value of one measure for one query."""

    query_id: str
    measure: Measure
    value: float


class CalcResults(NamedTuple):
    """One number for each measure, and the values of single queries."""

    aggregated: Any
    per_query: list[Metric]


class _Converter:
    """Lines from dicts of dicts, data frames, or named tuples; a pair's last line counts."""

    ROW: ClassVar[type[Qrel] | type[ScoredDoc]]
    WHAT: ClassVar[str]

    def __init__(self, data: Any, strict: bool = True) -> None:
        whole = isinstance(data, dict) or _is_frame(data) or not hasattr(data, "__iter__")
        self.data: Any = data if whole else list(data)  # lines are read more than once
        self.strict = strict

    def as_namedtuple_iter(self) -> Iterator[Any]:
        """Yield each line as a named tuple."""
        if isinstance(self.data, dict):
            for query, docs in self.data.items():
                yield from (self.ROW(query, doc, value) for doc, value in docs.items())
        elif _is_frame(self.data):
            self._check_fields(self.data.columns)
            fields = [name for name in self.ROW._fields if name in self.data.columns]
            columns = (self.data[name].tolist() for name in fields)
            yield from (self.ROW(*row) for row in zip(*columns, strict=True))
        elif isinstance(self.data, list):
            if self.data:
                self._check_fields(getattr(self.data[0], "_fields", ()))
            yield from self.data
        else:
            raise ValueError(
                f"unknown {self.WHAT} format: {type(self.data).__name__} is neither a dict of "
                f"dicts, nor a data frame or tuples with the fields {', '.join(self.ROW._fields)}."
            )

    def _check_fields(self, fields: Iterable[str]) -> None:
        names = list(fields)
        missing = [field for field in self.ROW._fields[:3] if field not in names]
        if missing and self.strict:
            raise ValueError(
                f"unknown {self.WHAT} format: no field {', '.join(missing)} among {names}."
            )

    def as_dict_of_dict(self) -> dict[str, dict[str, Any]]:
        """Return {query: {doc: value}}."""
        if isinstance(self.data, dict):
            return self.data
        value = self.ROW._fields[2]
        lists: dict[str, dict[str, Any]] = {}
        for line in self.as_namedtuple_iter():
            lists.setdefault(line.query_id, {})[line.doc_id] = getattr(line, value)
        return lists

    def as_pd_dataframe(self) -> Any:
        """Return a pandas data frame with a column for each field."""
        pandas = need("pandas", "a measure over data frames", "pandas")
        if not _is_frame(self.data):
            return pandas.DataFrame(list(self.as_namedtuple_iter()), columns=self.ROW._fields)
        if "iteration" in self.ROW._fields and "iteration" not in self.data.columns:
            return self.data.assign(iteration="0")
        return self.data


def _is_frame(data: Any) -> bool:
    return hasattr(data, "itertuples")


class QrelsConverter(_Converter):
    """Judgments in any of the ways in which they are given."""

    ROW, WHAT = Qrel, "qrels"


class RunConverter(_Converter):
    """A run in any of the ways in which it is given."""

    ROW, WHAT = ScoredDoc, "run"

    def as_sorteddict(self) -> dict[str, list[ScoredDoc]]:
        """Return the lines by descending score; equal ones stay as they stand."""
        lists: dict[str, list[ScoredDoc]] = {}
        for line in self.as_namedtuple_iter():
            lists.setdefault(line.query_id, []).append(line)
        places = {q: rank_order(np.array([doc.score for doc in lists[q]])) for q in lists}
        return {query: [lists[query][at] for at in order] for query, order in places.items()}


def _columns(file: Any) -> Iterator[list[str]]:
    """Split the lines of an open file, a text or a path's file."""
    if isinstance(file, str):
        file = file.splitlines() if "\n" in file else read_lines(file)
    return (line.split() for line in file if line.strip())


def read_trec_qrels(file: Any) -> Iterator[Qrel]:
    """Yield judgments from TREC's layout."""
    for query, iteration, doc, grade in _columns(file):
        yield Qrel(query, doc, int(grade), iteration)


def read_trec_run(file: Any) -> Iterator[ScoredDoc]:
    """Yield the lines of a TREC run; ranks are not read."""
    for query, _, doc, _, score, _ in _columns(file):
        yield ScoredDoc(query, doc, float(score))
