"""Filters of queries: a query with the tenant `a` may get documents of the tenant `a` only.

A filter compares a column of the documents with a column of the queries. Retrievers get the fields
of each query; the systems that Assay runs itself search exactly among the documents that pass.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from assay.errors import UsageError

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
            raise UsageError(f"A filter is written {forms}; found {text!r:.60}.")
        doc, operator, query = match.groups()
        return cls(doc, operator or "=", query or doc)
