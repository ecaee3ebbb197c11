"""Running the command of a stored run again, and seeing whether the same numbers come out."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
import numpy as np

from assay.cli import output
from assay.cli.main import COMMANDS, assay
from assay.cli.saving import repeated_batch
from assay.errors import StorageError, UsageError
from assay.io.fingerprints import fingerprints

if TYPE_CHECKING:
    from assay.store import Run, Store

__all__ = ["rerun"]


def rerun(store: Store, run: Run, *, trusted: bool) -> int:
    """Repeat the command in its folder, save its runs, and compare them with the old ones.

    Gives 0 if every value has the same bits, else 1.
    """
    _refuse_unfit(run, trusted)
    place = _place(store)
    with _inside(run.folder):
        changed = _changed(run)
        for file in changed:
            output.narrate(f"{file} has changed since run {run.id}")
        _call([*run.command, "--save", "--store", place], run.batch)
    old = {one.name: one for one in store.runs(batch=run.batch, status="finished")}
    newest = store.runs(rerun_of=run.batch, limit=1)
    new = store.runs(batch=newest[0].batch, status="finished") if newest else []
    same = [_verdict(old[one.name], one) for one in reversed(new) if one.name in old]
    return 0 if same and all(same) else 1


def _refuse_unfit(run: Run, trusted: bool) -> None:
    if not run.command:
        raise UsageError(f"Run {run.id} was not saved by a command: there is nothing to repeat.")
    if not _can_save(run.command):
        raise UsageError(
            f"Run {run.id} was saved by {run.command[0]!r}, which is not repeated; only commands "
            "with --save are."
        )
    words = shlex.join(("assay", *run.command))
    if run.origin and not trusted:
        raise UsageError(
            f"Run {run.id} was imported from {run.origin}. Its command reads and may write files: "
            f"{words}. Repeat it with --yes if you trust it."
        )
    output.narrate(f"repeating: {words}")


def _can_save(arguments: Sequence[str]) -> bool:
    """Whether the command has --save: a stored one is data, and may come from anybody's file."""
    name, *rest = arguments
    context = click.Context(assay)
    command = assay.get_command(context, name) if name in COMMANDS else None
    if isinstance(command, click.Group):
        command = command.get_command(context, rest[0]) if rest else None
    return command is not None and any(one.name == "save" for one in command.params)


def _place(store: Store) -> str:
    location = store.database.location
    if location.url is not None:
        return location.url.render_as_string(hide_password=False)
    return os.path.abspath(str(location.file))


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    if folder and not os.path.isdir(folder):
        raise StorageError(f"The folder of the run, {folder}, is not there any more.")
    with contextlib.chdir(folder or "."):
        yield


def _changed(run: Run) -> list[str]:
    files = [file for file in run.data if os.path.isfile(file)]
    now = fingerprints(files)
    return [file for file, mark in run.data.items() if now.get(file) != mark]


def _call(arguments: list[str], batch: str) -> None:
    token = repeated_batch.set(batch)
    try:
        with contextlib.suppress(click.exceptions.Exit):
            assay.main(arguments, "assay", standalone_mode=False)
    finally:
        repeated_batch.reset(token)


def _verdict(old: Run, new: Run) -> bool:
    left, right = old.scores(), new.scores()
    same = (
        left.measures == right.measures
        and left.query_ids == right.query_ids
        and left.values.tobytes() == right.values.tobytes()
    )
    if same:
        output.narrate(f"{new.name}: run {new.id} has the same values as run {old.id}, bit by bit")
        return True
    if left.measures == right.measures and left.query_ids == right.query_ids:
        apart = np.nanmax(np.abs(left.values - right.values), initial=0.0)
        output.narrate(f"{new.name}: run {new.id} differs from run {old.id} by up to {apart:.3g}")
    else:
        output.narrate(f"{new.name}: run {new.id} has other measures or queries than {old.id}")
    return False
