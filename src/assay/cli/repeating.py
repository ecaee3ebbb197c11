"""Commands that run commands: a stored one is repeated, those of a demo are shown and then run.

A store may come from anybody. So the models, indexes, functions and addresses of its commands need
the consent that a config file needs, and a command that writes files, or was imported, `--yes`.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from assay.cli import options, output
from assay.cli.commands import REPEATED
from assay.cli.main import assay, find_command
from assay.cli.options import repeated_consent
from assay.cli.settings import facts_of, option
from assay.core.specs import Consent
from assay.errors import UsageError
from assay.io.plain_data import parse_toml, read_config_text
from assay.plugins import load_target


class StoredCommand:
    """The arguments of a stored command, parsed as if they were typed, but not run."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.name, self._context = _parse(list(arguments))
        self._params = self._context.params
        self._facts = dict(facts_of(self._context.command))

    @property
    def saves(self) -> bool:
        """Whether the command has --save."""
        return command_saves(self._context.command)

    @property
    def verified(self) -> bool:
        """Whether its result can be computed again from its inputs alone."""
        return bool(getattr(self._context.command, "verified", False))

    def run(self, consent: Consent, **params: Any) -> None:
        """Run it here, without its output files and workers, and with these options changed."""
        away = {name for name, facts in self._facts.items() if facts.writes}
        away |= {"file", "save", "store", "dataset", "tags", "where", "workers"}
        for name in away & {*self._params}:
            self._params[name] = () if isinstance(self._params[name], tuple) else None
        self._params.update(params)
        token = repeated_consent.set(consent)
        try:
            with self._context, suppress(click.exceptions.Exit):
                self._context.command.invoke(self._context)
        finally:
            repeated_consent.reset(token)

    @property
    def resamples(self) -> int:
        """Return its number of resamples."""
        return int(self._params.get("resamples") or 0)

    def texts(self) -> list[str]:
        """Return the texts of all its arguments and options."""
        return _texts(list(self._params.values()))

    def named_texts(self) -> Iterator[str]:
        """Yield the texts and paths that its files name in turn: config files, manifests."""
        for name, facts in self._facts.items():
            if facts.names:
                for file in _texts(self._params.get(name)):
                    yield from load_target(facts.names)(file)

    def writes(self) -> list[str]:
        """Return its output files and folders."""
        values = [self._params.get(name) for name, facts in self._facts.items() if facts.writes]
        return [text for value in values for text in _texts(value)]

    def check(self, consent: Consent, place: str) -> None:
        """Refuse code and endpoints that are not allowed."""
        params = self._params
        if params.get("save") or params.get("store"):
            raise UsageError(f"{place} names a store. Type the command yourself.")
        for name, facts in self._facts.items():
            texts = _texts(params.get(name))
            if facts.allow and texts:
                load_target(facts.allow)(texts, params, consent, place)
            elif not facts.aside:
                for address in (text for text in texts if "://" in text):
                    if "***" in address:
                        raise UsageError(
                            f"{place} reads {address}, whose secret was not stored. Type the "
                            "command yourself."
                        )
                    consent.check_endpoint(address, place)


def _parse(arguments: list[str]) -> tuple[str, click.Context]:
    """Parse the name of a command with --save, and its options."""
    name, command, rest, context = _find(arguments)
    if command is None or not (command_saves(command) or getattr(command, "verified", False)):
        raise UsageError(f"Cannot repeat {name!r}, which has no --save. Type it yourself.")
    try:
        return name, command.make_context(name, rest, parent=context)
    except click.exceptions.Exit:
        raise UsageError(f"The stored {name} only prints its help. Name another run.") from None


def _find(arguments: list[str]) -> tuple[str, click.Command | None, list[str], click.Context]:
    """Return the name of the command in some arguments, the command, and what follows."""
    context = click.Context(assay, info_name="assay", **assay.context_settings)
    context.meta[REPEATED] = True
    name, rest = arguments[0] if arguments else "", arguments[1:]
    command = assay.get_command(context, name) if find_command(name) else None
    if isinstance(command, click.Group):
        name = f"{name} {rest[0]}" if rest else name
        command = command.get_command(context, rest[0]) if rest else None
        rest = rest[1:]
    return name, command, rest, context


def written_options(arguments: Sequence[str]) -> set[str]:
    """Return the names of the options by which a stored command writes files."""
    command = _find(list(arguments))[1]
    return {name for name, facts in facts_of(command) if facts.writes} if command else set()


def texts_of_config(file: str) -> list[str]:
    """Return the texts of a config file."""
    return _texts(parse_toml(read_config_text(file), file))


def _texts(value: Any) -> list[str]:
    """Return the texts of an option that may be given once or many times."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(value, tuple | list | dict):
        return [text for part in parts for text in _texts(part)]
    return []


def command_saves(command: click.Command) -> bool:
    """Tell whether a command has --save."""
    return any(parameter.name == "save" for parameter in command.params)


# Walking through commands in a folder of demo files


# Of a command whose first lines look at it.
demo_option = option(
    "--demo DIR",
    type=options.output_folder,
    help="Write example files to DIR and walk through commands.",
    section="Input",
    writes=True,
)


def walk(folder: Path, steps: Mapping[str, Iterable[Iterable[str]]], *command: str) -> None:
    """Run the commands of each titled step in the folder; `command` stands before each."""
    started = Path.cwd()
    os.chdir(folder)
    try:
        for title, lines in steps.items():
            bold = sys.stdout.isatty() and "NO_COLOR" not in os.environ
            click.echo("\n" + click.style(f"── {title}", bold=bold))
            for line in lines:
                words = [*command, *line]
                click.echo(f"$ assay {shlex.join(words)}", color=False)
                sys.stdout.flush()
                assay.main(words, "assay", standalone_mode=False)
    finally:
        os.chdir(started)
    output.log(f"The files are in {folder}.")
