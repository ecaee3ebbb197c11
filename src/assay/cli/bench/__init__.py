"""`assay bench`: Which text model is better on my data?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from assay.cli import options, output
from assay.cli.cluster_options import cluster_options, refuse_idle_workers
from assay.cli.commands import Command
from assay.cli.gating import GateAnswer, gate_options
from assay.cli.progress import system_bars
from assay.cluster import open_cluster
from assay.comparison.pairs import ComparisonSettings
from assay.core.text import mask_secrets
from assay.io.tables import read_groups
from assay.models import EmbeddingCache
from assay.models.settings import DTYPES, EncoderSettings
from assay.report.report import check_ending
from assay.tasks.bench import SCHEMA, make_request, read_config, write_runs

if TYPE_CHECKING:
    from assay.cli.gating import Gate
    from assay.cli.saving import Saving
    from assay.cluster import Cluster, Journal
    from assay.core.consent import Consent
    from assay.report.report import Report
    from assay.tables.page import Page
    from assay.tables.table import Table
    from assay.tasks.bench import BenchRequest, BenchResult

__all__ = ["BenchReport", "command"]

_FORMATS = ("text", "markdown", "latex", "csv", "tsv", "json")
_QUERY_FORMATS = ("csv", "tsv", "markdown")


# The collection.
_input_options = options.add_options(
    click.option(
        "--corpus",
        metavar="PATH",
        help="Documents: .jsonl, .json, .csv, .tsv (also .gz, .zst), .parquet, a folder of "
        ".txt and .md files, a folder in the layout of BEIR or Hugging Face, or ir:ID of "
        "ir_datasets.",
    ),
    click.option("--queries", metavar="FILE", help="Queries: .jsonl, .json, .csv, .tsv, .parquet."),
    click.option(
        "-r",
        "--qrels",
        metavar="FILE",
        help="Judgments: TREC, .tsv, .csv, .json, .parquet.",
    ),
    click.option(
        "--answers",
        metavar="FILE",
        help="Answers of the queries: .jsonl, .json, .tsv. Relevant is a text that holds one: "
        "beside judged documents, or instead of them.",
    ),
    options.mismatch_option,
    click.option("--split", metavar="NAME", help="Judgments of a folder in BEIR's layout. [test]"),
    click.option("--name", metavar="NAME", help="Name of the collection."),
    click.option(
        "--chunk",
        metavar="UNIT:SIZE[:OVERLAP]",
        help="Cut documents: characters, sentences or tokens; sentences:5:1.",
    ),
    click.option(
        "--fold",
        metavar="max|sum:N",
        help="How chunk scores become a document's score. [max]",
    ),
    click.option(
        "--judged",
        type=click.Choice(["documents", "chunks"]),
        help="What the judgments are of: documents, or chunks DOC#1, DOC#2. [documents]",
    ),
)


def _without_password(_: click.Context, __: click.Parameter, url: str | None) -> str | None:
    """Refuse an address with a password before --save could write it down."""
    if url and "@" in urlsplit(url).netloc:
        raise click.BadParameter("an address holds no name and no password; see docs/bench.md.")
    return url


def _without_secret(
    _: click.Context, __: click.Parameter, specs: tuple[str, ...]
) -> tuple[str, ...]:
    """The same for the address of a database."""
    if any(mask_secrets(spec) != spec for spec in specs):
        raise click.BadParameter(
            "give a password by PGPASSWORD or in a bench.toml: what is typed may be stored."
        )
    return specs


# The systems.
_model_options = options.add_options(
    click.option(
        "--model",
        "model",
        multiple=True,
        metavar="[NAME=]SPEC",
        help="bm25, tfidf, lsa:DIM, wordllama, minilm:DIR, st:MODEL, onnx:DIR, "
        "model2vec:MODEL, openai:MODEL, npy:..., py:MODULE:FUNCTION; with ?codes=int8, "
        "?codes=binary its vectors as codes. May be repeated.",
    ),
    click.option(
        "--fusion",
        multiple=True,
        metavar="[NAME=]METHOD:A+B",
        help="A fusion of models: rrf:bm25+wordllama, "
        "combsum/zscore:0.3*bm25+0.7*mini; with ?tune, weights by cross-validation. May be "
        "repeated.",
    ),
    click.option(
        "--rerank",
        multiple=True,
        metavar="[NAME=]A>RERANKER",
        callback=_without_secret,
        help="Put what A, a model or fusion, retrieves in another order: "
        "'rerank/50:bm25>st:MODEL', onnx:DIR, rerank:URL, py:MODULE:FUNCTION. May be repeated.",
    ),
    click.option(
        "--index",
        multiple=True,
        metavar="SPEC",
        callback=_without_secret,
        help="Search vectors also by faiss:HNSW32, usearch, lancedb, ... May be repeated.",
    ),
    click.option("--query-prefix", metavar="TEXT", help="Prefix of every query."),
    click.option("--doc-prefix", metavar="TEXT", help="Prefix of every document."),
    click.option(
        "--max-length",
        type=click.IntRange(min=1),
        metavar="N",
        help="Tokens of a text that models read; longer texts are truncated.",
    ),
    click.option(
        "--normalize/--no-normalize",
        default=None,
        help="Normalize vectors to length 1, or leave them as they are.",
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
        "--price",
        multiple=True,
        metavar="NAME=AMOUNT",
        help="What a million tokens of a model or reranker costs. May be repeated.",
    ),
    click.option("--revision", metavar="REV", help="Commit, branch or tag of st: models."),
    click.option("--dtype", type=click.Choice(DTYPES), help="Numbers of st: models."),
    click.option(
        "--trust-remote-code",
        is_flag=True,
        default=None,
        help="Run code that st: models bring along.",
    ),
    click.option(
        "--batch-size",
        type=click.IntRange(min=1),
        metavar="N",
        help="Texts that are encoded at once.",
    ),
    options.metric_option("Similarity of vectors. [cosine]"),
    click.option("--device", metavar="NAME", help="Device of the models."),
    options.threads_option,
    cluster_options("Encode on threads, serial, auto (Ray), or Ray's address. [here]"),
    click.option(
        "--cache",
        metavar="DIR",
        help="Where vectors are cached. [$ASSAY_CACHE, or the system's place]",
    ),
    click.option("--no-cache", is_flag=True, help="Neither read nor write the cache."),
)


# What is written, and where.
_output_options = options.add_options(
    click.option(
        "--html",
        type=options.output_file,
        metavar="FILE",
        help="Also write a report as one page that opens offline.",
    ),
    click.option(
        "--runs",
        type=options.output_folder,
        metavar="DIR",
        help="Also write what each system retrieved as TREC run files.",
    ),
    click.option(
        "--per-query",
        type=options.output_file,
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
    options.full_option,
    options.signature_option,
    options.output_option,
)


@click.command("bench", cls=Command)
@click.argument("config", required=False, metavar="[BENCH.TOML]")
@_input_options
@_model_options
@options.consent_options("The config file")
@options.measures_option(
    "A measure; the first decides the order. May be repeated. [nDCG@10, R@100, RR]"
)
@options.statistics_options
@options.conventions_choices
@gate_options
@_output_options
@options.save_options("bench")
def command(*, saving: Saving, consent: Consent, gate: Gate, **chosen: Any) -> int:
    """Which text model is better on my data?

    Every model encodes and searches the same documents; what it finds is judged, compared query
    by query and tested. The verdict is "A", "B" or "not separable". Vectors are cached, so that a
    second run computes nothing, and an interrupted run resumes where it stopped.

    \b
    Examples:
      assay bench --corpus docs.jsonl --queries queries.jsonl --qrels qrels.tsv \\
          --model bm25 --model wordllama --fusion rrf:bm25+wordllama --html report.html
      assay bench --corpus docs.jsonl --queries queries.jsonl --qrels qrels.tsv \\
          --model bm25 --model st:all-MiniLM-L6-v2 # needs a network
      assay bench --corpus notes/ --qrels eval.json --chunk sentences:5:1 --model tfidf
      assay bench bench.toml --save --per-query queries.csv
      assay bench bench.toml --cluster auto --workers 8 # needs Ray
      assay bench bench.toml -b tfidf --fail-if 'nDCG@10 < baseline - 0.005' --fail-if-worse
    """
    layout = _choose_layout(chosen)
    config = {} if chosen["config"] is None else read_config(chosen["config"])
    given = {key: value for key, value in chosen.items() if key in _REQUEST}
    request = make_request(config, **consent.as_options(), **given)
    _refuse_contradictions(chosen, request)
    request = _with_gate(request, gate, chosen)
    result, journal, column = _run(chosen, request, saving)
    settings = {key: chosen[key] for key in _STATISTICS}
    settings |= {"by": column} if column else {}
    board = result.report(command=output.command_line(), **settings)
    report = BenchReport(result, board, gate.answer(board, board.comparison))
    if saving.wanted:
        tasks = {} if journal is None else {"cluster": journal.to_dict()}
        records = result.records(seed=chosen["seed"], clusters=settings.get("by", ""), **tasks)
        saving.save(records, chosen["config"], *request.files)
    _narrate_idle_options(result, request, chosen["where"])
    _write_files(report, chosen)
    output.emit(report, layout, chosen["file"], terminal=print_on_terminal)
    return report.gate.exit_code()


@dataclass(frozen=True)
class BenchReport:
    """What a bench prints: its result, compared by the settings of the command."""

    result: BenchResult
    board: Report
    gate: GateAnswer = field(default_factory=GateAnswer)

    @property
    def signature(self) -> str:
        """The conventions of the scores."""
        return self.board.aligned.signature

    def table(self) -> Table:
        """Every number of the leaderboard."""
        return self.result.table(self.board)

    def page(self) -> Page:
        """Verdict, leaderboard, costs and findings."""
        return [*self.result.page(self.board), *self.gate.page()]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            **self.result.to_dict(per_query=True, board=self.board),
            **self.gate.to_dict(),
        }


def print_on_terminal(report: BenchReport) -> None:
    """The leaderboard with its intervals drawn, costs and findings."""
    from assay.cli.bench.terminal import print_bench

    print_bench(report.result, report.board, output.as_shown(report.page()))


def _choose_layout(chosen: dict[str, Any]) -> str:
    named = chosen["named"]
    if chosen["csv_wanted"]:
        if named not in (None, "csv"):
            raise click.UsageError(f"--csv and --format {named} exclude each other.")
        named = "csv"
    return output.choose_format(named, chosen["json_wanted"], chosen["file"], known=_FORMATS)


# Options that a config file may have, too, but for those that make the conventions.
_SETTINGS = (*SCHEMA["properties"], *(one.name for one in fields(EncoderSettings)), "price")
_REQUEST = frozenset(_SETTINGS) - {"conventions", "depth"}
_STATISTICS = ("baseline", "test", "correction", "level", "interval", "resamples", "seed", "margin")


def _refuse_contradictions(chosen: dict[str, Any], request: BenchRequest) -> None:
    ComparisonSettings(**{key: chosen[key] for key in _STATISTICS if key != "baseline"})
    rivals = request.plan.rivals
    if chosen["baseline"] not in (None, *rivals):
        raise click.UsageError(
            f"The baseline {chosen['baseline']!r} is none of the models and fusions: "
            f"{', '.join(rivals)}."
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
        output.choose_format(None, False, chosen["per_query"], known=_QUERY_FORMATS)


def _with_gate(request: BenchRequest, gate: Gate, chosen: dict[str, Any]) -> BenchRequest:
    """With the measures of the gate, which is refused where nothing could fail it."""
    gate.refuse_without(chosen["baseline"] is not None)
    if chosen["baseline"] is not None and gate.wanted and len(request.plan.rivals) < 2:
        raise click.UsageError("There is one system, the baseline: name what is to be gated.")
    written = [chosen[key] for key in ("file", "html", "per_query")]
    output.refuse_same_file(*written, gate.look_file)
    named = request.measures or request.usual_measures
    return replace(request, measures=tuple(dict.fromkeys((*named, *map(str, gate.measures)))))


def _run(
    chosen: dict[str, Any], request: BenchRequest, saving: Saving
) -> tuple[BenchResult, Journal | None, str]:
    """The result, the tasks of the cluster if there was one, and the column of groups."""
    cache = None
    if not chosen["no_cache"]:
        cache = EmbeddingCache(chosen["cache"], tell=output.narrate)
    named = chosen["conventions"]
    if not options.is_typed("conventions"):
        named = request.options.get("conventions", named)
    rules = options.make_conventions(
        named, **{key: chosen[key] for key in ("ties", "empty", "missing", "depth")}
    )
    output.silence_logging()
    saving.set_name(request.plan.names[0])
    collection = request.load()
    saving.set_dataset(collection.name)
    column, groups = "", None
    if chosen["by"] is not None:
        column, groups = read_groups(chosen["by"], collection.query_ids)
    changes: dict[str, Any] = {"conventions": rules}
    if chosen["depth"]:
        changes["depth"] = chosen["depth"]
    bars = system_bars(len(request.plan.names), saving.listener)
    with _open_cluster(chosen, request) as cluster, bars as progress:
        result = request.run(
            collection,
            cache=cache,
            threads=chosen["threads"],
            progress=progress,
            cluster=cluster,
            allow_mismatch=chosen["allow_mismatch"],
            groups=groups,
            **changes,
        )
    result = result if groups is None else result.with_groups(**{column: groups})
    return result, None if cluster is None else cluster.journal, column


@contextmanager
def _open_cluster(chosen: dict[str, Any], request: BenchRequest) -> Iterator[Cluster | None]:
    """Where texts are encoded; None stands for this process."""
    if chosen["where"] is None or not request.plan.encodes:
        yield None
        return
    with open_cluster(chosen["where"], workers=chosen["workers"]) as cluster:
        yield cluster


def _narrate_idle_options(result: BenchResult, request: BenchRequest, where: str | None) -> None:
    """Say which options changed nothing."""
    if where is not None and not request.plan.encodes:
        output.narrate("--cluster: none of the models encodes texts, so workers had nothing to do")
    if request.plan.indexes and not any(one.result.index for one in result.systems):
        output.narrate("--index: none of the models has vectors, so there was nothing to index")


def _write_files(report: BenchReport, chosen: dict[str, Any]) -> None:
    result = report.result
    if chosen["html"]:
        path = report.board.save(chosen["html"])
        output.narrate(f"{path}: {path.stat().st_size / 1000:,.0f} kB")
    if chosen["per_query"]:
        file = chosen["per_query"]
        layout = output.choose_format(None, False, file, known=_QUERY_FORMATS)
        table = output.TableResult(result.query_table(), signature=report.signature)
        output.emit(table, layout, file)
        output.narrate(f"{file}: {result.chance.n_queries:,} queries")
    if chosen["runs"]:
        files = write_runs(result, chosen["runs"])
        output.narrate(f"{chosen['runs']}: {len(files)} runs")
