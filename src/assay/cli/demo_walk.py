"""`assay demo --files`: the commands at work on run files that Assay makes itself."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click

from assay.cli import output

__all__ = ["walk_through"]


def walk_through(folder: Path) -> None:
    """Make the files of three made-up systems in a folder, and show the commands at work on them.

    'coarse' is 'dense' with its scores rounded to whole numbers, so that ties decide much of what
    it is worth.
    """
    from assay.demo import write_demo

    files = write_demo(folder)
    runs = [path.name for path in files.runs]
    started = Path.cwd()
    os.chdir(folder)
    try:
        _step("Three systems, one table. What would a random order score?")
        _run("eval", *runs, "--qrels", "qrels.txt", "--chance", "--n-docs", str(files.n_docs))
        _step("How much of 'coarse' is the order of tied documents?")
        for ties in ("best", "expected", "worst"):
            _run("eval", "coarse.run", "--qrels", "qrels.txt", "-m", "nDCG@10", "--ties", ties)
        _step("What in these files would change a number?")
        _run("check", "coarse.run", "qrels.txt")
        _step("Where does one number come from?")
        _run("explain", "dense.run", "--qrels", "qrels.txt", "--query", "q07", "-m", "nDCG@5")
    finally:
        os.chdir(started)
    output.narrate(f"The files are in {folder}.")


def _step(title: str) -> None:
    bold = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    click.echo("\n" + click.style(f"── {title}", bold=bold))


def _run(*arguments: str) -> None:
    from assay.cli.group import assay

    click.echo(f"$ assay {shlex.join(arguments)}", color=False)
    sys.stdout.flush()
    assay.main(list(arguments), "assay", standalone_mode=False)
