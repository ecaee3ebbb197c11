"""What `--save` does: results of a command become runs of a store."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import click

from assay import store as run_store
from assay.cli import output
from assay.cli.progress import listener
from assay.errors import AssayError
from assay.runs.record import RunRecord, fingerprint_files

if TYPE_CHECKING:
    from assay.store import Store

__all__ = ["Saving", "repeated_batch", "saving_runs"]

# The batch that `assay runs rerun` repeats, while it does.
repeated_batch: ContextVar[str] = ContextVar("repeated_batch", default="")

# Where things go does not belong to what was run, and a URL may hold a password.
_NOT_CONFIG: Final = ("save", "store", "tags", "dataset", "file", "named", "json_wanted")
_BETWEEN: Final = 1.0  # seconds from one word on progress to the next


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
            self.first = self._store.begin(RunRecord(self._name, **self._about))

    def runs_on(self, dataset: str) -> None:
        """What the data is called, unless --dataset says it; others see it from now on."""
        if self._store is not None and dataset and not self._about["dataset"]:
            self._about["dataset"] = dataset
            self._store.open_run(self.first).runs_on(dataset)

    def progress(self, done: int, total: int | None) -> None:
        """Let others see how far the run is, now and then; the work goes on if that fails."""
        now = time.perf_counter() - self._began
        if self._store is None or not total or now < self._told + _BETWEEN:
            return
        self._told = now
        with suppress(AssayError):
            self._store.open_run(self.first).progress(done, total)

    def refuse(self, why: str) -> None:
        """Say that this cannot be saved, if it was to be."""
        if self._store is not None:
            raise click.UsageError(f"--save: {why}.")

    def keep(self, records: Iterable[RunRecord], *files: str | None) -> None:
        """Store records, all at once; they are on disk when this returns.

        `files` were read for all of them, beside those that a record names itself.
        """
        if self._store is None:
            return
        seconds = time.perf_counter() - self._began
        made = fingerprint_files(
            one.but(
                **{**self._about, "config": {**self._about["config"], **one.config}},
                files=(*one.files, *files),
            )
            for one in records
        )
        runs = self._store.finish_together(self.first, made, seconds=seconds)
        self.kept = True
        shown = f"run {runs[0]}" if len(runs) == 1 else f"runs {runs[0]} to {runs[-1]}"
        output.narrate(f"saved as {shown} in {self._store.database.location}")


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
    with run_store.open(store) as opened:
        saving = Saving(opened, _describe_call(task, dataset or "", tags))
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


def _describe_call(task: str, dataset: str, tags: tuple[str, ...]) -> dict[str, Any]:
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
