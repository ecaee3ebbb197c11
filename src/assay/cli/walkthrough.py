"""Walking through commands in a folder of demo files: each is shown and then run."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import click

from assay.cli import options, output
from assay.cli.main import assay
from assay.cli.settings import option


def demo_option(what: str) -> Callable[[options.Decorated], options.Decorated]:
    """--demo DIR of a command, which its first lines look at."""
    return option(
        "--demo",
        type=options.output_folder,
        metavar="DIR",
        help=f"Only write {what} to DIR, and walk through commands on them.",
        section="Input",
        writes=True,
    )


def walk(folder: Path, steps: Mapping[str, Iterable[Iterable[str]]], *command: str) -> None:
    """Run the commands of each titled step in the folder; `command` stands before each."""
    started = Path.cwd()
    os.chdir(folder)
    try:
        for title, lines in steps.items():
            _print_title(title)
            for line in lines:
                _run_command(*command, *line)
    finally:
        os.chdir(started)
    output.narrate(f"The files are in {folder}.")


def _print_title(title: str) -> None:
    bold = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    click.echo("\n" + click.style(f"── {title}", bold=bold))


def _run_command(*arguments: str) -> None:
    click.echo(f"$ assay {shlex.join(arguments)}", color=False)
    sys.stdout.flush()
    assay.main(list(arguments), "assay", standalone_mode=False)
