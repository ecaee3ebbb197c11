"""Collection: documents, queries and what is relevant to what, from files, all ids checked."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from assay.arrays import rows_of
from assay.core import checks
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Qrels
from assay.core.mismatches import describe_near
from assay.errors import FormatError, MismatchError, StorageError, UsageError
from assay.io import columns as tabular
from assay.io.formats import as_judgments
from assay.io.lines import NO_QUERIES, Questions
from assay.io.streams import FilePath, atomic_write, ending_of, make_folder, missing_file
from assay.io.texts import ChunkRule, Texts, chunk_docs, is_ir, parquet_parts, read_ir, read_texts

_PACKED = ("", ".gz", ".zst")
_CORPUS: Final = ["corpus.jsonl", "corpus.parquet"]


class Layout(NamedTuple):
    """Where the three parts of a collection are."""

    corpus: Path
    queries: Path
    qrels: Path


def find_layout(folder: FilePath, split: str) -> Layout:
    """Return the files of a collection in a folder; `split` names the judgments.

    That is BEIR's layout, or the one of data sets of Hugging Face's hub: parquet files in the
    folders corpus, queries and qrels (or data, default), each part of the last named by its split.
    """
    home = Path(folder)
    if not home.exists():
        raise missing_file(str(home))
    if not home.is_dir():
        raise UsageError(
            f"{home} is not a folder in BEIR's layout. Pass queries and judgments too (--queries "
            "and --qrels)."
        )
    names = [f"qrels/{split}.tsv", f"qrels/{split}.trec"]
    names += [f"qrels.{ending}" for ending in ("tsv", "trec", "txt", "json")]
    names += [f"qrels/{split}.parquet", "qrels.parquet"]
    queries = ["queries.jsonl", "queries.tsv", "queries.csv", "queries.parquet"]
    return Layout(
        _of_hub(home, "corpus") or _first(home, _CORPUS, "corpus (texts need --qrels)"),
        _of_hub(home, "queries") or _first(home, queries, "queries"),
        _qrels_of_hub(home, split) or _first(home, names, f"judgments of the split {split!r}"),
    )


def _of_hub(home: Path, name: str) -> Path | None:
    """Return the folder with the parts of a table, if there is one."""
    return home / name if parquet_parts(home / name) else None


def _qrels_of_hub(home: Path, split: str) -> Path | None:
    parts = [
        part
        for folder in ("qrels", "data", "default")
        for part in parquet_parts(home / folder, f"{glob.escape(split)}-*-of-*")
    ]
    if len(parts) > 1:
        raise UsageError(
            f"{home} has the judgments of the split {split!r} in {len(parts)} parquet files. Join "
            "them into one file and pass it as qrels (--qrels)."
        )
    return parts[0] if parts else None


def _first(home: Path, names: list[str], what: str) -> Path:
    for path in (home / f"{name}{packed}" for name in names for packed in _PACKED):
        if path.is_file():
            return path
    splits = sorted(path.stem for path in (home / "qrels").glob("*.tsv"))
    hint = f" Splits: {', '.join(splits)}." if splits and "split" in what else ""
    raise StorageError(f"{home} holds no {what}. Add one of these files: {', '.join(names)}.{hint}")


def write_collection(collection: Collection, folder: FilePath, *, split: str = "test") -> Layout:
    """Write a collection in BEIR's layout; each file whole or not at all."""
    home = make_folder(Path(folder) / "qrels").parent
    layout = Layout(home / "corpus.jsonl", home / "queries.jsonl", home / "qrels" / f"{split}.tsv")
    documents = zip(collection.doc_ids, collection.doc_texts, strict=True)
    _write(layout.corpus, (_record(id, title="", text=text) for id, text in documents))
    queries = zip(collection.query_ids, collection.query_texts, strict=True)
    _write(layout.queries, (_record(id, text=text) for id, text in queries))
    _write(layout.qrels, _judgments(collection))
    return layout


def _record(id: str | int, **fields: str) -> str:
    return json.dumps({"_id": str(id), **fields}, ensure_ascii=False)


def _judgments(collection: Collection) -> Iterator[str]:
    yield "query-id\tcorpus-id\tscore"
    qrels = collection.qrels
    queries, docs = qrels.query_ids.to_list(), qrels.doc_ids.to_list()
    rows = rows_of(qrels.offsets).tolist()
    for row, doc, grade in zip(rows, qrels.docs.tolist(), qrels.grades.tolist(), strict=True):
        yield f"{queries[row]}\t{docs[doc]}\t{int(grade) if grade.is_integer() else grade!r}"


def _write(path: Path, lines: Iterable[str]) -> None:
    with atomic_write(path) as file:
        for line in lines:
            file.write(f"{line}\n".encode())


def read_judgments(source: Any, queries: Texts | None = None) -> tuple[Qrels, Texts]:
    """Return judgments, and the queries: those that are given, or that the judgments name."""
    questions = Questions(None) if queries is None else Questions(*queries, "the queries")
    read = as_judgments(source, questions)
    if not isinstance(read, Qrels):
        raise UsageError("A collection needs judgments of pairs, not labels. Pass qrels (--qrels).")
    if queries is None:
        if not questions.texts:  # as in TREC text
            raise UsageError(NO_QUERIES)
        ids = Ids.of(list(questions.texts), "query")
        queries = Texts(ids, tuple(questions.texts.values()))
    return replace(
        read, query_ids=read.query_ids.as_text(), doc_ids=read.doc_ids.as_text()
    ), queries


_DIGITS: Final = 16


@dataclass(frozen=True, eq=False)
class Collection:
    """Documents and queries with their texts, and graded judgments.

    Ids are text. Documents that are judged but not there, and queries without judgments, may be
    part of it; `absent_docs` and `unjudged_queries` name them. The fingerprint covers ids, texts
    and judgments, in whatever order they came. `by_answers` are judgments of the same queries by
    the answers that texts hold, where there are answers beside judged documents; `relevant` says
    what makes a document relevant.
    """

    doc_ids: Ids
    doc_texts: Sequence[str]
    query_ids: Ids
    query_texts: Sequence[str]
    qrels: Qrels
    name: str = ""
    fingerprint: str = ""
    by_answers: Qrels | None = None
    relevant: Literal["judged", "answers"] = "judged"

    def __post_init__(self) -> None:
        """Check that the parts belong together; compute a missing fingerprint."""
        for what in ("doc", "query"):
            ids = Ids.of(getattr(self, f"{what}_ids"), what)
            object.__setattr__(self, f"{what}_ids", ids)
            checks.check_unique(ids, what)
        checks.check_lengths(doc_ids=len(self.doc_ids), doc_texts=len(self.doc_texts))
        checks.check_lengths(query_ids=len(self.query_ids), query_texts=len(self.query_texts))
        _refuse_strangers(self)
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", _fingerprint(self))

    @cached_property
    def absent_docs(self) -> Ids:
        """Judged documents that the collection does not hold."""
        return _absent(self.qrels.doc_ids, self.doc_ids)

    @cached_property
    def absent_queries(self) -> Ids:
        """Judged queries without a text, which cannot be searched."""
        return _absent(self.qrels.query_ids, self.query_ids)

    @cached_property
    def unjudged_queries(self) -> Ids:
        """Queries without judgments."""
        return _absent(self.query_ids, self.qrels.query_ids)

    @cached_property
    def empty_docs(self) -> Ids:
        """Documents without any text: nothing can retrieve them."""
        return _empty(self.doc_ids, self.doc_texts)

    @cached_property
    def empty_queries(self) -> Ids:
        """Queries without any text."""
        return _empty(self.query_ids, self.query_texts)

    def text_of(self, doc: str) -> str:
        """Return the text of one document; empty where it is not there."""
        at = int(Ids.of([doc]).match(self.doc_ids)[0])
        return self.doc_texts[at] if at >= 0 else ""

    def __repr__(self) -> str:
        """Return the sizes in one line."""
        size = f"{len(self.doc_ids):,} documents, {len(self.query_ids):,} queries"
        return f"Collection({self.name!r}, {size}, {len(self.qrels.docs):,} judgments)"


def load_collection(
    corpus: FilePath,
    queries: FilePath | None = None,
    qrels: Any = None,
    *,
    split: str = "test",
    name: str = "",
    chunks: ChunkRule | None = None,
    answers: FilePath | None = None,
) -> Collection:
    """Return a collection from files.

    `corpus` alone is a folder in BEIR's layout or that of a data set of Hugging Face's hub, `split`
    names its judgments. Otherwise `corpus` is JSON lines, JSON, CSV, TSV, parquet or a folder of
    .txt and .md (or parquet) files; `queries` likewise a file; `qrels` a file of judgments (TREC,
    TSV, CSV, JSON, parquet), a JSON list of (query, relevant ids), or what `assay.evaluate` takes.
    Where such a list holds the texts of the queries, `queries` may be left out. With `chunks`,
    judgments name chunks: documents are cut by this rule, and the documents of the collection are
    the chunks `ID#1`, `ID#2`, …. `ir:ID` is a collection of the package ir_datasets. `answers` is
    a file of answers: without `qrels`, a document that holds one is relevant.
    """
    if answers is not None:
        return _with_answers(answers, corpus, queries, qrels, split, name, chunks)
    if is_ir(corpus):
        if queries is not None or qrels is not None:
            raise UsageError(f"{corpus} already has queries and judgments. Omit yours.")
        texts, query_texts, pairs = read_ir(os.fspath(corpus))
        docs = _cut(texts, chunks)
        label = name or os.fspath(corpus)
        return Collection(docs.ids, docs.texts, query_texts.ids, query_texts.texts, pairs, label)
    if queries is None and qrels is None:
        layout = find_layout(corpus, split)
        name = name or Path(corpus).resolve().name
        return load_collection(*layout, name=name, chunks=chunks)
    if qrels is None:
        raise UsageError("A collection needs judgments. Pass qrels (--qrels).")
    docs = _cut(read_texts(corpus, "doc"), chunks)
    queries_read = None if queries is None else read_texts(queries, "query")
    truth, queries_read = read_judgments(qrels, queries_read)
    return Collection(
        docs.ids, docs.texts, queries_read.ids, queries_read.texts, truth, name or _name_of(corpus)
    )


def _with_answers(
    answers: FilePath,
    corpus: FilePath,
    queries: FilePath | None,
    qrels: Any,
    split: str,
    name: str,
    chunks: ChunkRule | None,
) -> Collection:
    """Return the collection judged by answers, with or without its own judgments."""
    if queries is not None and qrels is None:
        docs, questions = _cut(read_texts(corpus, "doc"), chunks), read_texts(queries, "query")
        answers_of = read_answers(answers, questions.ids, questions.texts)
        judged = judge_by_answers(docs.ids, docs.texts, questions.ids, answers_of)
        label = name or _name_of(corpus)
        collection = Collection(docs.ids, docs.texts, questions.ids, questions.texts, judged, label)
        return replace(collection, relevant="answers")
    whole = load_collection(corpus, queries, qrels, split=split, name=name, chunks=chunks)
    rows = np.flatnonzero(whole.query_ids.match(whole.qrels.query_ids) >= 0)
    answers_of = read_answers(answers, whole.query_ids, whole.query_texts)
    judged = judge_by_answers(
        whole.doc_ids, whole.doc_texts, whole.query_ids.take(rows), answers_of
    )
    return replace(whole, by_answers=judged)


def _cut(docs: Texts, chunks: ChunkRule | None) -> Texts:
    if chunks is None:
        return docs
    cut = chunk_docs(docs.ids, docs.texts, chunks)
    return Texts(cut.ids, cut.texts)


def _name_of(corpus: FilePath) -> str:
    path = Path(corpus).resolve()
    return path.name if path.is_dir() else path.parent.name


def _absent(ids: Ids, there: Ids) -> Ids:
    return ids.take(np.flatnonzero(ids.match(there) < 0))


def _empty(ids: Ids, texts: Sequence[str]) -> Ids:
    return ids.take(np.flatnonzero([not text.strip() for text in texts]))


def _refuse_strangers(collection: Collection) -> None:
    """Refuse judgments that have nothing in common with the texts, and say what is near."""
    pairs = {
        "documents": (collection.qrels.doc_ids, collection.doc_ids, collection.absent_docs),
        "queries": (collection.qrels.query_ids, collection.query_ids, collection.absent_queries),
    }
    for what, (judged, there, absent) in pairs.items():
        if not len(there):
            raise MismatchError(f"The collection holds no {what}. Check its files.")
        if len(absent) < len(judged):
            continue
        raise MismatchError(
            f"None of the {len(judged)} judged {what} is in the collection (judged: "
            f"{checks.name_few(judged, 3)}; there: "
            f"{checks.name_few(there, 3)}).{describe_near(absent, there)} Check that the files "
            "belong together."
        )


def _fingerprint(collection: Collection) -> str:
    """Return the first digits of a SHA-256 over ids, texts and judgments, each sorted by id."""
    digest = hashlib.sha256(b"assay collection 1\0")
    for ids, texts in (
        (collection.doc_ids, collection.doc_texts),
        (collection.query_ids, collection.query_texts),
    ):
        for at in ids.order().tolist():
            for data in (str(ids[at]).encode(), texts[at].encode()):
                digest.update(f"{len(data)}:".encode() + data)
        digest.update(b"\0\0")
    for line in sorted(_judgment_lines(collection.qrels)):
        digest.update(line)
    return digest.hexdigest()[:_DIGITS]


def _judgment_lines(qrels: Qrels) -> list[bytes]:
    queries, docs = qrels.query_ids.to_list(), qrels.doc_ids.to_list()
    rows = np.repeat(np.arange(len(queries)), np.diff(qrels.offsets)).tolist()
    return [
        f"{queries[q]}\t{docs[d]}\t{grade!r}\n".encode()
        for q, d, grade in zip(rows, qrels.docs.tolist(), qrels.grades.tolist(), strict=True)
    ]


# Answers as text: which documents hold an answer of a query, as DPR's evaluation decides it
# (Karpukhin et al. 2020, `has_answer` with match_type "string"): text and answer are put into NFD
# and split into words (runs of letters, digits and marks) and single other characters that are
# neither white space nor control; both in small letters, the words of an answer must stand in the
# text one after the other. A query counts as failed if no document holds an answer, so it keeps its
# place.


ANSWER_MEASURES: Final = ("Success@1", "Success@5", "Success@20", "Success@100")
CONVENTION: Final = "an answer stands, word by word, in NFD and small letters (DPR's has_answer)"

Answers = Mapping[str, tuple[str, ...]]


@cache
def _words() -> re.Pattern[str]:
    """Return the pattern of words: letters, digits and marks, or one other character."""
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
        raise MismatchError("None of the queries has an answer. Check the ids of both files.")
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
    """Return the documents that hold an answer, found by its rarest word."""
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
            f"{name} has no answers for {checks.name_few(absent)}.{near} Write ids alike."
        )
    if not answers_of:
        raise MismatchError(f"{name} has answers for no query of the collection. Check the ids.")
    return answers_of


def _entries(path: FilePath, name: str) -> Iterator[tuple[str, str, Any]]:
    """Yield place, query and answers, one after the other."""
    ending = ending_of(path)
    if ending in (".tsv", ".csv"):
        # DPR's files have tabs also where the ending says .csv, and no header.
        layout = tabular.Dialect(tabular.find_delimiter(path), strict=False, skip_spaces=False)
        table = tabular.open_delimited(path, layout, lambda _: ("query", "answers"))
        for row, (query, text) in enumerate(zip(*table.columns(table.names), strict=True)):
            place = f"{name}, row {row + 1}"
            yield place, query, tabular.parse_list(text.strip(), place)
        return
    data, where = tabular.read_records(path, "json" if ending == ".json" else "jsonl")
    if isinstance(data, Mapping):
        yield from ((f"{name}, {key!r}", key, value) for key, value in data.items())
        return
    for row, record in enumerate(checks.as_list(data, name)):
        place = where(row)
        if not isinstance(record, Mapping):
            raise FormatError(f"{place}: expected an object with answers, found {record!r:.40}.")
        names = tabular.require_columns(
            list(record),
            {"answered query": "query", "answers": "answers"},
            place,
            "Name them query_id and answers.",
        )
        yield place, str(record[names[0]]), record[names[1]]


def _checked(answers: Any, place: str) -> tuple[str, ...]:
    text = answers.get("text") if isinstance(answers, Mapping) else answers
    some = [text] if isinstance(text, str) else text
    if not isinstance(some, list | tuple):
        raise FormatError(f"{place}: expected answers as texts, found {answers!r:.40}.")
    for answer in some:
        flaw = checks.flaw_of(answer)
        if not flaw and not answer_words(answer):
            flaw = "holds no word, so every text would match. Remove it"
        if flaw:
            raise FormatError(f"{place}: the answer {answer!r:.40} {flaw}.")
    return tuple(some)
