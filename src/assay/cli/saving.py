"""What `--save` does: results of a command become runs of a store."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import click

from assay.cli import output
from assay.cli.settings import facts_of
from assay.core.on_demand import OnDemand
from assay.core.progress import tell
from assay.errors import AssayError, UsageError
from assay.io.streams import as_typed
from assay.plugins import find_hook

if TYPE_CHECKING:
    from assay.runs.record import RunRecord, fingerprint_files
else:
    RunRecord = OnDemand("assay.runs.record").RunRecord
    fingerprint_files = OnDemand("assay.runs.record").fingerprint_files


# The batch that `assay runs rerun` repeats, while it does.
repeated_batch: ContextVar[str] = ContextVar("repeated_batch", default="")

_INTERVAL: Final = 1.0  # seconds between two reports of progress


class Saving:
    """Stores results; without a store it does nothing."""

    def __init__(
        self,
        store: Any = None,
        run: Any = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self._store = store
        self._run = run
        self._about = dict(about or {})
        self._began = time.perf_counter()
        self._reported = -_INTERVAL
        self.saved = False

    @property
    def wanted(self) -> bool:
        """Whether results are stored at all."""
        return self._store is not None

    def set_name(self, name: str) -> None:
        """The name that the first of the runs will have; others see it from now on."""
        if self._run is not None:
            self._run.set_name(name)

    def set_dataset(self, dataset: str) -> None:
        """The name of the dataset, unless --dataset says it; others see it from now on."""
        if self._run is not None and dataset and not self._about["dataset"]:
            self._about["dataset"] = dataset
            self._run.set_dataset(dataset)

    @property
    def listener(self) -> Callable[..., None] | None:
        """What long work calls with (done, total) and what it does now, for others to see."""
        return None if self._run is None else self._report_progress

    def _report_progress(self, done: int, total: int | None, now: str = "") -> None:
        """Now and then; the work goes on if that fails."""
        moment = time.perf_counter() - self._began
        if self._run is None or not total or moment < self._reported + _INTERVAL:
            return
        self._reported = moment
        with suppress(AssayError):
            self._run.progress(done, total, now)

    def refuse(self, why: str) -> None:
        """Say that this cannot be saved, if it was to be."""
        if self._store is not None:
            raise click.UsageError(f"--save: {why}.")

    def save(self, records: Iterable[RunRecord], *files: str | None) -> None:
        """Store records, all at once; they are on disk when this returns.

        `files` were read for all of them, beside those that a record names itself.
        """
        if self._store is None or self._run is None:
            return
        seconds = time.perf_counter() - self._began
        finished = fingerprint_files(
            (
                record.but(
                    **{**self._about, "config": {**self._about["config"], **record.config}},
                    files=(*record.files, *files),
                )
                for record in records
            ),
            output.digest_inputs,
        )
        tell("saving", 0)
        runs = self._store.finish_together(self._run, finished, seconds=seconds)
        self.saved = True
        named = f"run {runs[0]}" if len(runs) == 1 else f"runs {runs[0]} to {runs[-1]}"
        output.narrate(f"saved as {named} in {self._store.database.location}")


@contextmanager
def saving_runs(
    task: str, *, wanted: bool, store: str | None, dataset: str | None, tags: tuple[str, ...]
) -> Iterator[Saving]:
    """What a command saves with; the store is opened first, so that no work is done in vain."""
    values = {"--store": store, "--dataset": dataset, "--tag": tags}
    idle = [option for option, value in values.items() if value]
    if not wanted:
        if idle:
            raise click.UsageError(f"{idle[0]} changes nothing without --save. Add it.")
        yield Saving()
        return
    with find_hook("open_store")(store) as opened:
        about = _describe_call(task, dataset or "", tags)
        name = str(click.get_current_context().info_name)
        run = opened.begin(RunRecord(name, **about))  # others see it as running
        saving = Saving(opened, run, about)
        try:
            yield saving
        except BaseException as error:
            if isinstance(error, click.ClickException | UsageError) and not saving.saved:
                opened.delete(run.id)  # a request that makes no sense is not a run
            elif not saving.saved:
                run.fail(error)
            raise


def _describe_call(task: str, dataset: str, tags: tuple[str, ...]) -> dict[str, Any]:
    context = click.get_current_context()
    typed = context.meta.get("assay.arguments", (str(context.info_name),))
    command = output.without_options(typed, {"--save": False, "--store": True})
    # Where results go does not belong to what was run, and a URL may hold a password.
    aside = {name for name, facts in facts_of(context.command) if facts.aside}
    params = context.params.items()
    config = {key: as_typed(value) for key, value in params if key not in aside}
    return {
        "task": task,
        "dataset": dataset or str(context.params.get("dataset_name") or ""),
        "tags": tags,
        "config": config,
        "command": command,
        "folder": os.getcwd(),
        "rerun_of": repeated_batch.get(),
    }
