"""The leaderboard of a dataset: means with intervals, group letters, other measures and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from assay.comparison.verdict import describe_test
from assay.errors import AssayError
from assay.report.svg import CostPoint, cost_picture, interval_strip
from assay.stats.ranks import split_letters
from assay.store import Run, Store
from assay.store.overviews import RunCosts, read_costs, read_means
from assay.store.run import names_of
from assay.store.summaries import (
    RunMean,
    find_means,
    list_datasets,
    list_measures,
    query_checksums,
)
from assay.tables.svg import Scale
from assay.tables.table import Cell, Table
from assay.web.costs import COSTS
from assay.web.moments import exact_moment, format_moment
from assay.web.page import PageRequest, PageRoute, WebPage
from assay.web.page_table import PageTable, Paging
from assay.web.params import address, choose_dataset, choose_measure
from assay.web.score_cache import MOST_COMPARED, Pending

__all__ = ["ROUTE", "leaderboard_page"]

_MOST_VALUES: Final = 500_000  # runs × queries whose letters take seconds, not minutes
_OTHERS: Final = 3  # measures beside the one that ranks, unless they are chosen
_KINDS: Final = {"newest": "the newest run of each name", "all": "all runs"}


def leaderboard_page(request: PageRequest) -> WebPage:
    """Runs of one dataset on one measure, best first."""
    with request.store.database.reading() as connection:
        boards = list_datasets(connection)
        dataset = choose_dataset(request.params, [name for name, _, _ in boards])
        measures = list_measures(connection, dataset=dataset, status="finished")
        measure = choose_measure(request.params, measures)
        rows = find_means(connection, measure, dataset=dataset) if measure else []
        kind = request.params.get_choice("of", _KINDS, "newest")
        ranked = _rank(rows, newest=kind == "newest")
        ids = [one.id for one in ranked]
        queries = set(query_checksums(connection, ids).values())
        also = _choose_others(request, measures, measure)
        means, costs = read_means(connection, ids, also), read_costs(connection, ids)
    found = _find_letters(request, ranked, measure)
    letters = found.by_run
    entries = [
        _Entry(place, one, letters.get(one.id, ""), means.get(one.id, {}), costs.get(one.id))
        for place, one in enumerate(ranked, 1)
    ]
    wanted = request.params.get("named_like")
    shown = [one for one in entries if wanted.casefold() in one.run.name.casefold()]
    paging = Paging.of(request.params, request.path, len(shown))
    board = _Board(measure, also, entries, bool(letters))
    data = {
        "dataset": dataset,
        "measure": measure,
        "also": also,
        "of": kind,
        "measures": measures,
        "datasets": [{"dataset": n, "runs": number, "last": last} for n, number, last in boards],
        "total": len(shown),
        "number": paging.number,
        "letters_note": found.note,
        "query_sets": len(queries),
        "runs": [one.to_dict() for one in shown[paging.rows]],
    }
    title = f"Leaderboard of {dataset or 'runs without a dataset'}"
    return WebPage(
        "leaderboard",
        title,
        data,
        [board.page_table(request, shown[paging.rows], paging)],
        {
            "kinds": _KINDS,
            "named_like": wanted,
            "chosen": bool(request.params.get_all("also")),
            "note": found.note,
            "retry_after": found.retry_after,
            "compare": _compare_link(found.family, measure),
            "mixed_conventions": len({one.conventions for one in ranked}) > 1,
            **_cost_context(request, entries, measure),
        },
        {"leaderboard": lambda: board.table(shown)},
    )


def _choose_others(request: PageRequest, measures: Sequence[str], measure: str) -> list[str]:
    """The measures beside the one that ranks: those of the address, else the first few."""
    wanted = request.params.get_all("also")
    if not wanted:
        return [name for name in measures if name != measure][:_OTHERS]
    return [name for name in measures if name in wanted and name != measure]


@dataclass(frozen=True)
class _Entry:
    """A run on the board: its place, letters, other means and costs."""

    place: int
    run: RunMean
    letters: str
    means: dict[str, float | None]
    costs: RunCosts | None

    def cost(self, key: str) -> float | None:
        """One of the costs, if it is known."""
        found: float | None = getattr(self.costs, key, None)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        costs = None if self.costs is None else asdict(self.costs)
        more = {"letters": self.letters, "means": self.means, "costs": costs}
        return {**self.run.to_dict(), "place": self.place, **more}


def _rank(rows: Sequence[RunMean], *, newest: bool) -> list[RunMean]:
    """Best first; of runs with the same name, the newest or all."""
    found = list(rows)  # the newest first
    if newest:
        found = list({(one.name, one.model): one for one in reversed(found)}.values())
    return sorted(found, key=lambda one: (one.value is None, -(one.value or 0.0), -one.id))


@dataclass(frozen=True)
class _Letters:
    """Group letters by run, a note on them, seconds until they are ready, and who was compared."""

    by_run: dict[int, str] = field(default_factory=dict)
    note: str = ""
    retry_after: int = 0
    family: tuple[int, ...] = ()


def _find_letters(request: PageRequest, ranked: Sequence[RunMean], measure: str) -> _Letters:
    """The letters that the page of a comparison shows for the same runs."""
    runs, left_out = _family(request.store, ranked, measure)
    ids = tuple(run.id for run in runs)
    if len(runs) < 2:
        return _Letters(note=left_out)
    if len(runs) * max(run.n_queries for run in runs) > _MOST_VALUES:
        return _Letters(note="Compare runs to see which of them are separable.", family=ids)
    names = names_of(runs)
    try:
        found = request.cache.comparison(
            request.store, runs, names, measure=measure, timeout=request.timeout
        )
    except AssayError as error:
        return _Letters(note=f"No group letters: {error}", family=ids)
    if isinstance(found, Pending):
        return _Letters({}, "Group letters are being computed.", found.retry_after, ids)
    own = dict(zip(names, ids, strict=True))
    letters = {own[one.name]: one.letters for one in found.standings_on(measure)}
    unit = "" if found.settings.by is None else f", whole groups by {found.settings.by}"
    how = f"{describe_test(found.settings, len(found.pairs))}{unit}"
    note = f"Runs that share a letter are not separable ({how}: {found.family}).{left_out}"
    return _Letters(letters, note, 0, ids)


def _family(store: Store, ranked: Sequence[RunMean], measure: str) -> tuple[list[Run], str]:
    """The runs to compare with each other, best first, and a sentence on those left out.

    They follow the same conventions on the same queries; a model behind an index is to be compared
    with its own exact search, and not with other models.
    """
    known = [one for one in ranked if one.value is not None]
    usual = _most_common(one.conventions for one in known)
    alike = [one for one in known if one.conventions == usual]
    best = [one.id for one in alike[:MOST_COMPARED]]
    stored = {run.id: run for run in store.runs(id=best, measures=[measure])} if best else {}
    runs = [stored[id] for id in best if id in stored]
    models = [run for run in runs if not run.config.get("index_of")]
    asked = _most_common(run.query_set for run in models if run.query_set)
    family = [run for run in models if run.query_set in ("", asked)]
    numbers = {
        "of other conventions": len(known) - len(alike),
        f"beyond the best {MOST_COMPARED}": len(alike) - len(best),
        "behind an index": len(runs) - len(models),
        "of other query sets": len(models) - len(family),
    }
    words = ", ".join(f"{number:,} {what}" for what, number in numbers.items() if number)
    return family, f" Left out: {words}." if words else ""


def _most_common(values: Iterable[str]) -> str:
    """The value that most have; of equally many the first."""
    return next((value for value, _ in Counter(values).most_common(1)), "")


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


class _Board:
    """The table of a leaderboard: the columns that say something, in the order of their weight."""

    def __init__(
        self, measure: str, also: Sequence[str], entries: Sequence[_Entry], lettered: bool
    ) -> None:
        self.measure, self.also, self.entries, self.lettered = measure, also, entries, lettered
        columns = {name: [one.means.get(name) for one in entries] for name in also}
        self._top = {name: _largest(values) for name, values in columns.items()}
        self._costs = [
            key for key in COSTS if _largest(one.cost(key) for one in entries) is not None
        ]
        self._models = any(one.run.model not in ("", one.run.name) for one in entries)

    def table(self, entries: Sequence[_Entry]) -> Table:
        """Some rows of it."""
        letters = ["group letters"] if self.lettered else []
        costs = [COSTS[key].head for key in self._costs]
        rest = ("chance", "queries", "place", *(["model"] if self._models else []), "run", "began")
        columns = ("name", self.measure, *letters, *self.also, *costs, "from", "to", *rest)
        return Table(columns, tuple(self._row(one) for one in entries))

    def _row(self, one: _Entry) -> tuple[Cell, ...]:
        run = one.run
        means = [(one.means.get(name), self._top[name]) for name in self.also]
        return (
            Cell(run.name),
            Cell(run.value, "fraction"),
            *([Cell(one.letters or None)] if self.lettered else []),
            *(Cell(value, "fraction", value is not None and value == top) for value, top in means),
            *(Cell(one.cost(key), "fraction") for key in self._costs),
            Cell(run.low, "fraction"),
            Cell(run.high, "fraction"),
            Cell(run.chance, "fraction"),
            Cell(run.n, "count"),
            Cell(one.place, "count"),
            *([Cell(run.model)] if self._models else []),
            Cell(run.id, "count"),
            Cell(exact_moment(run.created)),
        )

    def page_table(
        self, request: PageRequest, entries: Sequence[_Entry], paging: Paging
    ) -> PageTable:
        """Some rows with their intervals drawn."""
        table, runs = self.table(entries), [one.run for one in entries]
        ends = [end for one in runs for end in (one.value, one.low, one.high)]
        scale = Scale.around(ends).extend(one.chance for one in runs)
        level = next((one.level for one in runs if one.level), None)
        place = {name: i for i, name in enumerate(table.columns)}
        forms = {place[COSTS[key].head]: COSTS[key].form for key in self._costs}
        return PageTable(
            "leaderboard",
            f"{self.measure}, best first",
            table,
            csv=request.params.address(f"{request.path}.csv", page=None),
            links=[{0: address(f"/run/{one.id}", measure=self.measure)} for one in runs],
            pictures=[
                interval_strip(
                    scale,
                    one.run.value,
                    one.run.low,
                    one.run.high,
                    chance=one.run.chance,
                    first=self._is_first(one),
                )
                for one in entries
            ],
            picture_after=1 + self.lettered,
            picture_head=f"{100 * level:g} % interval" if level else "interval",
            formats={**forms, place["began"]: format_moment},
            run_ids=[one.id for one in runs],
            run_labels=[f"Compare run {one.id}: {one.name}" for one in runs],
            paging=paging,
        )

    def _is_first(self, one: _Entry) -> bool:
        """Whether a run shares a letter with the best one."""
        best = split_letters(self.entries[0].letters)
        return bool(set(best) & set(split_letters(one.letters)))


def _cost_context(request: PageRequest, entries: Sequence[_Entry], measure: str) -> dict[str, Any]:
    """The picture of quality against a cost, and the costs to choose from."""
    points = {key: _cost_points(entries, key, measure) for key in COSTS}
    known = [key for key in COSTS if len(points[key]) > 1]
    if not known:
        return {"costs": [], "cost": "", "cost_chart": ""}
    cost = request.params.get_choice("cost", COSTS, known[0])
    chart = cost_picture(points[cost], measure, COSTS[cost].axis, COSTS[cost].write)
    return {"costs": [(key, COSTS[key].axis) for key in known], "cost": cost, "cost_chart": chart}


def _cost_points(entries: Sequence[_Entry], key: str, measure: str) -> list[CostPoint]:
    points = []
    for one in entries[:MOST_COMPARED]:
        value = None if one.costs is None else COSTS[key].of(one.costs)
        if value and one.run.value is not None:
            href = address(f"/run/{one.run.id}", measure=measure)
            ends = (one.run.low, one.run.high)
            points.append(CostPoint(one.run.name, value, one.run.value, *ends, href))
    return points


def _compare_link(family: Sequence[int], measure: str) -> str:
    return address("/compare", run=list(family), measure=measure) if len(family) > 1 else ""


ROUTE: Final = PageRoute("/leaderboard", leaderboard_page, menu="Leaderboard", position=2)
