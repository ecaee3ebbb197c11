"""Real samples for label retrieval: banking questions, and activities in two homes."""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

LABEL_WORDS = {
    "Breakfast": "having breakfast in the kitchen",
    "Dinner": "having dinner in the kitchen",
    "Grooming": "grooming at the basin in the bathroom",
    "Leaving": "leaving the house through the main door",
    "Lunch": "having lunch in the kitchen",
    "Showering": "taking a shower in the bathroom",
    "Sleeping": "sleeping in bed in the bedroom",
    "Snack": "having a snack from the fridge",
    "Spare_Time/TV": "spare time on the seat in the living room, watching TV",
    "Toileting": "using the toilet in the bathroom",
}


class Question(NamedTuple):
    """A customer's question and its intent."""

    text: str
    intent: str


def banking_questions(folder: Path) -> list[Question]:
    """All 13,083 questions, train before test."""
    found = []
    for name in ("train.csv", "test.csv"):
        with open(folder / name, encoding="utf-8", newline="") as file:
            found += [Question(row["text"], row["category"]) for row in csv.DictReader(file)]
    return found


def intent_words(intent: str) -> str:
    """The name of an intent as words."""
    return intent.replace("_", " ").strip("? ")


class Activity(NamedTuple):
    """What the sensors of a home said during one labelled activity."""

    label: str
    sensors: str
    caption: str


def home_activities(folder: Path, home: str) -> list[Activity]:
    """The activities of home A or B, their sensor events told in words."""
    events = _rows(folder / f"Ordonez{home}_Sensors.txt")
    found = []
    for start, end, label in _rows(folder / f"Ordonez{home}_ADLs.txt"):
        during = [words for s, e, *words in events if s <= end and e >= start]
        found.append(Activity(label, _told(during), f"{LABEL_WORDS[label]} {_part_of_day(start)}"))
    return found


def _rows(path: Path) -> list[list[str]]:
    """Fields of the lines below the header; columns are set apart by tabs and blanks."""
    lines = path.read_text("utf-8").splitlines()[2:]
    rows = [line.split() for line in lines if line.strip()]
    return [[f"{r[0]} {r[1]}", f"{r[2]} {r[3]}", *r[4:]] for r in rows]


def _told(during: list[list[str]]) -> str:
    """Each sensor once, in the order in which it first fired."""
    names = [f"{place.lower()} {location.lower()}" for location, _, place in during]
    return ", ".join(dict.fromkeys(names)) or "no sensor fired"


def _part_of_day(moment: str) -> str:
    hour = datetime.fromisoformat(moment).hour
    return ("at night", "in the morning", "in the afternoon", "in the evening")[hour // 6]
