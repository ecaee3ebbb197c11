"""Labels: an append-only log on disk, and the formats of other tools.

A line of a log is one act of one labeller, as JSON: a grade, a skip, "cannot judge", an answer of
a model that cannot be read, or the undoing of what came before. The last act of a labeller on a
pair counts. A line is on disk (fsync) before `LabelLog.append` returns; several processes may
write to one log. A process that is killed while it writes leaves at most a piece of a line, which
was never acknowledged; it is counted and skipped.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from assay.arrays import rows_of
from assay.core.judgments import Qrels
from assay.core.text import is_decimal
from assay.errors import FormatError, MismatchError, StorageError, ValueRangeError
from assay.io.columns import open_table, read_records
from assay.io.formats import read_qrels
from assay.io.streams import FilePath, atomic_write, find_format, lock_file, named_format, read_text
from assay.judging.pool import LabelPool
from assay.tables.table import Cell, as_csv, table_of

STATES: Final = ("label", "skip", "cannot", "unreadable", "undo", "written")
KINDS: Final = ("human", "machine")
Pair = tuple[str, str]
_START: Final = '{"query": '  # of a line


@dataclass(frozen=True)
class Label:
    """One act of a labeller on one pair.

    Args:
        query: The query's id.
        doc: The document's id.
        grade: The grade; None unless the state is `label`.
        by: Who labelled: a person's name, or a model.
        kind: human or machine.
        state: label, skip, cannot (judge), unreadable (answer), undo, written (queries).
        time: When, in UTC.
        seconds: How long it took; 0 where nobody measured it.
        note: What the labeller wrote, or the model's answer.
        pool: Digest of the pool; empty for labels from elsewhere.
        confidence: How sure a model is, from 0 to 1; None where it does not say.
        key: Digest of the texts, prompt and model that a machine label was made from.
    """

    query: str
    doc: str
    grade: float | None
    by: str = ""
    kind: str = "human"
    state: str = "label"
    time: str = ""
    seconds: float = 0.0
    note: str = ""
    pool: str = ""
    confidence: float | None = None
    key: str = ""


@dataclass(frozen=True, eq=False)
class LabelSet:
    """The labels that count: the last act of each labeller on each pair.

    Args:
        labels: Labels with a grade.
        aside: Number of acts of each other state, such as skip and cannot.
        torn: Number of pieces of lines, from processes that were killed.
    """

    labels: tuple[Label, ...]
    aside: Mapping[str, int] = field(default_factory=dict)
    torn: int = 0

    def __len__(self) -> int:
        """Return the number of labels."""
        return len(self.labels)

    def __repr__(self) -> str:
        return f"LabelSet({len(self):,} labels of {len(self.by_pair()):,} pairs)"

    def by_pair(self) -> dict[Pair, list[Label]]:
        """Return the labels of each pair."""
        pairs: dict[Pair, list[Label]] = defaultdict(list)
        for label in self.labels:
            pairs[label.query, label.doc].append(label)
        return dict(pairs)

    def of_kind(self, kind: str) -> LabelSet:
        """Return human or machine labels alone."""
        return LabelSet(tuple(label for label in self.labels if label.kind == kind), self.aside)

    def uncertainty(self) -> dict[Pair, float]:
        """Return one minus the confidence of the labels that state one."""
        stated = (label for label in self.labels if label.confidence is not None)
        return {(label.query, label.doc): 1.0 - float(label.confidence or 0) for label in stated}

    def by_labeller(self) -> dict[str, dict[Pair, float]]:
        """Return the grades of each labeller."""
        grades: dict[str, dict[Pair, float]] = defaultdict(dict)
        for label in self.labels:
            grades[label.by][label.query, label.doc] = float(label.grade or 0)
        return dict(grades)

    def remarks(self) -> list[str]:
        """Return remarks on acts without a grade."""
        words = {
            "skip": "pairs were skipped",
            "cannot": "pairs could not be judged",
            "unreadable": "unreadable answers count as no label",
        }
        said = [f"{n:,} {words[s]}" for s, n in self.aside.items() if s in words and n]
        return [*said, *([f"{self.torn} truncated lines were skipped"] if self.torn else [])]

    def check(self, pool: LabelPool, source: str = "The labels") -> LabelSet:
        """Return the labels, if they belong to the pool.

        Raises:
            ValueRangeError: A grade is off the scale.
            MismatchError: A pair is not in the pool, or labels were made for another pool.
        """
        digests = {"", pool.digest, *pool.ancestors}
        scale = set(pool.scale)
        unknown = []
        for label in self.labels:
            if label.pool not in digests:
                raise MismatchError(
                    f"{source} belong to another pool (digest {label.pool[:8]}…, not "
                    f"{pool.digest[:8]}…). Pass that pool, or one that extends it."
                )
            if label.grade not in scale:
                raise ValueRangeError(
                    f"{source}: the grade {label.grade:g} of ({label.query}, {label.doc}) is "
                    f"not on the scale {', '.join(map(str, pool.scale))}. Correct it, or draw "
                    "the pool with another --scale."
                )
            if (label.query, label.doc) not in pool.places:
                unknown.append(label)
        if unknown:
            first = unknown[0]
            raise MismatchError(
                f"{source}: {len(unknown):,} of {len(self):,} labelled pairs are not in the pool "
                f"(first: query {first.query!r}, document {first.doc!r}). Extend the pool, or "
                "remove them."
            )
        return self


class LabelLog:
    """An append-only file of labels, which several processes may write to.

    Args:
        path: The file; it is made with the first label.

    Example:
        >>> import tempfile
        >>> log = LabelLog(os.path.join(tempfile.mkdtemp(), "labels.jsonl"))
        >>> log.append(Label("q1", "d7", 2, by="ada"))
        >>> [label.grade for label in log.read().labels]
        [2]
    """

    def __init__(self, path: FilePath) -> None:
        self.path = Path(path)

    def append(self, *labels: Label) -> None:
        """Write labels; they are on disk when this returns.

        Raises:
            StorageError: They cannot be written; nothing counts as labelled.
        """
        text = "".join(f"{_as_line(label)}\n" for label in labels)
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        except (OSError, ValueError) as error:
            raise _failure(self.path, error) from None
        try:
            lock_file(descriptor, wait=True)  # released when the file is closed
            if os.fstat(descriptor).st_size:
                os.lseek(descriptor, -1, os.SEEK_END)
                if os.read(descriptor, 1) != b"\n":
                    text = f"\n{text}"  # a killed process left a piece of a line
            data = text.encode()
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        except OSError as error:
            raise _failure(self.path, error) from None
        finally:
            os.close(descriptor)

    def acts(self) -> tuple[list[Label], int]:
        """Return every act in the order of the file, and the number of torn lines."""
        acts, torn, end = self.follow(0)
        torn += self.path.exists() and self.path.stat().st_size > end
        if torn and not acts and not read_text(self.path).startswith(_START):
            raise FormatError(f"{self.path} holds no labels. Pass one JSON line per label.")
        return acts, torn

    def follow(self, offset: int) -> tuple[list[Label], int, int]:
        """Return the acts of whole lines behind an offset, torn lines, and where these end."""
        try:
            with open(self.path, "rb") as file:
                file.seek(offset)
                whole = file.read().rpartition(b"\n")[0]
        except FileNotFoundError:
            return [], 0, offset
        except OSError as error:
            raise _failure(self.path, error) from None
        parsed = [_parse_line(line) for line in whole.split(b"\n") if line.strip()]
        acts = [act for act in parsed if act is not None]
        return acts, len(parsed) - len(acts), offset + len(whole) + bool(whole)

    def read(self) -> LabelSet:
        """Return the labels that count."""
        return settle(*self.acts())


def settle(acts: Iterable[Label], torn: int = 0) -> LabelSet:
    """Keep the last act of each labeller on each pair.

    Args:
        acts: Acts in the order in which they happened.
        torn: Number of lines that could not be read.
    """
    last: dict[tuple[str, str, str, str], Label] = {}
    for act in acts:
        last[act.query, act.doc, act.by, act.kind] = act
    labels = tuple(act for act in last.values() if act.state == "label")
    return LabelSet(labels, Counter(a.state for a in last.values() if a.state != "label"), torn)


def now() -> str:
    """Return the time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _failure(path: Path, error: Exception) -> StorageError:
    words = getattr(error, "strerror", None) or error
    return StorageError(f"{path} cannot be accessed: {words}. No label was recorded.")


def _as_line(label: Label) -> str:
    data = {key: value for key, value in asdict(label).items() if value not in ("", 0.0, None)}
    return json.dumps(data | {"grade": label.grade}, ensure_ascii=True)


def _parse_line(line: bytes) -> Label | None:
    try:
        data = json.loads(line)
        label = Label(**data)
        grade = label.grade
        sound = isinstance(label.query, str) and isinstance(label.doc, str)
        sound = sound and label.state in STATES and label.kind in KINDS
        number = isinstance(grade, int | float) and not isinstance(grade, bool)
    except (ValueError, TypeError, UnicodeDecodeError):
        return None
    return label if sound and number == (label.state == "label") else None


# Files of other tools


def read_labels(
    path: FilePath, *, format: str | None = None, by: str = "", kind: str = "human"
) -> LabelSet:
    """Read labels: a log of Assay, TREC qrels, CSV, or exports of Label Studio and Argilla.

    Args:
        path: The file.
        format: log, trec, csv, label-studio or argilla; the content tells it otherwise.
        by: Labeller of labels whose file names none. [the file's name]
        kind: Kind of labels whose file says none: human or machine.

    Returns:
        The labels that count.

    Raises:
        FormatError: The file is not one of these.
        ValueRangeError: A grade is not a number.

    Example:
        labels = read_labels("annotations.json", format="label-studio")
    """
    by = by or Path(path).name
    layout = find_format(path) if format in (None, "csv") else ""
    if format is None and layout in ("json", "jsonl"):
        format = _format_of_records(path, layout)
    if format == "log":
        return LabelLog(path).read()
    if format in ("label-studio", "argilla"):
        json_of = {"label-studio": "json", "argilla": "jsonl"}  # as the two export it
        records, where = read_records(path, named_format(path) or json_of[format])
        read = _label_studio if format == "label-studio" else _argilla
        entries = records if isinstance(records, list) else [records]
        try:
            acts = [act for n, entry in enumerate(entries) for act in read(entry, by, where(n))]
        except (AttributeError, TypeError, KeyError, IndexError):
            raise FormatError(f"{path} is not a {format} export. Pass its --format.") from None
        return settle(acts)
    if layout == "trec" or format == "trec":
        return _of_qrels(read_qrels(path, format="trec"), by, kind)
    return settle(_of_table(path, by, kind))


def _format_of_records(path: FilePath, layout: str) -> str:
    if layout == "jsonl" and LabelLog(path).follow(0)[0]:  # some of its lines may be torn
        return "log"
    records, _ = read_records(path, layout)
    first: Any = records[0] if isinstance(records, list) and records else records
    keys = set(first) if isinstance(first, Mapping) else set()
    if "annotations" in keys:
        return "label-studio"
    return "argilla" if "responses" in keys else "csv"


def _of_qrels(qrels: Any, by: str, kind: str) -> LabelSet:
    if not isinstance(qrels, Qrels):
        raise FormatError("Labels must be per pair, not per document. Pass pairs.")
    queries, docs = (list(map(str, ids)) for ids in (qrels.query_ids, qrels.doc_ids))
    rows = zip(rows_of(qrels.offsets).tolist(), qrels.docs.tolist(), qrels.grades, strict=True)
    # A negative grade marks a pair that was pooled and not judged.
    labels = (Label(queries[q], docs[d], float(g), by, kind) for q, d, g in rows if g >= 0)
    return LabelSet(tuple(labels))


def _of_table(path: FilePath, by: str, kind: str) -> Iterator[Label]:
    table = open_table(path, "a table of labels")
    roles = {"query": "query id", "doc": "document id", "grade": "grade"}
    names = table.require(roles, "Name them query, doc and grade.")
    more = [name for name in ("by", "kind", "note") if name in table.names and name not in names]
    columns = table.columns([*names, *more], gaps=[*more])
    seen: dict[tuple[str, ...], float] = {}
    for row, (query, doc, grade, *rest) in enumerate(zip(*columns, strict=True)):
        about: dict[str, Any] = {"by": by, "kind": kind, "note": ""}
        about |= {key: str(value) for key, value in zip(more, rest, strict=True) if value}
        if about["kind"] not in KINDS:
            raise FormatError(f"{table.where(row)}: unknown kind. Use human or machine.")
        number = _as_grade(grade, table.where(row))
        pair = (str(query), str(doc), about["by"], about["kind"])
        if seen.setdefault(pair, number) != number:
            raise MismatchError(
                f"{table.where(row)}: query {query}, document {doc} has two labels by "
                f"{about['by']}, {seen[pair]:g} and {number:g}. Keep one."
            )
        yield Label(str(query), str(doc), number, **about)


def _as_grade(value: Any, place: str) -> float:
    text = str(value).strip()
    if isinstance(value, bool) or not is_decimal(text):
        raise ValueRangeError(f"{place}: the grade {text[:40]!r} is not a number. Write 0, 1, 2, …")
    return float(text)


def _pair_of(data: Any, place: str) -> Pair:
    """Return the ids of query and document that a task or record names."""
    names = [(f"{name}_id", name) for name in ("query", "doc")]
    ids = [next((data[k] for k in keys if data.get(k) not in (None, "")), None) for keys in names]
    if None in ids:
        missing = names[ids.index(None)][0]
        raise FormatError(f"{place}: {missing} is missing. Export tasks with query_id and doc_id.")
    return str(ids[0]), str(ids[1])


def _label_studio(task: Any, by: str, place: str) -> Iterator[Label]:
    """Yield the labels of a task: Choices or Rating; cancelled annotations are skips."""
    pair = _pair_of(task.get("data") or {}, place)
    for annotation in task.get("annotations") or ():
        who = annotation.get("completed_by")
        who = who.get("email") if isinstance(who, Mapping) else who
        about: Any = {"by": str(who or by), "seconds": annotation.get("lead_time") or 0.0}
        if annotation.get("was_cancelled"):
            yield Label(*pair, None, state="skip", **about)
            continue
        values = [result.get("value", {}) for result in annotation.get("result") or ()]
        for grade in ((value.get("choices") or [value.get("rating")])[0] for value in values):
            if grade is not None:
                yield Label(*pair, _as_grade(grade, place), **about)


def _argilla(record: Any, by: str, place: str) -> Iterator[Label]:
    """Yield the labels of a record: the responses to the question `rel`, or to the only one."""
    pair = _pair_of({**record.get("fields", {}), **record.get("metadata", {})}, place)
    responses: Any = record.get("responses") or {}
    answers: Any = responses.get("rel") or next(iter(responses.values()), [])
    for answer in answers if isinstance(answers, list) else [answers]:
        about: Any = {"by": str(answer.get("user_id") or by)}
        if answer.get("status") == "discarded" or answer.get("value") is None:
            yield Label(*pair, None, state="skip", **about)
        else:
            yield Label(*pair, _as_grade(answer["value"], place), **about)


def write_labels(
    labels: LabelSet,
    path: FilePath,
    *,
    format: str,
    texts: Mapping[Pair, tuple[str, str]] | None = None,
) -> None:
    """Write labels for another tool atomically.

    Args:
        labels: The labels.
        path: The file.
        format: trec, csv, label-studio, argilla or log.
        texts: Texts of query and document by pair, for the tools that show them.

    Raises:
        MismatchError: TREC qrels hold one grade a pair, and labellers disagree.

    Example:
        write_labels(labels, "qrels.txt", format="trec")
    """
    lines: Iterable[str]
    if format == "log":
        lines = map(_as_line, labels.labels)
    elif format in ("trec", "csv"):
        lines = _trec_lines(labels) if format == "trec" else _csv_lines(labels)
    else:
        shape: Any = _label_studio_task if format == "label-studio" else _argilla_record
        texts = texts or {}
        records = [
            shape(
                pair,
                *([act for act in acts if act.kind == kind] for kind in KINDS),
                *texts.get(pair, pair),
            )
            for pair, acts in labels.by_pair().items()
        ]
        whole = format == "label-studio"
        lines = [json.dumps(records, indent=1)] if whole else map(json.dumps, records)
    with atomic_write(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())


def _trec_lines(labels: LabelSet) -> Iterator[str]:
    for (query, doc), acts in labels.by_pair().items():
        grades = {label.grade for label in acts}
        if len(grades) > 1:
            raise MismatchError(
                f"TREC qrels hold one grade per pair, but query {query}, document {doc} has "
                f"{len(grades)}. Write CSV, or the labels of one labeller."
            )
        yield f"{query} 0 {doc} {acts[0].grade:g}"


def _csv_lines(labels: LabelSet) -> Iterator[str]:
    names = ("query", "doc", "grade", "by", "kind", "state", "time", "seconds", "note")
    yield as_csv(table_of(names, [[Cell(getattr(a, n)) for n in names] for a in labels.labels]))


def _label_studio_task(
    pair: Pair, people: list[Label], models: list[Label], query: str, doc: str
) -> dict[str, Any]:
    def mark(label: Label, **about: Any) -> dict[str, Any]:
        value = {"choices": [f"{label.grade:g}"]}
        result = {"from_name": "rel", "to_name": "txt", "type": "choices", "value": value}
        return {**about, "result": [result]}

    return {
        "data": {"query_id": pair[0], "doc_id": pair[1], "query": query, "text": doc},
        "annotations": [mark(a, completed_by=a.by, lead_time=a.seconds) for a in people],
        "predictions": [mark(a, model_version=a.by) for a in models],
    }


def _argilla_record(
    pair: Pair, people: list[Label], models: list[Label], query: str, doc: str
) -> dict[str, Any]:
    answers = [{"user_id": act.by, "value": act.grade, "status": "submitted"} for act in people]
    guesses = [{"value": act.grade, "agent": act.by} for act in models]
    return {
        "id": f"{pair[0]}/{pair[1]}",
        "fields": {"query": query, "text": doc},
        "metadata": {"query_id": pair[0], "doc_id": pair[1]},
        "suggestions": {"rel": guesses[-1]} if guesses else {},
        "responses": {"rel": answers},
    }
