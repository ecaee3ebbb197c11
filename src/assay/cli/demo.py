"""`assay demo`: five ways to search Python's own documentation, compared in less than a minute."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from assay.cli import output

if TYPE_CHECKING:
    from assay.io.collections import Collection
    from assay.report.contents import Report
    from assay.tasks.bench_result import BenchResult

__all__ = ["command"]

_MODELS: Final = ("bm25", "tfidf", "lsa:200", "wordllama")
_FUSIONS: Final = ("hybrid=rrf:bm25+wordllama",)
_NEEDED: Final = ("bm25s", "sklearn", "wordllama", "sqlalchemy", "alembic", "altair", "vl_convert")
_STORY: Final = (
    "Python's own documentation, searched in five ways. A query is the first line of a docstring "
    "of the standard library; the one relevant document is the rest of that docstring."
)


@click.command("demo")
@click.argument("folder", required=False, default="assay-demo", metavar="[FOLDER]")
@click.option("--export", metavar="DIR",
              help="Only write the collection to DIR, in BEIR's layout.")  # fmt: skip
@click.option("--files", metavar="DIR",
              help="Only write the run files that the documentation uses to DIR, and walk through "
              "eval, check and explain on them.")  # fmt: skip
def command(*, folder: str, export: str | None, files: str | None) -> None:
    """Which text model is better? Five contestants search Python's own documentation.

    bm25, tfidf, lsa, wordllama and a fusion of two of them, in less than a minute, without any
    download: the collection is made of the docstrings of the standard library. Report, saved runs
    and vectors go to FOLDER (assay-demo).

    \b
    Examples:
      assay demo
      assay demo --export stdlib       then: assay bench --corpus stdlib --model bm25
      assay demo --files my-demo
    """
    if export and files:
        raise click.UsageError("--export and --files exclude each other.")
    if files:
        from assay.cli.demo_walk import walk_through

        walk_through(Path(files))
    elif export:
        _export(Path(export))
    else:
        _demo(Path(folder))


def _export(folder: Path) -> None:
    from assay.io.beir import write_collection

    collection = _collected()
    write_collection(collection, folder)
    output.put(f"{folder}: {_size(collection)}; fingerprint {collection.fingerprint}", None)


def _collected() -> Collection:
    from assay.tasks.stdlib_collection import stdlib_collection

    return stdlib_collection()


def _size(collection: Collection) -> str:
    return f"{len(collection.doc_ids):,} documents, {len(collection.query_ids):,} queries"


def _demo(folder: Path) -> None:
    from assay.cli.bench_saved import as_results
    from assay.cli.quiet import hush_packages
    from assay.cli.saved import saving_runs

    hush_packages()
    _introduce()
    _need_packages()
    _make(folder)
    with saving_runs(
        "bench", wanted=True, store=str(folder / "assay.db"), dataset="stdlib", tags=("demo",)
    ) as saving:
        collection = _collected()
        _tell_size(collection)
        result = _run(collection, folder)
        report = result.report(command="assay demo")
        saving.keep(as_results(result, ()))
    path = report.save(folder / "report.html")
    _show(result, report)
    _next_steps(result, folder, path)


def _need_packages() -> None:
    """Say at once, and once, what is not there."""
    from assay.io.packages import need

    for module in _NEEDED:
        need(module, "The demo", "demo")


def _introduce() -> None:
    if output.on_terminal():
        from assay.cli.bench_terminal import print_title

        print_title("Which text model is better?", _STORY)
    else:
        output.put(_STORY, None)
    sys.stdout.flush()  # before the work begins, also where somebody reads through a pipe


def _make(folder: Path) -> None:
    from assay.errors import StorageError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {error.strerror or error}.") from error


def _tell_size(collection: Collection) -> None:
    output.narrate(f"{collection.name}: {_size(collection)}")
    output.narrate("")


def _run(collection: Collection, folder: Path) -> BenchResult:
    from assay.cli.bench_progress import bench_bars
    from assay.encoders import EmbeddingCache
    from assay.tasks.bench import run_bench

    cache = EmbeddingCache(folder / "cache", tell=output.narrate)
    with bench_bars() as watch:
        return run_bench(
            collection, _MODELS, fusions=_FUSIONS, cache=cache, parts=cache.folder, watch=watch
        )


def _show(result: BenchResult, report: Report) -> None:
    if output.on_terminal():
        from rich.console import Console

        from assay.cli.bench_terminal import print_costs, print_leaderboard

        console = Console(highlight=False, markup=False, emoji=False)
        print_leaderboard(console, result, report)
        print_costs(console, result)
        return
    from assay.report.page import text_page

    output.put(text_page(result.page(report)), None)


def _program() -> str:
    """How this program is called from here."""
    name = Path(sys.argv[0])
    if name.name != "assay" or shutil.which("assay"):
        return "assay"
    return os.path.relpath(name)


def _next_steps(result: BenchResult, folder: Path, report: Path) -> None:
    """Where things are, and what to type next."""
    from assay.tasks.bench_found import disagreements

    query = disagreements(result)[0][0]
    assay, store = _program(), shlex.quote(os.path.join(folder, "assay.db"))
    asked = f"--store {store} --query {shlex.quote(query)}"
    steps = {
        "The report": f"{report}",
        "The saved runs": f"{assay} runs list --store {store}",
        "The same in a browser": f"{assay} serve --store {store} --open",
        "A query they disagree on": f"{assay} explain --saved {asked}",
        "These documents as files, to try more models": f"{assay} demo --export stdlib",
        "Your own, in BEIR's layout or in files": f"{assay} bench --corpus FOLDER --model bm25",
    }
    if output.on_terminal():
        from assay.cli.bench_terminal import print_steps

        print_steps(steps)
        return
    output.put("\n" + "\n".join(f"{what}: {how}" for what, how in steps.items()), None)
