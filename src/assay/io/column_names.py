"""Which column of a table is which, by the names that tools of the field give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay.errors import FormatError
from assay.io.lines import Kind

__all__ = ["Columns", "find_columns", "knows_columns", "pick_column"]

# Case, '-', '_', '.' and spaces are ignored. Earlier names win: a table with `qid` and `query`
# has ids in the first and texts in the second.
_QUERY = ("queryid", "qid", "topicid", "topicno", "topic", "query", "q")
_DOC = ("docid", "docno", "documentid", "corpusid", "passageid", "pid", "did", "document", "doc")
_SCORE = ("score", "similarity", "sim")
_GRADE = ("grade", "relevance", "rel", "label", "judgment", "judgement", "score")
_RANK = ("rank",)


class Columns(NamedTuple):
    """Names of the columns that matter. With `by_rank` the value is a rank: smaller is better."""

    query: str
    doc: str
    value: str
    by_rank: bool = False


def find_columns(names: Sequence[str], kind: Kind, source: str) -> Columns:
    """Find query, doc and score or grade among the names; `source` is for the message.

    A run without scores may have ranks instead.

    >>> find_columns(["query-id", "corpus-id", "score"], "qrels", "test.tsv")
    Columns(query='query-id', doc='corpus-id', value='score', by_rank=False)
    """
    query = pick_column(names, _QUERY, source)
    doc = pick_column(names, _DOC, source)
    value = pick_column(names, _SCORE if kind == "run" else _GRADE, source)
    rank = pick_column(names, _RANK, source) if kind == "run" and value is None else None
    found = value if value is not None else rank
    if query is None or doc is None or found is None:
        raise FormatError(_unrecognised(names, kind, source))
    return Columns(query, doc, found, by_rank=value is None)


def knows_columns(names: Sequence[str], kind: Kind) -> bool:
    """Tell whether the names say which column is which."""
    try:
        find_columns(names, kind, "")
    except FormatError:
        return False
    return True


def _plain(name: str) -> str:
    return "".join(c for c in str(name).lower() if c not in "-_. ")


def pick_column(names: Sequence[str], known: Sequence[str], source: str) -> str | None:
    """The first of the known names that is there; two that mean the same are refused."""
    for wanted in known:
        found = [name for name in names if _plain(name) == wanted]
        if len(found) > 1:
            raise FormatError(
                f"{source}: the columns {found[0]!r} and {found[1]!r} mean the same. "
                "Remove or rename one."
            )
        if found:
            return found[0]
    return None


def _unrecognised(names: Sequence[str], kind: Kind, source: str) -> str:
    shown = ", ".join(repr(str(name))[:40] for name in list(names)[:8]) or "none"
    value = "score (or rank)" if kind == "run" else "grade (or relevance, label, score)"
    return (
        f"{source}: cannot tell which columns hold query, doc and {value}; found {shown}. "
        "Name them so, for example query_id, doc_id and "
        f"{'score' if kind == 'run' else 'relevance'}."
    )
