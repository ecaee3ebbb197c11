"""`assay bench`: Which text model is better on my data?"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.options import cluster_options, refuse_idle_workers
from assay.cli.output import command_line, silence_logging
from assay.cli.progress import Progress as Listener
from assay.cli.progress import listener
from assay.cluster import open_cluster
from assay.comparison.pairs import Settings
from assay.core.text import printable
from assay.io.groups import read_groups
from assay.models import EmbeddingCache
from assay.report.report import check_ending
from assay.search.indexes.specs import without_secrets
from assay.tables import page as pages
from assay.tasks.bench.config import make_request, read_config
from assay.tasks.bench.result import write_runs

if TYPE_CHECKING:
    from assay.cli.saving import Saving
    from assay.cluster import Cluster, Journal
    from assay.report.report import Report
    from assay.tasks.bench.config import BenchRequest
    from assay.tasks.bench.result import BenchResult
    from assay.tasks.bench.search import BenchProgress

__all__ = ["bench_bars", "command"]


@contextmanager
def bench_bars(contestants: int = 0) -> Iterator[BenchProgress | None]:
    """Gives what a bench calls while it works, or None where nobody listens.

    With the number of contestants, the run that --save began says how far all of them are.
    """
    heard = listener.get()
    share = _Share(heard, contestants).watch if heard and contestants else None
    with _terminal_bars() as drawn:
        yield _both(drawn, share) if drawn and share else drawn or share


def _both(first: BenchProgress, second: BenchProgress) -> BenchProgress:
    def watch(what: str, done: int, total: int | None) -> None:
        first(what, done, total)
        second(what, done, total)

    return watch


class _Share:
    """How much of all contestants is done, in percent; it never goes back."""

    def __init__(self, heard: Listener, contestants: int) -> None:
        self._heard = heard
        self._contestants = contestants
        self._parts: dict[str, float] = {}

    def watch(self, what: str, done: int, total: int | None) -> None:
        name = what.rpartition(": ")[0]
        part = max(done / total if total else 0.0, self._parts.get(name, 0.0))
        self._parts = dict.fromkeys(self._parts, 1.0) | {name: part}  # one after the other
        self._heard(int(100 * sum(self._parts.values()) / self._contestants), 100)


@contextmanager
def _terminal_bars() -> Iterator[BenchProgress | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    console = Console(stderr=True, highlight=False)
    bar = Progress(
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.fields[name]}", table_column=None),
        BarColumn(24),
        TextColumn("[dim]{task.fields[phase]}[/]"),
        console=console,
    )
    with bar:
        yield _Bars(bar).watch


class _Bars:
    """One line for each contestant; it is done when the next one begins."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task: Any = None
        self._name = ""
        self._began = 0.0

    def watch(self, what: str, done: int, total: int | None) -> None:
        name, _, phase = what.rpartition(": ")
        if name != self._name:
            self._name, self._began = name, time.perf_counter()
            self._task = self._bar.add_task("", total=None, name=printable(name), phase="")
        if phase == "searching" and total is not None:
            spent = f"{time.perf_counter() - self._began:.1f} s"
            self._bar.update(self._task, completed=1, total=1, phase=spent)
            return
        self._bar.update(self._task, completed=done, total=total, phase=phase)


_FORMATS = ("text", "markdown", "csv", "tsv", "json")


def _input_options(command: Any) -> Any:
    """The collection."""
    for option in reversed(
        [
            click.option(
                "--corpus",
                metavar="PATH",
                help="Documents: .jsonl, .json, .csv, .tsv (also .gz, .zst), a folder of "
                ".txt and .md files, or a folder in BEIR's layout.",
            ),
            click.option("--queries", metavar="FILE", help="Queries: .jsonl, .json, .csv, .tsv."),
            click.option(
                "-r",
                "--qrels",
                metavar="FILE",
                help="Judgments: TREC, .tsv, .csv, .json, .parquet.",
            ),
            click.option(
                "--split", metavar="NAME", help="Judgments of a folder in BEIR's layout. [test]"
            ),
            click.option("--name", metavar="NAME", help="What the collection is called."),
            click.option(
                "--chunk",
                metavar="UNIT:SIZE[:OVERLAP]",
                help="Cut documents: characters, sentences or tokens; sentences:5:1.",
            ),
            click.option(
                "--fold",
                metavar="max|sum:N",
                help="What a document of several chunks is worth. [max]",
            ),
            click.option(
                "--judged",
                type=click.Choice(["documents", "chunks"]),
                help="What judgments name: documents, or chunks DOC#1, DOC#2. [documents]",
            ),
        ]
    ):
        command = option(command)
    return command


def _without_password(_: click.Context, __: click.Parameter, url: str | None) -> str | None:
    """Refuse an address with a password before --save could write it down."""
    from urllib.parse import urlsplit

    if url and "@" in urlsplit(url).netloc:
        raise click.BadParameter("an address holds no name and no password; see docs/bench.md.")
    return url


def _without_secret(
    _: click.Context, __: click.Parameter, specs: tuple[str, ...]
) -> tuple[str, ...]:
    """The same for the address of a database."""
    if any(without_secrets(spec) != spec for spec in specs):
        raise click.BadParameter(
            "give a password by PGPASSWORD or in a bench.toml: what is typed may be stored."
        )
    return specs


def _model_options(command: Any) -> Any:
    """The contestants."""
    for option in reversed(
        [
            click.option(
                "--model",
                "model",
                multiple=True,
                metavar="[NAME=]SPEC",
                help="bm25, tfidf, lsa:DIM, wordllama, minilm, st:MODEL, onnx:DIR, "
                "model2vec:MODEL, openai:MODEL, npy:..., py:MODULE:FUNCTION. May be "
                "repeated.",
            ),
            click.option(
                "--fusion",
                multiple=True,
                metavar="[NAME=]METHOD:A+B",
                help="A fusion of models: rrf:bm25+wordllama, "
                "combsum/zscore:0.3*bm25+0.7*mini. May be repeated.",
            ),
            click.option(
                "--index",
                multiple=True,
                metavar="SPEC",
                callback=_without_secret,
                help="Search vectors also by faiss:HNSW32, usearch, lancedb, ... May be repeated.",
            ),
            click.option("--query-prefix", metavar="TEXT", help="Before every query."),
            click.option("--doc-prefix", metavar="TEXT", help="Before every document."),
            click.option(
                "--max-length",
                type=click.IntRange(min=1),
                metavar="N",
                help="Tokens that models read of a text.",
            ),
            click.option(
                "--normalize/--no-normalize",
                default=None,
                help="Vectors of length 1, or as they are.",
            ),
            click.option(
                "--dimensions",
                type=click.IntRange(min=1),
                metavar="N",
                help="Keep the first N numbers of vectors (Matryoshka).",
            ),
            click.option(
                "--base-url",
                metavar="URL",
                callback=_without_password,
                help="Endpoint of openai: models.",
            ),
            click.option(
                "--metric",
                type=click.Choice(["cosine", "dot", "l2"]),
                help="How vectors are compared. [cosine]",
            ),
            click.option("--device", metavar="NAME", help="Where models run."),
            click.option("--threads", type=click.IntRange(min=1), metavar="N", help="[all cores]"),
            cluster_options("Encode on threads, serial, auto (Ray), or Ray's address. [here]"),
            click.option(
                "--cache",
                metavar="DIR",
                help="Where vectors are kept. [$ASSAY_CACHE, or the system's place]",
            ),
            click.option("--no-cache", is_flag=True, help="Keep nothing, use nothing kept."),
        ]
    ):
        command = option(command)
    return command


def _output_options(command: Any) -> Any:
    """What is written, and where."""
    for option in reversed(
        [
            click.option(
                "--html", metavar="FILE", help="Also write a report as one page that opens offline."
            ),
            click.option(
                "--runs",
                metavar="DIR",
                help="Also write what each contestant retrieved as TREC run files.",
            ),
            click.option(
                "--per-query",
                metavar="FILE",
                help="Also write a table with a row for each query: .csv, .tsv, .md.",
            ),
            click.option(
                "--format",
                "named",
                type=click.Choice(_FORMATS),
                help="Layout of the result; csv is the leaderboard.",
            ),
            click.option("--csv", "csv_wanted", is_flag=True, help="The same as --format csv."),
            options.json_option,
            options.output_option,
        ]
    ):
        command = option(command)
    return command


@click.command("bench")
@click.argument("config", required=False, metavar="[BENCH.TOML]")
@_input_options
@_model_options
@click.option(
    "-m",
    "--measure",
    "measures",
    multiple=True,
    metavar="NAME",
    help="A measure; the first decides the order. May be repeated. [nDCG@10, R@100, RR]",
)
@options.statistics_options
@options.conventions_options
@_output_options
@options.save_options("bench")
def command(*, saving: Saving, **chosen: Any) -> None:
    """Which text model is better on my data?

    Every model encodes and searches the same documents; what it finds is judged, compared query
    by query and tested. The verdict is "A", "B" or "not separable". Vectors are kept, so that a
    second run computes nothing, and a run that was interrupted goes on where it stopped.

    \b
    Examples:
      assay bench --corpus docs.jsonl --queries q.jsonl --qrels qrels.tsv \\
          --model bm25 --model wordllama --fusion rrf:bm25+wordllama
      assay bench --corpus scifact/ --model bm25 --model st:all-MiniLM-L6-v2 --html report.html
      assay bench --corpus notes/ --queries q.tsv -r qrels.txt --chunk sentences:5:1 --model tfidf
      assay bench bench.toml --save --per-query queries.csv
      assay bench bench.toml --cluster auto --workers 8
    """
    layout = _layout(chosen)
    request = _request(chosen)
    _refuse_senseless(chosen, request)
    result, journal = _run(chosen, request, saving)
    settings = _statistics(chosen)
    result = _grouped(result, chosen["by"], settings)
    report = _report(result, settings)
    if saving.wanted:
        tasks = {} if journal is None else {"cluster": journal.to_dict()}
        records = result.records(seed=chosen["seed"], clusters=settings.get("by", ""), **tasks)
        saving.keep(records, chosen["config"], *request.files)
    _narrate(result, request, chosen["where"])
    _write(result, report, chosen)
    _show(result, report, layout, chosen["file"])


def _layout(chosen: dict[str, Any]) -> str:
    named = chosen["named"]
    if chosen["csv_wanted"]:
        if named not in (None, "csv"):
            raise click.UsageError(f"--csv and --format {named} exclude each other.")
        named = "csv"
    return output.choose_format(named, chosen["json_wanted"], chosen["file"])


_REQUEST = (
    "corpus",
    "queries",
    "qrels",
    "split",
    "name",
    "chunk",
    "fold",
    "judged",
    "model",
    "fusion",
    "index",
    "query_prefix",
    "doc_prefix",
    "max_length",
    "normalize",
    "dimensions",
    "base_url",
    "metric",
    "device",
    "measures",
)


def _request(chosen: dict[str, Any]) -> BenchRequest:
    config = {} if chosen["config"] is None else read_config(chosen["config"])
    return make_request(config, **{key: chosen[key] for key in _REQUEST})


def _refuse_senseless(chosen: dict[str, Any], request: BenchRequest) -> None:
    Settings(**{key: chosen[key] for key in _STATISTICS if key != "baseline"})
    if chosen["baseline"] not in (None, *request.names):
        raise click.UsageError(
            f"The baseline {chosen['baseline']!r} is none of the contestants: "
            f"{', '.join(request.names)}."
        )
    refuse_idle_workers(chosen["where"], chosen["workers"])
    if chosen["cache"] and chosen["no_cache"]:
        raise click.UsageError("--cache and --no-cache exclude each other.")
    written = [chosen[key] for key in ("file", "html", "per_query")]
    for path in written:
        output.refuse_input(
            path, chosen["config"], *request.files, options.group_file(chosen["by"])
        )
    output.refuse_same_file(*written)
    if chosen["html"]:
        check_ending(chosen["html"])
    if chosen["per_query"]:
        output.choose_format(None, False, chosen["per_query"], known=("csv", "tsv", "markdown"))


def _run(
    chosen: dict[str, Any], request: BenchRequest, saving: Saving
) -> tuple[BenchResult, Journal | None]:
    """What the contestants reach, and the tasks of the cluster if there was one."""
    cache = None
    if not chosen["no_cache"]:
        cache = EmbeddingCache(chosen["cache"], tell=output.narrate)
    config = {"conventions": request.options.get("conventions", "trec_eval")}
    named = _typed(chosen, "conventions") or config["conventions"]
    rules = options.make_conventions(
        named, **{key: chosen[key] for key in ("ties", "empty", "missing", "depth")}
    )
    silence_logging()
    collection = request.load()
    saving.runs_on(collection.name)
    changes: dict[str, Any] = {"conventions": rules}
    if chosen["depth"]:
        changes["depth"] = chosen["depth"]
    with _cluster(chosen, request) as cluster, bench_bars(len(request.names)) as watch:
        result = request.run(
            collection,
            cache=cache,
            threads=chosen["threads"],
            watch=watch,
            cluster=cluster,
            **changes,
        )
    return result, None if cluster is None else cluster.journal


@contextmanager
def _cluster(chosen: dict[str, Any], request: BenchRequest) -> Iterator[Cluster | None]:
    """Where texts are encoded; None stands for this process."""
    if chosen["where"] is None or not request.encodes:
        yield None
        return
    with open_cluster(chosen["where"], workers=chosen["workers"]) as cluster:
        yield cluster


def _typed(chosen: dict[str, Any], name: str) -> Any:
    """An option's value if it was typed, not if it is the default."""
    from click.core import ParameterSource

    source = click.get_current_context().get_parameter_source(name)
    return chosen[name] if source is ParameterSource.COMMANDLINE else None


_STATISTICS = ("baseline", "test", "correction", "level", "interval", "resamples", "seed", "margin")


def _statistics(chosen: dict[str, Any]) -> dict[str, Any]:
    return {key: chosen[key] for key in _STATISTICS}


def _grouped(result: BenchResult, by: str | None, settings: dict[str, Any]) -> BenchResult:
    """The result with the group column that queries are tested by."""
    if by is None:
        return result

    name, members = read_groups(by, result.chance.query_ids)
    settings["by"] = name
    grouped = [
        replace(one, scores=one.scores.with_groups(**{name: members})) for one in result.systems
    ]
    return replace(result, systems=tuple(grouped))


def _report(result: BenchResult, settings: dict[str, Any]) -> Report:
    return result.report(command=command_line(), **settings)


def _narrate(result: BenchResult, request: BenchRequest, where: str | None) -> None:
    """Say which settings did nothing."""
    if where is not None and not request.encodes:
        output.narrate("--cluster: none of the models encodes texts, so workers had nothing to do")
    if request.indexes and not any(one.result.index for one in result.systems):
        output.narrate("--index: none of the models has vectors, so there was nothing to index")


def _write(result: BenchResult, report: Report, chosen: dict[str, Any]) -> None:
    if chosen["html"]:
        path = report.save(chosen["html"])
        output.narrate(f"{path}: {path.stat().st_size / 1000:,.0f} kB")
    if chosen["per_query"]:
        file = chosen["per_query"]
        layout = output.choose_format(None, False, file)
        output.show(
            [result.query_table()], layout=layout, file=file, signature=report.aligned.signature
        )
        output.narrate(f"{file}: {result.chance.n_queries:,} queries")
    if chosen["runs"]:
        files = write_runs(result, chosen["runs"])
        output.narrate(f"{chosen['runs']}: {len(files)} runs")


def _show(result: BenchResult, report: Report, layout: str, file: str | None) -> None:
    if layout == "json":
        data = result.to_dict(per_query=True, board=report)
        output.put(output.as_json({"command": "bench", **data}), file)
        return
    signature = report.aligned.signature
    if layout in ("csv", "tsv"):
        output.show([result.data_table(report)], layout=layout, file=file, signature=signature)
        return
    page = result.page(report)
    if layout == "text" and file is None and output.on_terminal():
        from assay.cli.bench_terminal import print_bench

        print_bench(result, report)
        return
    write = pages.text_page if layout == "text" else pages.markdown_page
    output.put(write(page), file)
