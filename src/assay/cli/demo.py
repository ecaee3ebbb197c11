"""`assay demo`: Which text model is better? Five systems search Python's own documentation."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from assay.cli import options, output
from assay.cli.bench import BenchReport
from assay.cli.commands import Command
from assay.cli.progress import system_bars
from assay.cli.saving import saving_runs
from assay.cli.walking import walk
from assay.errors import StorageError, need
from assay.io.collections import write_collection
from assay.models import EmbeddingCache
from assay.tasks.bench import disagreements, run_bench
from assay.tasks.demo import stdlib_collection
from assay.tasks.demo_files import write_files

if TYPE_CHECKING:
    from assay.io.collections import Collection
    from assay.tasks.bench import BenchResult

__all__ = ["command", "walk_through"]


def walk_through(folder: Path) -> None:
    """Write the files of the documentation to a folder; show commands at work on the runs.

    'coarse' is 'dense' with its scores rounded to whole numbers, so that ties decide much of
    its score.
    """
    files = write_files(folder)
    runs = [path.name for path in files.runs]
    judged, coarse = ("--qrels", "qrels.txt"), ("eval", "coarse.run", "--qrels", "qrels.txt")
    walk(
        folder,
        {
            "Three systems, one table. What would a random order score?": [
                ("eval", *runs, *judged, "--chance", "--n-docs", str(files.n_docs))
            ],
            "How much of 'coarse' is the order of tied documents?": [
                (*coarse, "-m", "nDCG@10", "--ties", ties) for ties in ("best", "expected", "worst")
            ],
            "What in these files would change a number?": [("check", "coarse.run", "qrels.txt")],
            "Where does one number come from?": [
                ("explain", "dense.run", *judged, "--query", "q07", "-m", "nDCG@5")
            ],
        },
    )


_MODELS: Final = ("bm25", "tfidf", "lsa:200", "wordllama")
_FUSIONS: Final = ("hybrid=rrf:bm25+wordllama",)
_NEEDED: Final = ("bm25s", "sklearn", "wordllama", "sqlalchemy", "alembic", "altair", "vl_convert")
_STORY: Final = (
    "Python's own documentation, searched in five ways. A query is the first line of a docstring "
    "of the standard library; the one relevant document is the rest of that docstring."
)


@click.command("demo", cls=Command)
@click.argument(
    "folder", type=options.output_folder, required=False, default="assay-demo", metavar="[FOLDER]"
)
@click.option(
    "--export",
    type=options.output_folder,
    metavar="DIR",
    help="Only write the collection to DIR, in BEIR's layout.",
)
@click.option(
    "--files",
    type=options.output_folder,
    metavar="DIR",
    help="Only write the files that the commands of the documentation use to DIR, and walk "
    "through eval, check and explain on them.",
)
def command(*, folder: str, export: str | None, files: str | None) -> None:
    """Which text model is better? Five systems search Python's own documentation.

    bm25, tfidf, lsa, wordllama and a fusion of two of them, in less than a minute, without any
    download: the collection is made of the docstrings of the standard library. Report, saved runs
    and vectors go to FOLDER (assay-demo).

    \b
    Examples:
      assay demo
      assay demo --export stdlib
      assay bench --corpus stdlib --model bm25
      assay demo --files my-demo
    """
    if export and files:
        raise click.UsageError("--export and --files exclude each other.")
    if files:
        walk_through(Path(files))
    elif export:
        _export(Path(export))
    else:
        _demo(Path(folder))


def _export(folder: Path) -> None:
    collection = stdlib_collection()
    write_collection(collection, folder)
    output.put(f"{folder}: {_size(collection)}; fingerprint {collection.fingerprint}", None)


def _size(collection: Collection) -> str:
    return f"{len(collection.doc_ids):,} documents, {len(collection.query_ids):,} queries"


def _demo(folder: Path) -> None:
    output.silence_logging()
    _introduce()
    _need_packages()
    _make_folder(folder)
    with saving_runs(
        "bench", wanted=True, store=str(folder / "assay.db"), dataset="stdlib", tags=("demo",)
    ) as saving:
        collection = stdlib_collection()
        _narrate_size(collection)
        result = _run(collection, folder)
        report = result.report(command="assay demo")
        saving.save(result.records())
    path = report.save(folder / "report.html")
    output.emit(BenchReport(result, report), "text", None, terminal=_print_on_terminal)
    _print_next_steps(result, folder, path)


def _need_packages() -> None:
    """Say at once, and once, what is not there."""
    for module in _NEEDED:
        need(module, "The demo", "demo")


def _introduce() -> None:
    if output.on_terminal():
        from assay.cli.bench.terminal import print_title

        print_title("Which text model is better?", _STORY)
    else:
        output.put(_STORY, None)
    sys.stdout.flush()  # before the work begins, also where somebody reads through a pipe


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {error.strerror or error}.") from error


def _narrate_size(collection: Collection) -> None:
    output.narrate(f"{collection.name}: {_size(collection)}")
    output.narrate("")


def _run(collection: Collection, folder: Path) -> BenchResult:
    cache = EmbeddingCache(folder / "cache", tell=output.narrate)
    with system_bars() as progress:
        return run_bench(
            collection,
            _MODELS,
            fusions=_FUSIONS,
            cache=cache,
            checkpoint=cache.folder,
            progress=progress,
        )


def _print_on_terminal(report: BenchReport) -> None:
    """Only the leaderboard and the costs."""
    from rich.console import Console

    from assay.cli.bench.terminal import print_costs, print_leaderboard

    console = Console(highlight=False, markup=False, emoji=False)
    print_leaderboard(console, report.result, report.board)
    print_costs(console, report.result)


def _program() -> str:
    """How this program is called from here."""
    name = Path(sys.argv[0])
    if name.name != "assay" or shutil.which("assay"):
        return "assay"
    return os.path.relpath(name)


def _print_next_steps(result: BenchResult, folder: Path, report: Path) -> None:
    """Where things are, and what to type next."""
    query = disagreements(result)[0][0]
    assay, store = _program(), shlex.quote(os.path.join(folder, "assay.db"))
    options = f"--store {store} --query {shlex.quote(query)}"
    steps = {
        "The report": f"{report}",
        "The saved runs": f"{assay} runs list --store {store}",
        "The same in a browser": f"{assay} serve --store {store} --open",
        "A query they disagree on": f"{assay} explain --saved {options}",
        "These documents as files, to try more models": f"{assay} demo --export stdlib",
        "Your own, in BEIR's layout or in files": f"{assay} bench --corpus FOLDER --model bm25",
    }
    if output.on_terminal():
        from assay.cli.bench.terminal import print_steps

        print_steps(steps)
        return
    output.put("\n" + "\n".join(f"{what}: {how}" for what, how in steps.items()), None)
