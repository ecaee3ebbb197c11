"""Answers as text: which documents hold an answer of a query, as DPR's evaluation decides it.

Karpukhin et al. 2020, `has_answer` with match_type "string": text and answer are put into NFD and
split into words (runs of letters, digits and marks) and single other characters that are neither
white space nor control; both in small letters, the words of an answer must stand in the text one
after the other. A query counts as failed if no document holds an answer, so it keeps its place.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any, Final

import numpy as np

from assay.core import checks
from assay.core.id_hints import describe_near
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Qrels
from assay.core.once import parse_python
from assay.errors import FormatError, MismatchError
from assay.io.columns import (
    Dialect,
    find_delimiter,
    open_delimited,
    read_records,
    require_columns,
)
from assay.io.json_text import parse_json
from assay.io.streams import FilePath, ending_of

ANSWER_MEASURES: Final = ("Success@1", "Success@5", "Success@20", "Success@100")
CONVENTION: Final = "an answer stands, word by word, in NFD and small letters (DPR's has_answer)"

Answers = Mapping[str, tuple[str, ...]]


@cache
def _words() -> re.Pattern[str]:
    """Runs of letters, digits and marks, or one other character that is not white or control."""
    kinds = (unicodedata.category(chr(code))[0] for code in range(sys.maxunicode + 1))
    parts: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    start = 0
    for kind, run in groupby("LNM" if category in "LNM" else category for category in kinds):
        stop = start + sum(1 for _ in run)
        part = f"{re.escape(chr(start))}-{re.escape(chr(stop - 1))}"
        parts[True if kind == "LNM" else None if kind in "ZC" else False].append(part)
        start = stop
    return re.compile(f"[{''.join(parts[True])}]+|[{''.join(parts[False])}]")


def answer_words(text: str) -> list[str]:
    """Return the words by which texts and answers are compared.

    >>> answer_words("Saint-Étienne, 1892")
    ['saint', '-', 'e\u0301tienne', ',', '1892']
    """
    words = _words().findall(unicodedata.normalize("NFD", text))
    return [word.lower() for word in words]


def judge_by_answers(
    doc_ids: Ids, doc_texts: Sequence[str], query_ids: Ids, answers: Answers
) -> Qrels:
    """Return judgments of all documents: relevant is a text that holds an answer of the query."""
    answer_vocabulary = {
        word for some in answers.values() for answer in some for word in answer_words(answer)
    }
    texts = [answer_words(text) for text in doc_texts]
    holders: dict[str, list[int]] = defaultdict(list)
    for doc, words in enumerate(texts):
        for word in answer_vocabulary.intersection(words):
            holders[word].append(doc)
    rows = [row for row, query in enumerate(query_ids) if answers.get(str(query))]
    if not rows:
        raise MismatchError("None of the queries has an answer.")
    pairs = [
        (number, doc)
        for number, row in enumerate(rows)
        for doc in _holding(answers[str(query_ids[row])], texts, holders)
    ]
    queries, docs = np.array(pairs, np.int64).reshape(-1, 2).T
    names = query_ids.take(np.array(rows))
    judgments = Judgments.from_pairs(names, doc_ids, queries, docs, np.ones(len(docs)))
    return replace(judgments, exhaustive=True)


def _holding(
    answers: tuple[str, ...], texts: list[list[str]], holders: Mapping[str, list[int]]
) -> list[int]:
    """The documents in which one of the answers stands; only those with its rarest word count."""
    docs: set[int] = set()
    for answer in answers:
        words = answer_words(answer)
        few = min((holders.get(word, []) for word in words), key=len, default=[])
        docs.update(doc for doc in few if doc not in docs and _stands_in(words, texts[doc]))
    return sorted(docs)


def _stands_in(words: list[str], text: list[str]) -> bool:
    size = len(words)
    starts = (at for at, word in enumerate(text[: len(text) - size + 1]) if word == words[0])
    return any(text[at : at + size] == words for at in starts)


def read_answers(path: FilePath, query_ids: Ids, query_texts: Sequence[str]) -> dict[str, Any]:
    """Return the answers of each query, by id, from a file that names queries by id or by text.

    JSON or JSON lines with `answers` (texts, one text, or SQuAD's {"text": [...]}) beside the id
    or the question, {query: answers}, or TSV and CSV of DPR: a question, and a list of answers.
    """
    name = os.fspath(path)
    by_text = dict(zip(query_texts, map(str, query_ids), strict=True))
    ids = {str(id) for id in query_ids}
    answers_of: dict[str, tuple[str, ...]] = {}
    strangers: set[str] = set()
    for place, query, answers in _entries(path, name):
        key = query if query in ids else by_text.get(query)
        if key is not None:
            answers_of[key] = _checked(answers, place)
        else:
            strangers.add(query)
    absent = sorted(ids - answers_of.keys())
    if near := describe_near(absent, strangers):
        raise MismatchError(
            f"{name} has no answers for {checks.name_few(absent)}.{near} Write them alike."
        )
    if not answers_of:
        raise MismatchError(f"{name}: no query of the collection has an answer there.")
    return answers_of


def _entries(path: FilePath, name: str) -> Iterator[tuple[str, str, Any]]:
    """Yield place, query and answers, one after the other."""
    ending = ending_of(path)
    if ending in (".tsv", ".csv"):
        # DPR's files have tabs also where the ending says .csv, and no header.
        layout = Dialect(find_delimiter(path), strict=False, skip_spaces=False)
        table = open_delimited(path, layout, lambda _: ("query", "answers"))
        for row, (query, text) in enumerate(zip(*table.columns(table.names), strict=True)):
            place = f"{name}, row {row + 1}"
            yield place, query, _listed(text.strip(), place)
        return
    data, where = read_records(path, "json" if ending == ".json" else "jsonl")
    if isinstance(data, Mapping):
        yield from ((f"{name}, {key!r}", key, value) for key, value in data.items())
        return
    for row, record in enumerate(checks.as_list(data, name)):
        place = where(row)
        if not isinstance(record, Mapping):
            raise FormatError(f"{place}: expected an object with answers, found {record!r:.40}.")
        names = require_columns(
            list(record),
            {"answered query": "query", "answers": "answers"},
            place,
            "Name them query_id and answers.",
        )
        yield place, str(record[names[0]]), record[names[1]]


def _listed(text: str, place: str) -> Any:
    """Return a list as Python or JSON write it, as in DPR's files; anything else is one answer."""
    if not text.startswith("["):
        return text
    try:
        return parse_python(lambda: ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return parse_json(text, place)


def _checked(answers: Any, place: str) -> tuple[str, ...]:
    text = answers.get("text") if isinstance(answers, Mapping) else answers
    some = [text] if isinstance(text, str) else text
    if not isinstance(some, list | tuple):
        raise FormatError(f"{place}: expected answers as texts, found {answers!r:.40}.")
    for answer in some:
        flaw = checks.flaw_of(answer)
        if not flaw and not answer_words(answer):
            flaw = "holds no word, so that every text would hold it"
        if flaw:
            raise FormatError(f"{place}: the answer {answer!r:.40} {flaw}.")
    return tuple(some)
