"""Which field of a record is its id, its text and its title, by the names that collections use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from assay.errors import FormatError
from assay.io.column_names import pick_column

__all__ = ["Role", "TextColumns", "find_text_columns"]

Role = Literal["doc", "query"]

# Case, '-', '_', '.' and spaces are ignored; earlier names win.
_ID: Final = {
    "doc": ("id", "docid", "docno", "documentid", "corpusid", "passageid", "pid", "did"),
    "query": ("id", "queryid", "qid", "topicid", "topicno", "topic"),
}
_TEXT: Final = {
    "doc": ("text", "contents", "content", "body", "passage", "document", "doc"),
    "query": ("text", "query", "question", "contents", "title"),
}


class TextColumns(NamedTuple):
    """Names of the fields; without an id, rows are numbered; a title comes before the text."""

    id: str | None
    text: str
    title: str | None


def find_text_columns(names: Sequence[str], role: Role, source: str) -> TextColumns:
    """Find id, text and title among the names; `source` is for the message.

    >>> find_text_columns(["_id", "title", "text"], "doc", "corpus.jsonl")
    TextColumns(id='_id', text='text', title='title')
    """
    text = pick_column(names, _TEXT[role], source)
    if text is None:
        shown = ", ".join(repr(str(name))[:40] for name in list(names)[:8]) or "none"
        raise FormatError(
            f"{source}: cannot tell which field holds the text; found {shown}. "
            f"Name it 'text', and the id '{'_id' if role == 'doc' else 'query_id'}'."
        )
    title = pick_column(names, ("title",), source) if role == "doc" else None
    return TextColumns(pick_column(names, _ID[role], source), text, title)
