"""Filters of queries: a query with the tenant `a` may get documents of the tenant `a` only.

A filter compares a column of the documents with a column of the queries. Retrievers get the fields
of each query; the systems that Assay runs itself search exactly among the documents that pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Flags, Ints, rows_of
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import InputError, UsageError
from assay.inspect.check import Finding
from assay.io import columns
from assay.io.streams import FilePath, ending_of
from assay.stats.confidence import interval

# {id: {column: value}}, of queries or documents
Fields = Mapping[str, Mapping[str, Any]]
_FORM: Final = re.compile(r"([\w.-]+)(?:(=|>=|<=)([\w.-]+))?")


class Filter(NamedTuple):
    """One rule: the documents' column, an operator, and the queries' column.

    >>> Filter.parse("tenant"), Filter.parse("date>=since").query
    (Filter(doc='tenant', operator='=', query='tenant'), 'since')
    """

    doc: str
    operator: str
    query: str

    @classmethod
    def parse(cls, text: str) -> Filter:
        """Parse COLUMN or DOCUMENT_COLUMN>=QUERY_COLUMN."""
        match = _FORM.fullmatch(text)
        if match is None:
            forms = "COLUMN, or DOC_COLUMN=QUERY_COLUMN with =, >= or <="
            raise UsageError(f"Cannot read the filter {text!r:.60}. Write {forms}.")
        doc, operator, query = match.groups()
        return cls(doc, operator or "=", query or doc)


def parse_filters(filters: str | Iterable[str]) -> tuple[Filter, ...]:
    """Parse filters, as texts or in one with commas."""
    texts = filters.split(",") if isinstance(filters, str) else filters
    return tuple(Filter.parse(text) for text in texts if text)


def read_fields(path: FilePath, names: Sequence[str], role: str) -> dict[str, dict[str, Any]]:
    """Read columns of a file of texts as {id: {column: value}}; `role` is "query" or "doc"."""
    layout = columns.Dialect(quotes=ending_of(path) == ".csv", skip_spaces=False)
    table = columns.open_table(path, "a table of texts", layout=layout)
    id = table.find(f"{role} id")
    fields = [table.choose(name) for name in dict.fromkeys(names)]
    cells = table.columns([*([id] if id else []), *fields], gaps=fields)
    ids = cells.pop(0) if id else range(len(cells[0]))
    rows = (dict(zip(fields, row, strict=True)) for row in zip(*cells, strict=True))
    return dict(zip(map(str, ids), rows, strict=True))


class AllowedDocs(NamedTuple):
    """The documents that each query may get: those of its group's mask."""

    groups: Ints
    masks: tuple[Flags, ...]

    def take(self, rows: Ints) -> AllowedDocs:
        """Return those of some queries."""
        return self._replace(groups=self.groups[rows])


def apply_filters(
    rules: Sequence[Filter], query_ids: Ids, doc_ids: Ids, queries: Fields, docs: Fields
) -> AllowedDocs:
    """Find the documents that pass all rules for each query.

    A document without a value passes no rule; a list of values passes by any of them. Values are
    equal if their texts are; they are ordered as numbers where all are numbers, or else as text,
    which orders dates such as 2025-01-31.

    Raises:
        InputError: A query has no value, or no document has one.
    """
    values = [_Values([docs.get(str(id), {}).get(rule.doc) for id in doc_ids]) for rule in rules]
    for rule, column in zip(rules, values, strict=True):
        if not len(column.rows):
            raise InputError(f"No document has a value in {rule.doc!r}. Check the filter.")
    keys: dict[tuple[str, ...], int] = {}
    groups = []
    for id in query_ids:
        row = queries.get(str(id), {})
        key = tuple(_as_text(row.get(rule.query)) for rule in rules)
        if "" in key:
            name = rules[key.index("")].query
            raise InputError(f"Query {str(id)!r:.80} has no {name!r}, which filters need. Add it.")
        groups.append(keys.setdefault(key, len(keys)))
    masks = []
    for key in keys:
        cells = zip(rules, values, key, strict=True)
        passing = [column.passing(rule, value, len(doc_ids)) for rule, column, value in cells]
        masks.append(np.logical_and.reduce(passing))
    return AllowedDocs(np.array(groups, np.int64), tuple(masks))


def _as_text(value: Any) -> str:
    return "" if value is None else str(value)


class _Values:
    """The values of one column, flattened: of which document each is, as text and as number."""

    def __init__(self, values: Sequence[Any]) -> None:
        several = (v if isinstance(v, list | tuple) else [v] for v in values)
        flat = [(row, _as_text(v)) for row, cells in enumerate(several) for v in cells]
        flat = [(row, text) for row, text in flat if text]
        self.rows = np.array([row for row, _ in flat], np.int64)
        self.texts: NDArray[Any] = np.array([text for _, text in flat], object)
        numeric = all(columns.is_number(text) for text in self.texts)
        self.numbers = self.texts.astype(np.float64) if numeric else None

    def passing(self, rule: Filter, value: str, n_docs: int) -> Flags:
        left: NDArray[Any] = self.texts
        right: str | float = value
        if rule.operator != "=" and self.numbers is not None and columns.is_number(value):
            left, right = self.numbers, float(value)
        tests = {"=": np.equal, ">=": np.greater_equal, "<=": np.less_equal}
        mask = np.zeros(n_docs, bool)
        mask[self.rows[tests[rule.operator](left, right).astype(bool)]] = True
        return mask


def describe_breaches(
    name: str, ranking: Ranking, query_ids: Ids, doc_ids: Ids, allowed: AllowedDocs
) -> list[Finding]:
    """Count the documents that a system returned although they do not pass the filter."""
    rows, docs = rows_of(ranking.offsets), ranking.doc_ids.match(doc_ids)[ranking.docs]
    groups = allowed.groups[ranking.query_ids.match(query_ids)]
    breaches = np.flatnonzero(~np.stack(allowed.masks)[groups[rows], docs] & (docs >= 0))
    if not len(breaches):
        return []
    examples = tuple(dict.fromkeys(str(ranking.query_ids[row]) for row in rows[breaches]))[:3]
    message = f"{len(breaches):,} documents of {name} violate the filter of their query"
    effect = "They still count. Check that the filter reaches the engine."
    return [Finding("warning", "filter", message, effect, len(breaches), len(docs), examples)]


def describe_recall(name: str, ranking: Ranking, base: str, exact: Ranking, k: int) -> Finding:
    """Measure how many of the first k documents of a model's exact search a system returns.

    As for an index, documents that score as much as the k-th count alike. A query for which exact
    search has fewer than k divides by their number, and one for which it has none is left out.
    """
    docs = ranking.doc_ids.match(exact.doc_ids)[ranking.docs]
    shares = []
    for row, at in enumerate(ranking.query_ids.match(exact.query_ids).tolist()):
        part = slice(exact.offsets[at], exact.offsets[at + 1])
        scores, size = exact.scores[part], min(k, part.stop - part.start)
        if at >= 0 and size:
            good = exact.docs[part][scores >= scores[size - 1]]
            first = docs[ranking.offsets[row] : ranking.offsets[row + 1]][:k]
            shares.append(min(1.0, int(np.isin(first, good).sum()) / size))
    if not shares:
        raise InputError(f"Exact search by {base} returns nothing to compare {name} with.")
    mean, less = interval(shares, bounds=(0, 1)), sum(share < 1 for share in shares)
    message = f"Recall@{k} of {name} against exact search by {base}: {mean.estimate:.4f}"
    below = f"it is below 1 for {less:,} of {len(shares):,} queries."
    effect = f"{mean.heading()} {mean.sentence()}; {below}"
    return Finding("note", "recall", message, effect, less, len(shares))
