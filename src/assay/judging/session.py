"""LabelSession: one labeller's way through a pool, for the page; and the terminal itself.

Which systems retrieved a document, and at which rank, is not part of it: nobody who labels sees it.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any, Final, NamedTuple

from assay.core.checks import check_choice
from assay.core.text import printable, spoken
from assay.errors import AssayError, MismatchError, ValueRangeError
from assay.io.formats import RunLike, as_ranking
from assay.judging.estimate import estimate_from_labels
from assay.judging.labels import STATES, Label, LabelLog, Pair, now
from assay.judging.pool import RULES, LabelPool, uniform_numbers

GUIDELINES: Final = {
    0: "does not help to answer the query",
    1: "on the subject, but does not answer the query",
    2: "answers the query in part",
    3: "answers the query",
}
_WORD: Final = re.compile(r"\w+")
_PASSAGE: Final = re.compile(r"\n\s*\n")
_LONGEST: Final = 1200  # characters of a passage
_PATIENCE: Final = 0.02  # seconds that a page waits for a new interval
_COMMON: Final = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by do does for from how in is it its of on or that the this to was "
        "what when where which who why will with",
    )
)


class TextPart(NamedTuple):
    """A part of a text; `marked` where it is a word of the query."""

    text: str
    marked: bool


def mark_words(text: str, query: str) -> list[TextPart]:
    """Cut a text where words of the query begin and end.

    >>> [piece.text for piece in mark_words("The red fox.", "red foxes") if piece.marked]
    ['red']
    """
    words = query_words(query)
    pieces, last = [], 0
    for match in _WORD.finditer(text):
        if match[0].lower() in words:
            pieces += [TextPart(text[last : match.start()], False), TextPart(match[0], True)]
            last = match.end()
    return [piece for piece in (*pieces, TextPart(text[last:], False)) if piece.text]


def query_words(query: str) -> set[str]:
    """Return the words of a query but for the commonest; all, where these are all."""
    words = {word.lower() for word in _WORD.findall(query)}
    return words - _COMMON or words


def best_passage(text: str, query: str) -> str:
    """Return the passage that holds most words of the query; the first of several.

    >>> best_passage("About us.\\n\\nThe fox is red.", "red fox")
    'The fox is red.'
    """
    words = query_words(query)
    passages = [part.strip() for part in _PASSAGE.split(text)]
    parts = [
        part[start : start + _LONGEST]
        for part in passages
        for start in range(0, max(len(part), 1), _LONGEST)
    ]
    return max(parts, key=lambda part: len(words & {w.lower() for w in _WORD.findall(part)}))


@dataclass(frozen=True)
class LabelTexts:
    """Texts of queries and documents, and a description of each query, by id."""

    queries: Mapping[str, str]
    docs: Mapping[str, str]
    descriptions: Mapping[str, str]


class LabelSession:
    """The pairs that one labeller has still to label, over a log that others write to, too.

    Args:
        pool: The pool.
        log: The log of labels.
        by: The labeller's name.
        texts: LabelTexts to show.
        twice: Share of the pairs that two people label.
    """

    def __init__(
        self, pool: LabelPool, log: LabelLog, by: str, *, texts: LabelTexts, twice: float = 0.0
    ) -> None:
        if not by.strip() or len(by) > 100 or not by.isprintable():
            raise ValueRangeError("Invalid labeller name. Use 1 to 100 printable characters.")
        if not 0 <= twice <= 1:
            raise ValueRangeError(f"Share labelled twice outside 0 to 1: {twice:g}.")
        self.pool, self.by, self.texts = pool, by, texts
        self._log, self._offset = log, 0
        self._queue: list[Pair] = [pool.names[place] for place in pool.order.tolist()]
        shared = uniform_numbers(pool, "twice")[pool.order] < twice
        self._shared = {pair for pair, both in zip(self._queue, shared, strict=True) if both}
        self._mine: dict[Pair, Label] = {}
        self._history: list[Pair] = []
        self._labellers: dict[Pair, set[str]] = {}
        self._labelled: dict[bool, set[Pair]] = {True: set(), False: set()}  # by me, by anybody
        self._next = 0
        self._began = time.monotonic()
        self._n_here = 0
        self.update()
        log.read().check(pool, str(log.path))

    def update(self) -> None:
        """Read new lines of the log."""
        acts, _, self._offset = self._log.follow(self._offset)
        for act in acts:
            pair = (act.query, act.doc)
            if act.by == self.by and act.kind == "human":
                self._mine[pair] = act
                if act.state == "undo":
                    self._next = 0
            elif act.kind == "human":
                labellers = self._labellers.setdefault(pair, set())
                (labellers.add if act.state == "label" else labellers.discard)(act.by)
            mine = pair in self._mine and self._mine[pair].state == "label"
            for by_me, pairs in self._labelled.items():
                labelled = mine or (not by_me and bool(self._labellers.get(pair)))
                (pairs.add if labelled else pairs.discard)(pair)

    def next_pair(self) -> Pair | None:
        """Return the pair to label now; None at the end. Skipped pairs come last."""
        while self._next < len(self._queue):
            pair = self._queue[self._next]
            act = self._mine.get(pair)
            if (act is None or act.state == "undo") and not self._is_done(pair):
                return pair
            self._next += 1
        for pair, act in self._mine.items():
            if act.state == "skip" and not self._is_done(pair):
                return pair
        return None

    def _is_done(self, pair: Pair) -> bool:
        """Tell whether others have labelled a pair as often as it takes."""
        return len(self._labellers.get(pair, ())) >= (2 if pair in self._shared else 1)

    def record(
        self,
        pair: Pair,
        grade: float | None,
        *,
        state: str = "label",
        note: str = "",
        seconds: float = 0.0,
    ) -> None:
        """Write what the labeller decided; it is on disk when this returns.

        Raises:
            MismatchError: The pair was not drawn.
            ValueRangeError: The grade is not on the scale.
        """
        if self.pool.places.get(pair) is None or not self.pool.stages[self.pool.places[pair]]:
            raise MismatchError(f"Query {pair[0]!r}, document {pair[1]!r} was not drawn. Skip it.")
        check_choice(state, STATES, "state")
        if state == "label" and (isinstance(grade, bool) or grade not in self.pool.scale):
            raise ValueRangeError(f"The grade {grade!r} is not on the scale {self.pool.scale}.")
        about: dict[str, Any] = {"by": self.by, "state": state, "time": now()}
        about["pool"] = self.pool.digest
        seconds = round(min(max(seconds, 0.0), 86400.0), 2)
        value = grade if state == "label" else None
        self._log.append(Label(*pair, value, note=note[:5000], seconds=seconds, **about))
        if state != "undo":
            self._history.append(pair)
            self._n_here += 1
        self.update()

    def undo(self) -> Pair | None:
        """Take back the last decision of this session; return its pair, None if there is none."""
        if not self._history:
            return None
        pair = self._history.pop()
        self._n_here -= 1
        self.record(pair, None, state="undo")
        return pair

    def progress(self) -> dict[str, Any]:
        """Return how much is labelled, by this labeller and by all, and how quickly."""
        mine, every = (len(self._labelled[by_me]) for by_me in (True, False))
        hours = (time.monotonic() - self._began) / 3600
        rate = round(self._n_here / hours) if hours > 1 / 120 and self._n_here > 0 else None
        return {"mine": mine, "all": every, "total": len(self._queue), "an_hour": rate}

    def show(self, pair: Pair | None) -> dict[str, Any]:
        """Return what a labeller sees of a pair: texts as pieces, progress, the scale."""
        data: dict[str, Any] = {"progress": self.progress(), "scale": list(self.pool.scale)}
        if pair is None:
            return {**data, "pair": None}
        query = self.texts.queries.get(pair[0], pair[0])
        doc = self.texts.docs.get(pair[1], pair[1])
        passage = best_passage(doc, query)
        mark = partial(mark_words, query=query)
        return {
            **data,
            "pair": list(pair),
            "query": query,
            "description": self.texts.descriptions.get(pair[0], ""),
            "passage": mark(passage) if passage != doc.strip() else [],
            "text": mark(doc),
        }


class LabelStatus:
    """Interim results with intervals valid at any stopping time.

    Args:
        runs: Runs by the names of the systems; read once.
        pool: The pool.
        log: The log of labels.
    """

    def __init__(self, runs: Mapping[str, RunLike], pool: LabelPool, log: LabelLog) -> None:
        self._rankings = {name: as_ranking(run, RULES) for name, run in runs.items()}
        self._pool, self._log = pool, log
        self._text, self._size, self._worker = "", -1, Thread()

    def __call__(self) -> str:
        """Return the newest sentence that is ready; a new one is computed beside it."""
        size = self._log.path.stat().st_size if self._log.path.exists() else 0
        if size != self._size and not self._worker.is_alive() and len(self._rankings) > 1:
            self._size = size
            self._worker = Thread(target=self.compute, daemon=True)
            self._worker.start()
            self._worker.join(_PATIENCE)
        return self._text

    def compute(self) -> str:
        """Return the interim result."""
        if len(self._rankings) < 2:
            return ""
        try:
            result = estimate_from_labels(self._rankings, self._pool, self._log.read())
        except AssayError:
            return ""  # before the first label, say
        intervals = [
            f"{each.measure}, {each.a} − {each.b}: {spoken(each.sequence.text(sign=True) or '–')}"
            for each in result.estimates
            if each.sequence is not None
        ]
        self._text = f"Known so far: {'; '.join(intervals)}" if intervals else "Too few labels yet."
        return self._text


# Labelling in a terminal: a pair, a key, the next pair


KEYS: Final = "s skip · c cannot judge · n NOTE · u undo · q quit"
_STATES: Final = {"s": "skip", "c": "cannot"}
_LINES: Final = 30  # of a document, before "more"


def label_in_terminal(
    session: LabelSession,
    guidelines: Mapping[int, str],
    *,
    read: Callable[[str], str] = input,
    write: Callable[[str], None] = print,
    status: Callable[[], str] = str,
) -> None:
    """Show pair after pair and record what is typed, until all are labelled or `q`.

    Args:
        session: The labeller's session.
        guidelines: What each grade means.
        read: Prompts for a line.
        write: Shows a line.
        status: Says what is known so far.
    """
    note, whole, pair = "", False, session.next_pair()
    grades = list(map(str, session.pool.scale))
    while pair is not None:
        for line in _describe(session.show(pair), guidelines, whole=whole):
            write(line)
        began = time.monotonic()
        try:
            typed = read("> ").strip()
        except EOFError:
            break
        key, whole = typed.lower(), typed.lower() == "m"
        about: dict[str, Any] = {"note": note, "seconds": time.monotonic() - began}
        if key == "q":
            break
        if whole:
            continue
        if key.startswith("n "):
            note = typed[2:].strip()
            write("The note is stored with your next answer.")
            continue
        if key == "u":
            write("Removed the last label." if session.undo() else "Nothing to undo.")
        elif key in _STATES:
            session.record(pair, None, state=_STATES[key], **about)
        elif key in grades:
            session.record(pair, int(key), **about)
        else:
            write(f"Unknown key {printable(typed)[:20]!r}. {'/'.join(grades)} · {KEYS} · m more")
            continue
        note, pair = "", session.next_pair()
        if news := status():
            write(printable(news))
    done = session.progress()
    write(f"{done['all']:,} of {done['total']:,} pairs labelled, {done['mine']:,} by {session.by}.")


def _describe(data: dict[str, Any], meaning: Mapping[int, str], *, whole: bool) -> Iterator[str]:
    """Yield the lines that show a pair."""
    done = data["progress"]
    rate = f" · {done['an_hour']} an hour" if done["an_hour"] else ""
    yield f"\n[{done['all']:,} of {done['total']:,}{rate}]"
    yield _style(f"Query: {printable(data['query'])}", "1")
    if data["description"]:
        yield printable(data["description"])
    for heading, pieces in (("Best passage", data["passage"]), ("Document", data["text"])):
        if pieces:
            lines = _wrap(pieces, min(shutil.get_terminal_size().columns, 100))
            visible = lines if whole else lines[:_LINES]
            yield from (f"{heading}:", *(f"  {line}" for line in visible))
            if len(visible) < len(lines):
                yield f"  … {len(lines) - len(visible)} more lines: m"
    yield " · ".join(f"{grade} {meaning.get(grade, '')}".strip() for grade in data["scale"])
    yield KEYS


def _wrap(pieces: list[TextPart], width: int) -> list[str]:
    """Wrap a text, then mark the words of the query, which have no width of their own."""
    marked = {piece.text for piece in pieces if piece.marked}
    text = "".join(piece.text for piece in pieces)
    lines = [
        wrapped
        for line in text.splitlines()
        for wrapped in textwrap.wrap(printable(line), width - 4) or [""]
    ]
    return [" ".join(_mark(word, marked) for word in line.split(" ")) for line in lines]


def _mark(word: str, marked: set[str]) -> str:
    return _style(word, "1;4") if word.strip(".,;:!?()'\"") in marked else word


def _style(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if sys.stdout.isatty() else text
