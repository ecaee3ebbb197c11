"""Compare five text search systems on Python's own documentation."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from assay.bench.command import BenchReport, system_bars
from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.output import saving_runs
from assay.cli.repeating import walk
from assay.cli.settings import argument, option
from assay.core.on_demand import OnDemand
from assay.errors import need
from assay.io.streams import make_folder

if TYPE_CHECKING:
    from assay import bench
    from assay.bench import BenchResult
    from assay.io import collections, demo_collection, writers
    from assay.io.collections import Collection
    from assay.models import cache
    from assay.search import demo_texts
else:
    bench = OnDemand("assay.bench")
    cache = OnDemand("assay.models.cache")
    collections = OnDemand("assay.io.collections")
    demo_collection = OnDemand("assay.io.demo_collection")
    demo_texts = OnDemand("assay.search.demo_texts")
    writers = OnDemand("assay.io.writers")


def walk_through(folder: Path) -> None:
    """Write the files of the documentation to a folder; show commands at work on the runs.

    'coarse' is 'dense' with its scores rounded to whole numbers, so that ties decide much of
    its score.
    """
    files = demo_collection.write_files(folder)
    runs = [path.name for path in files.runs]
    judged, coarse = ("--qrels", "qrels.txt"), ("eval", "coarse.run", "--qrels", "qrels.txt")
    walk(
        folder,
        {
            "Three systems in one table, with chance level": [
                ("eval", *runs, *judged, "--chance", "--n-docs", str(files.n_docs))
            ],
            "Effect of tied documents on 'coarse'": [
                (*coarse, "-m", "nDCG@10", "--ties", ties) for ties in ("best", "expected", "worst")
            ],
            "Check the files": [("check", "coarse.run", "qrels.txt")],
            "Derivation of one number": [
                ("explain", "dense.run", *judged, "--query", "q07", "-m", "nDCG@5")
            ],
        },
    )


MODELS: Final = ("bm25", "tfidf", "lsa:200", "wordllama")
_FUSIONS: Final = ("hybrid=rrf:bm25+wordllama",)
_NEEDED: Final = ("sklearn", "wordllama", "sqlalchemy", "alembic", "altair", "vl_convert")
_STORY: Final = (
    "Python's own documentation, searched in five ways. A query is the first line of a docstring "
    "of the standard library; the one relevant document is the rest of that docstring."
)


@click.command("demo", cls=Command)
@argument(
    "folder",
    type=options.output_folder,
    required=False,
    default="assay-demo",
    metavar="[FOLDER]",
    writes=True,
    folder=True,
)
@option(
    "--export DIR",
    type=options.output_folder,
    help="Write only the collection to DIR (BEIR layout).",
    writes=True,
)
@option(
    "--files DIR",
    type=options.output_folder,
    help="Write the documentation's example files to DIR; run commands.",
    writes=True,
)
def command(*, folder: str, export: str | None, files: str | None) -> None:
    """Compare five text search systems on Python's own documentation.

    Runs bm25, tfidf, lsa, wordllama and a fusion in less than a minute, without downloads: the
    collection is made of docstrings of the standard library. Writes report, runs and vectors to
    FOLDER (assay-demo).

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
        collection = demo_texts.stdlib_collection()
        collections.write_collection(collection, export)
        size = _describe_size(collection)
        output.write(f"{Path(export)}: {size}; fingerprint {collection.fingerprint}", None)
    else:
        _run_demo(Path(folder))


def _describe_size(collection: Collection) -> str:
    return f"{len(collection.doc_ids):,} documents, {len(collection.query_ids):,} queries"


def _run_demo(folder: Path) -> None:
    """Run the bench, save its report and runs, and say what to type next."""
    output.silence_logging()
    _introduce()
    for module in _NEEDED:  # say at once, and once, what is not there
        need(module, "The demo", "demo")
    make_folder(folder)
    labels: Any = {"dataset": "stdlib", "tags": ("demo",)}
    with saving_runs("bench", wanted=True, store=str(folder / "assay.db"), **labels) as saving:
        collection = demo_texts.stdlib_collection()
        output.log(f"{collection.name}: {_describe_size(collection)}")
        output.log("")
        result = _run(collection, folder)
        report = result.report(command="assay demo")
        saving.save(result.records())
    path = report.save(folder / "report.html")
    output.emit(BenchReport(result, report), "text", None, terminal=_print_on_terminal)
    _print_next_steps(result, folder, path)


def _introduce() -> None:
    if output.on_terminal():
        from assay.bench.terminal import print_title

        print_title("Text models on Python's documentation", _STORY)
    else:
        output.write(_STORY, None)
    sys.stdout.flush()  # before the work begins, also where somebody reads through a pipe


def _run(collection: Collection, folder: Path) -> BenchResult:
    vectors = cache.EmbeddingCache(folder / "cache", tell=output.log)
    how: Any = {"cache": vectors, "checkpoint": vectors.folder}
    with system_bars() as progress:
        return bench.run_bench(collection, MODELS, fusions=_FUSIONS, progress=progress, **how)


def _print_on_terminal(report: BenchReport) -> None:
    """Print only the leaderboard and the costs."""
    from assay.bench.terminal import print_board

    print_board(report.result, report.board)


def _program() -> str:
    """Return the command that runs this program."""
    name = Path(sys.argv[0])
    if name.name != "assay" or shutil.which("assay"):
        return "assay"
    return os.path.relpath(name)


def _print_next_steps(result: BenchResult, folder: Path, report: Path) -> None:
    """Print locations and next commands."""
    query = bench.disagreements(result)[0][0]
    assay, store = _program(), shlex.quote(os.path.join(folder, "assay.db"))
    options = f"--store {store} --query {shlex.quote(query)}"
    steps = {
        "The report": f"{report}",
        "The saved runs": f"{assay} runs list --store {store}",
        "The same in a browser": f"{assay} serve --store {store} --open",
        "A query they disagree on": f"{assay} explain --saved {options}",
        "The collection as files, for more models": f"{assay} demo --export stdlib",
        "Your own data (BEIR layout or files)": f"{assay} bench --corpus FOLDER --model bm25",
    }
    if output.on_terminal():
        from assay.bench.terminal import print_steps

        print_steps(steps)
        return
    output.write("\n" + "\n".join(f"{what}: {how}" for what, how in steps.items()), None)


N_NOTES: Final = 12
_BENCH: Final = """\
name = "docstrings"
corpus = "docs.jsonl"
queries = "queries.jsonl"
qrels = "qrels.tsv"
measures = ["nDCG@10", "R@100"]

[[model]]
spec = "bm25"

[[model]]
spec = "tfidf"
"""


_SEARCH = '''"""Search documents by the number of words that they share with a query."""
import json
from pathlib import Path

LINES = Path("docs.jsonl").read_text("utf-8").splitlines()
WORDS = {doc["_id"]: set(doc["text"].lower().split()) for doc in map(json.loads, LINES)}


def search(text, k):
    words = set(text.lower().split())
    hits = [(id, len(words & others)) for id, others in WORDS.items()]
    return sorted(hits, key=lambda hit: hit[1], reverse=True)[:k]
'''


def write_files(folder: Path, rng: Any) -> None:
    """Write documents, queries and judgments, notes, a bench.toml and a function that searches."""
    texts = demo_texts.small_collection()
    written = collections.write_collection(texts, folder)
    corpus = written.corpus.rename(folder / "docs.jsonl").read_text("utf-8").splitlines(True)
    written.qrels.rename(folder / "qrels.tsv")
    written.qrels.parent.rmdir()
    for number, lines in enumerate((corpus[::2], corpus[1::2])):
        (folder / f"corpus-{number}.jsonl").write_text("".join(lines), "utf-8")
    queries = zip(texts.query_ids, texts.query_texts, strict=True)
    query_texts = {str(id)[2:]: text for id, text in queries}
    (folder / "notes").mkdir(exist_ok=True)
    named = [name for name in map(str, texts.doc_ids) if name in query_texts][:N_NOTES]
    for name in named:
        (folder / "notes" / f"{name}.md").write_text(texts.text_of(name), "utf-8")
    judged = [[query_texts[name], [f"{name}.md"]] for name in named]
    (folder / "eval.json").write_text(json.dumps(judged, indent=1), "utf-8")
    rows = [("question", "relevant_doc"), *((query_texts[name], name) for name in named)]
    writers.write_delimited(rows, folder / "judged.csv", ",")
    rows[1:] = [(query_texts[name], f"{name}.md") for name in named]
    writers.write_delimited(rows, folder / "questions.csv", ",")
    (folder / "bench.toml").write_text(_BENCH, "utf-8")
    (folder / "demo_search.py").write_text(_SEARCH, "utf-8")
