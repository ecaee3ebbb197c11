"""What `--save` does: results of a command become runs of a store."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from assay.cli import output
from assay.cli.progress import listener
from assay.errors import AssayError

if TYPE_CHECKING:
    from assay.cli.scored import ScoredRun
    from assay.scores import Scores
    from assay.store import Aggregate, ShownQuery, Store
    from assay.tasks.codes_loss import CodeLoss, CodesReport
    from assay.tasks.crossmodal import LabelResults
    from assay.tasks.prediction import PredictionResult

__all__ = ["Result", "Saving", "repeated_batch", "saving_runs"]

# The batch that `assay runs rerun` repeats, while it does.
repeated_batch: ContextVar[str] = ContextVar("repeated_batch", default="")

# Where things go does not belong to what was run, and a URL may hold a password.
_NOT_CONFIG: Final = ("save", "store", "tags", "dataset", "file", "named", "json_wanted")
_BETWEEN: Final = 1.0  # seconds from one word on progress to the next


@dataclass(frozen=True)
class Result:
    """One result of a command, which becomes one run."""

    name: str
    scores: Scores
    files: Sequence[str | None] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    seeds: Mapping[str, Any] = field(default_factory=dict)
    chance: Mapping[str, float] | None = None
    ceiling: Mapping[str, float] | None = None
    aggregates: Sequence[Aggregate] = ()
    model: str = ""
    shown: Mapping[str, ShownQuery] | None = None
    details: Mapping[str, Any] | None = None
    timings: Mapping[str, float] | None = None
    clusters: str = ""
    drawing: Mapping[str, Any] | None = None


class Saving:
    """Stores results; without a store it does nothing."""

    def __init__(self, store: Store | None = None, about: Mapping[str, Any] | None = None) -> None:
        self._store = store
        self._about = dict(about or {})
        self._name = "" if store is None else str(click.get_current_context().info_name)
        self._began = time.perf_counter()
        self._told = -_BETWEEN
        self.first = 0
        self.kept = False

    @property
    def wanted(self) -> bool:
        """Whether results are stored at all."""
        return self._store is not None

    def begin(self) -> None:
        """Make a run that others see as running, until there are results."""
        if self._store is not None:
            from assay.store import About

            self.first = self._store.begin(About(name=self._name, **self._about))

    def runs_on(self, dataset: str) -> None:
        """What the data is called, unless --dataset says it; others see it from now on."""
        if self._store is not None and dataset and not self._about["dataset"]:
            from assay.store import RunningRun

            self._about["dataset"] = dataset
            RunningRun(self._store, self.first).runs_on(dataset)

    def progress(self, done: int, total: int | None) -> None:
        """Let others see how far the run is, now and then; the work goes on if that fails."""
        now = time.perf_counter() - self._began
        if self._store is None or not total or now < self._told + _BETWEEN:
            return
        from assay.store import RunningRun

        self._told = now
        with suppress(AssayError):
            RunningRun(self._store, self.first).progress(done, total)

    def refuse(self, why: str) -> None:
        """Say that this cannot be saved, if it was to be."""
        if self._store is not None:
            raise click.UsageError(f"--save: {why}.")

    def keep(self, results: Sequence[Result]) -> None:
        """Store results, all at once; they are on disk when this returns."""
        if self._store is None:
            return
        from assay.store import About
        from assay.store.environment import fingerprints
        from assay.store.numbers import Numbers

        seconds = time.perf_counter() - self._began
        # A group may be a column instead of a file, and files come with a name in front.
        named = dict.fromkeys(file for one in results for file in one.files if file)
        read = fingerprints(file for file in named if os.path.isfile(file))
        rows = []
        for one in results:
            about = {
                **self._about,
                "name": one.name,
                "model": one.model,
                "config": {**self._about["config"], **one.config},
                "seeds": one.seeds,
                "data": {file: read[file] for file in one.files if file in read},
            }
            numbers = Numbers.of(
                one.scores, aggregates=one.aggregates, chance=one.chance, ceiling=one.ceiling,
                shown=one.shown, details=one.details, timings=one.timings, clusters=one.clusters,
                drawing=one.drawing,
            )  # fmt: skip
            rows.append((About(**about), numbers))
        runs = self._store.finish_together(self.first, rows, seconds=seconds)
        self.kept = True
        shown = f"run {runs[0]}" if len(runs) == 1 else f"runs {runs[0]} to {runs[-1]}"
        output.narrate(f"saved as {shown} in {self._store.database.location}")

    def keep_scored(
        self,
        scored: Iterable[ScoredRun],
        *files: str | None,
        seeds: Mapping[str, Any] | None = None,
        clusters: str = "",
    ) -> None:
        """Runs that were scored against judgments."""
        self.keep(
            [
                Result(one.name, one.scores, (one.path, *files), seeds=seeds or {},
                       chance=one.chance, ceiling=one.ceiling, clusters=clusters)
                for one in scored
            ]
        )  # fmt: skip

    def keep_predictions(
        self, models: Mapping[str, Sequence[PredictionResult]], files: Sequence[str | None]
    ) -> None:
        """Models, each once for every seed."""
        if self._store is None:
            return
        from assay.store import Aggregate

        self.keep(
            [
                Result(
                    name if len(seeds) == 1 else f"{name} ({number})", one.scores, files,
                    config={"seed_number": number}, chance=one.uniform(), model=name,
                    aggregates=[Aggregate(key, value, average="classes", n=one.confusion.n)
                                for key, value in one.class_means().items()],
                )
                for name, seeds in models.items()
                for number, one in enumerate(seeds, 1)
            ]
        )  # fmt: skip

    def keep_directions(self, levels: Mapping[str, LabelResults], files: Sequence[str]) -> None:
        """Directions of label retrieval, for every level of labels."""
        if self._store is None:
            return
        self.keep(
            [
                Result(
                    name if len(levels) == 1 else f"{level}: {name}", one.scores, files,
                    config={"level": level, "direction": name}, chance=one.chance.mean(),
                    ceiling=one.ceiling.mean(),
                )
                for level, directions in levels.items()
                for name, one in directions.items()
            ]
        )  # fmt: skip

    def keep_codes(self, report: CodesReport, files: Sequence[str | None]) -> None:
        """Codes, the float vectors first; scored by the judgments, or by the float neighbours."""
        if self._store is None:
            return
        self.keep(
            [
                Result(
                    one.name, one.near if one.judged is None else one.judged, files,
                    config={"method": one.method, "bits": one.cost.bits,
                            "bytes_per_vector": one.cost.bytes_per_vector,
                            "relevant": "float neighbours" if one.judged is None else "judged"},
                    seeds={"seed": report.settings.seed},
                    aggregates=_likeness(report, one),
                    timings={"encode": one.cost.encode_seconds, "search": one.cost.search_seconds},
                )
                for one in report.codes
            ]
        )  # fmt: skip


def _likeness(report: CodesReport, one: CodeLoss) -> list[Aggregate]:
    """How like the float ranking a code ranks; what is scored already is left out."""
    from assay.store import Aggregate

    chance = {f"Overlap@{k}": report.chance(k) for k in report.settings.k}
    chance[f"RBO(p={report.settings.p:g})"] = report.chance_rbo
    near = set(map(str, one.near.measures))
    return [
        Aggregate(
            name, span.estimate, subset="float neighbours" if name in near else "", low=span.low,
            high=span.high, level=span.level, method=span.method, note=span.note,
            chance=chance.get(name), n=span.n,
        )
        for name, span in report.intervals[one.name].items()
        if one.judged is not None or name not in near
    ]  # fmt: skip


@contextmanager
def saving_runs(
    task: str, *, wanted: bool, store: str | None, dataset: str | None, tags: tuple[str, ...]
) -> Iterator[Saving]:
    """What a command saves with; the store is opened first, so that no work is done in vain."""
    given = {"--store": store, "--dataset": dataset, "--tag": tags}
    idle = [option for option, value in given.items() if value]
    if not wanted:
        if idle:
            raise click.UsageError(f"{idle[0]} changes nothing without --save. Add it.")
        yield Saving()
        return
    import assay.store

    with assay.store.open(store) as opened:
        saving = Saving(opened, _about(task, dataset or "", tags))
        saving.begin()
        heard = listener.set(saving.progress)
        try:
            yield saving
        except BaseException as error:
            if isinstance(error, click.ClickException):
                opened.delete(saving.first)  # a request that makes no sense is not a run
            elif not saving.kept:
                opened.fail(saving.first, error)
            raise
        finally:
            listener.reset(heard)


def _about(task: str, dataset: str, tags: tuple[str, ...]) -> dict[str, Any]:
    context = click.get_current_context()
    command = without_saving(context.meta.get("assay.arguments", (str(context.info_name),)))
    config = {key: value for key, value in context.params.items() if key not in _NOT_CONFIG}
    return {
        "task": task,
        "dataset": dataset or str(context.params.get("dataset_name") or ""),
        "tags": tags,
        "config": config,
        "command": command,
        "folder": os.getcwd(),
        "rerun_of": repeated_batch.get(),
    }


def without_saving(arguments: Sequence[str]) -> tuple[str, ...]:
    """The arguments without --save and --store.

    >>> without_saving(["eval", "a", "--save", "--store", "s.db", "--tag", "x"])
    ('eval', 'a', '--tag', 'x')
    """
    found = []
    rest = iter(arguments)
    for one in rest:
        if one == "--store":
            next(rest, None)
        elif one != "--save" and not one.startswith("--store="):
            found.append(one)
    return tuple(found)
