"""Answers as text: which documents hold an answer of a query, as DPR's evaluation decides it.

Karpukhin et al. 2020, `has_answer` with match_type "string": text and answer are put into NFD and
split into words (runs of letters, digits and marks) and single other characters that are neither
white space nor control; both in small letters, the words of an answer must stand in the text one
after the other. A query counts as failed if no document holds an answer, so it keeps its place.
"""

from __future__ import annotations

import ast
import csv
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
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Qrels
from assay.errors import FormatError, MismatchError
from assay.io.formats import ending_of
from assay.io.json_text import parse_json
from assay.io.lines import pick_column
from assay.io.streams import FilePath, read_lines, read_text

__all__ = ["ANSWER_MEASURES", "CONVENTION", "answer_words", "judge_by_answers", "read_answers"]

ANSWER_MEASURES: Final = ("Success@1", "Success@5", "Success@20", "Success@100")
CONVENTION: Final = "an answer stands, word by word, in NFD and small letters (DPR's has_answer)"

Answers = Mapping[str, tuple[str, ...]]

_QUERY: Final = ("id", "queryid", "qid", "query", "question", "text")
_ANSWERS: Final = ("answers", "answer", "goldanswers")


@cache
def _words() -> re.Pattern[str]:
    """Runs of letters, digits and marks, or one other character that is not white or control."""
    kinds = (unicodedata.category(chr(code))[0] for code in range(sys.maxunicode + 1))
    parts: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    start = 0
    for kind, run in groupby("LNM" if one in "LNM" else one for one in kinds):
        stop = start + sum(1 for _ in run)
        part = f"{re.escape(chr(start))}-{re.escape(chr(stop - 1))}"
        parts[True if kind == "LNM" else None if kind in "ZC" else False].append(part)
        start = stop
    return re.compile(f"[{''.join(parts[True])}]+|[{''.join(parts[False])}]")


def answer_words(text: str) -> list[str]:
    """The words by which texts and answers are compared.

    >>> answer_words("Saint-Étienne, 1892")
    ['saint', '-', 'e\u0301tienne', ',', '1892']
    """
    found = _words().findall(unicodedata.normalize("NFD", text))
    return [word.lower() for word in found]


def judge_by_answers(
    doc_ids: Ids, doc_texts: Sequence[str], query_ids: Ids, answers: Answers
) -> Qrels:
    """Judgments of all documents: relevant is a text that holds an answer of the query."""
    wanted = {word for some in answers.values() for answer in some for word in answer_words(answer)}
    texts = [answer_words(text) for text in doc_texts]
    holders: dict[str, list[int]] = defaultdict(list)
    for doc, words in enumerate(texts):
        for word in wanted.intersection(words):
            holders[word].append(doc)
    asked = [row for row, query in enumerate(query_ids) if answers.get(str(query))]
    if not asked:
        raise MismatchError("None of the queries has an answer.")
    pairs = [
        (number, doc)
        for number, row in enumerate(asked)
        for doc in _holding(answers[str(query_ids[row])], texts, holders)
    ]
    queries, docs = np.array(pairs, np.int64).reshape(-1, 2).T
    names = query_ids.take(np.array(asked))
    found = Judgments.from_pairs(names, doc_ids, queries, docs, np.ones(len(docs)))
    return replace(found, exhaustive=True)


def _holding(
    answers: tuple[str, ...], texts: list[list[str]], holders: Mapping[str, list[int]]
) -> list[int]:
    """The documents in which one of the answers stands; only those with its rarest word count."""
    found: set[int] = set()
    for answer in answers:
        words = answer_words(answer)
        few = min((holders.get(word, []) for word in words), key=len, default=[])
        found.update(doc for doc in few if doc not in found and _stands_in(words, texts[doc]))
    return sorted(found)


def _stands_in(words: list[str], text: list[str]) -> bool:
    size = len(words)
    starts = (at for at, word in enumerate(text[: len(text) - size + 1]) if word == words[0])
    return any(text[at : at + size] == words for at in starts)


def read_answers(path: FilePath, query_ids: Ids, query_texts: Sequence[str]) -> dict[str, Any]:
    """The answers of each query, by id, from a file that names queries by id or by text.

    JSON or JSON lines with `answers` (texts, one text, or SQuAD's {"text": [...]}) beside the id
    or the question, {query: answers}, or TSV and CSV of DPR: a question, and a list of answers.
    """
    name = os.fspath(path)
    by_text = dict(zip(query_texts, map(str, query_ids), strict=True))
    known = {str(one) for one in query_ids}
    found: dict[str, tuple[str, ...]] = {}
    for place, query, answers in _entries(path, name):
        key = query if query in known else by_text.get(query)
        if key is not None:
            found[key] = _checked(answers, place)
    if not found:
        raise MismatchError(f"{name}: no query of the collection has an answer there.")
    return found


def _entries(path: FilePath, name: str) -> Iterator[tuple[str, str, Any]]:
    """Place, query and answers, one after the other."""
    ending = ending_of(path)
    if ending == ".json":
        data = parse_json(read_text(path), name)
        if isinstance(data, Mapping):
            yield from ((f"{name}, {key!r}", key, value) for key, value in data.items())
            return
        records = [
            (f"{name}, entry {row}", one) for row, one in enumerate(checks.as_list(data, name))
        ]
    elif ending in (".tsv", ".csv"):
        yield from _rows(path, name)
        return
    else:
        lines = ((f"{name}, line {n}", line) for n, line in enumerate(read_lines(path), 1))
        records = [(place, parse_json(line, place)) for place, line in lines if line.strip()]
    for place, one in records:
        if not isinstance(one, Mapping):
            raise FormatError(f"{place}: expected an object with answers, found {one!r:.40}.")
        query, answers = (pick_column(list(one), names, place) for names in (_QUERY, _ANSWERS))
        if query is None or answers is None:
            raise FormatError(
                f"{place}: expected a query and its answers, found {list(one)!r:.80}."
            )
        yield place, str(one[query]), one[answers]


def _rows(path: FilePath, name: str) -> Iterator[tuple[str, str, Any]]:
    """A question and its answers a row, between tabs also where the ending says .csv, as DPR's."""
    lines = list(read_lines(path))
    delimiter = "\t" if any("\t" in line for line in lines[:1]) else ","
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error as error:
        raise FormatError(f"{name} is not a table: {error}.") from None
    for place, row in ((f"{name}, row {at}", row) for at, row in enumerate(rows, 1) if row):
        if len(row) != 2:
            raise FormatError(f"{place}: expected 2 columns, found {len(row)}.")
        yield place, row[0], _listed(row[1].strip(), place)


def _listed(text: str, place: str) -> Any:
    """A list as Python or JSON write it, as in DPR's files; anything else is one answer."""
    if not text.startswith("["):
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return parse_json(text, place)


def _checked(answers: Any, place: str) -> tuple[str, ...]:
    given = answers.get("text") if isinstance(answers, Mapping) else answers
    some = [given] if isinstance(given, str) else given
    if not isinstance(some, list | tuple):
        raise FormatError(f"{place}: expected answers as texts, found {answers!r:.40}.")
    for answer in some:
        flaw = checks.flaw_of(answer)
        if not flaw and not answer_words(answer):
            flaw = "holds no word, so that every text would hold it"
        if flaw:
            raise FormatError(f"{place}: the answer {answer!r:.40} {flaw}.")
    return tuple(some)
