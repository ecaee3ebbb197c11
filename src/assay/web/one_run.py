"""The page of one run: its numbers, what they hide, its queries, and how it was made."""

from __future__ import annotations

import json
import shlex
from typing import Any

from assay.report.stored_tables import run_data
from assay.report.tables import Cell, Table
from assay.store import Aggregate, Run
from assay.web.asked import address
from assay.web.listing import shown_status
from assay.web.lookups import chosen_measure, find_run
from assay.web.page import Page, View
from assay.web.pictures import Span, strip
from assay.web.run_queries import with_queries
from assay.web.sheets import Sheet

__all__ = ["run_page"]


def run_page(view: View) -> Page:
    """One run."""
    run = find_run(view.store, view.key)
    measure = chosen_measure(view.asked, run.measures)
    scores = view.values.scores(view.store, run)
    own = {**run_data(run, per_query=False), "shown_status": shown_status(run)}
    page = Page(
        "run",
        f"Run {run.id}: {run.name}",
        {"run": own, "remarks": []},
        [_numbers(run)] if run.aggregates else [],
        {"run": run, "measure": measure, "status": shown_status(run), "facts": _facts(run),
         "verdict": _verdict(run, measure), "made": _made(run), "chart": "", "column": "",
         "columns": []},
    )  # fmt: skip
    return page if scores is None or not scores.n_queries else with_queries(page, view, scores)


def _verdict(run: Run, measure: str) -> str:
    found = [one for one in run.aggregates if one.measure == measure and not one.by_column]
    if run.status != "finished" or not found or found[0].value is None:
        return ""
    one = found[0]
    ends = "" if one.low is None else f" [{one.low:.4f}, {one.high:.4f}]"
    chance = "" if one.chance is None else f"; a random order reaches {one.chance:.4f}"
    return f"{run.name} reaches {one.value:.4f}{ends} on {one.measure}{chance}"


def _facts(run: Run) -> list[tuple[str, str, str]]:
    """Name, value and link of what is known at a glance."""
    took = "" if run.seconds is None else f"{run.seconds:.1f} s"
    facts = [
        ("task", run.task, address("/runs", task=run.task)),
        ("dataset", run.dataset, address("/leaderboard", dataset=run.dataset)),
        ("model", run.model, address("/runs", model=run.model)),
        ("queries", f"{run.n_queries:,}" if run.n_queries else "", ""),
        ("began", run.created[:16].replace("T", " ") + " UTC", ""),
        ("took", took, ""),
        *(("tag", tag, address("/runs", tag=tag)) for tag in run.tags),
    ]
    return [fact for fact in facts if fact[1]]


def _made(run: Run) -> list[tuple[str, str]]:
    """How the run came about, and what it needs to be made again."""
    made = [
        ("command", shlex.join(("assay", *run.command)) if run.command else ""),
        ("folder", run.folder),
        ("signature", run.signature),
        ("settings", _spelled(run.config)),
        ("seeds", _spelled(run.seeds)),
        ("steps", ", ".join(f"{name} {took:.3g} s" for name, took in run.timings.items())),
        ("versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())),
        ("commit", run.git_commit),
        ("imported from", run.origin),
        ("uid", run.uid),
        *((f"data {file}", _fingerprint(mark)) for file, mark in run.data.items()),
    ]
    return [(name, text) for name, text in made if text]


def _spelled(settings: dict[str, Any]) -> str:
    """Settings, a line each; what was not set is not said."""
    unset: tuple[Any, ...] = (None, [], {}, "")
    given = {key: value for key, value in settings.items() if value not in unset}
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in given.items())


def _fingerprint(mark: Any) -> str:
    if isinstance(mark, dict) and "sha256" in mark:
        size = f"{mark['size']:,} bytes, " if isinstance(mark.get("size"), int) else ""
        return f"{size}sha256 {mark['sha256']}"
    return str(mark)


def _numbers(run: Run) -> Sheet:
    """Every aggregate, with its interval drawn."""
    ones = run.aggregates
    span = Span.around([0.0, *(end for one in ones for end in (one.value, one.low, one.high))])
    rows = tuple(_aggregate_row(one) for one in ones)
    columns = ("measure", "value", "from", "to", "chance", "ceiling", "average", "part", "queries",
               "empty", "missing", "tied")  # fmt: skip
    kept = [i for i, _ in enumerate(columns) if i < 4 or any(row[i].value for row in rows)]
    table = Table(tuple(columns[i] for i in kept), tuple(tuple(r[i] for i in kept) for r in rows))
    level = next((one.level for one in ones if one.level), None)
    return Sheet(
        "numbers", "Numbers", table, csv=address(f"/run/{run.id}.csv", table="numbers"),
        links=[{0: address(f"/run/{run.id}", measure=one.measure)} for one in ones],
        pictures=[strip(span, one.value, one.low, one.high, chance=one.chance) for one in ones],
        pictured=3, picture_head=f"{100 * level:g} % interval" if level else "interval",
    )  # fmt: skip


def _aggregate_row(one: Aggregate) -> tuple[Cell, ...]:
    numbers = (one.value, one.low, one.high, one.chance, one.ceiling)
    average = f"{one.average} by {one.by_column}" if one.by_column else one.average
    counts = (one.n, one.empty, one.missing, one.tied)
    return (
        Cell(one.measure), *(Cell(number, "fraction") for number in numbers), Cell(average),
        Cell(one.subset), *(Cell(count, "count") for count in counts),
    )  # fmt: skip
