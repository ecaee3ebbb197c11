"""`assay demo`: the commands at work on a small collection that Assay makes itself."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path

import click

from assay.cli import output

__all__ = ["command"]


@click.command("demo")
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
def command(folder: Path | None) -> None:
    """Show what Assay does, on a small collection that it makes itself.

    Three systems search 2,000 made-up documents for 50 queries. 'coarse' is 'dense' with its
    scores rounded to whole numbers, so that ties decide much of what it is worth. With FOLDER the
    files stay there.

    \b
    Examples:
      assay demo
      assay demo my-demo
    """
    if folder is not None:
        _show(folder)
        return
    with tempfile.TemporaryDirectory(prefix="assay-demo-") as made:
        _show(Path(made))


def _show(folder: Path) -> None:
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
    if folder.exists() and not str(folder).startswith(tempfile.gettempdir()):
        output.narrate(f"The files are in {folder}.")


def _step(title: str) -> None:
    bold = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    click.echo("\n" + click.style(f"── {title}", bold=bold))


def _run(*arguments: str) -> None:
    from assay.cli.group import assay

    click.echo(f"$ assay {shlex.join(arguments)}", color=False)
    sys.stdout.flush()
    assay.main(list(arguments), "assay", standalone_mode=False)
