"""Labelling in a terminal: a pair, a key, the next pair."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from assay.core.text import printable
from assay.judging.labels import Pair
from assay.judging.session import LabelSession, TextPart

KEYS: Final = "s skip · c cannot judge · n NOTE · u undo · q quit"
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
    note, whole = "", False
    pair = session.next_pair()
    while pair is not None:
        _show(session.show(pair), guidelines, write, whole=whole)
        began = time.monotonic()
        try:
            typed = read("> ").strip()
        except EOFError:
            break
        key = typed.lower()
        seconds = time.monotonic() - began
        whole = key == "m"
        if key == "q":
            break
        if key == "u":
            write("Took back the last label." if session.undo() else "There is nothing to undo.")
        elif key.startswith("n "):
            note = typed[2:].strip()
            write("The note goes with your next answer.")
            continue
        elif whole:
            continue
        elif not _record(session, pair, key, note, seconds):
            write(f"Unknown key {printable(typed)[:20]!r}. {_grades(session)} · {KEYS} · m more")
            continue
        note = ""
        pair = session.next_pair()
        if news := status():
            write(printable(news))
    done = session.progress()
    write(f"{done['all']:,} of {done['total']:,} pairs labelled, {done['mine']:,} by {session.by}.")


def _record(session: LabelSession, pair: Pair, key: str, note: str, seconds: float) -> bool:
    """Record a grade, a skip or "cannot judge"; return whether the key is one of these."""
    states = {"s": "skip", "c": "cannot"}
    if key in states:
        session.record(pair, None, state=states[key], note=note, seconds=seconds)
    elif key in map(str, session.pool.scale):
        session.record(pair, int(key), note=note, seconds=seconds)
    else:
        return False
    return True


def _grades(session: LabelSession) -> str:
    return "/".join(map(str, session.pool.scale))


def _show(
    data: dict[str, Any],
    guidelines: Mapping[int, str],
    write: Callable[[str], None],
    *,
    whole: bool,
) -> None:
    width = min(shutil.get_terminal_size().columns, 100)
    done = data["progress"]
    rate = f" · {done['an_hour']} an hour" if done["an_hour"] else ""
    write(f"\n[{done['all']:,} of {done['total']:,}{rate}]")
    write(_style(f"Query: {printable(data['query'])}", "1"))
    if data["description"]:
        write(printable(data["description"]))
    for heading, pieces in (("Best passage", data["passage"]), ("Document", data["text"])):
        if pieces:
            lines = _wrap(pieces, width)
            shown = lines if whole else lines[:_LINES]
            write(f"{heading}:")
            for line in shown:
                write(f"  {line}")
            if len(shown) < len(lines):
                write(f"  … {len(lines) - len(shown)} more lines: m")
    grades = [f"{grade} {guidelines.get(grade, '')}".strip() for grade in data["scale"]]
    write(" · ".join(grades))
    write(KEYS)


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
