"""`assay bench`: compare text models and search systems."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from assay import bench, models
from assay.bench.settings import OPTIONS, PLACES, REQUEST_KEYS
from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.gating import GateAnswer, gate_options
from assay.cli.options import cluster_options, refuse_idle_workers
from assay.cli.progress import reserve_stdout
from assay.cli.settings import argument, option
from assay.core.on_demand import OnDemand
from assay.core.text import mask_secrets, printable
from assay.core.work import describe_progress, tell
from assay.errors import InputError
from assay.plugins import find_hook
from assay.tables.table import Words

if TYPE_CHECKING:
    from assay.bench import Answers, BenchRequest, BenchResult
    from assay.cli.gating import Gate
    from assay.cli.output import Saving
    from assay.comparison import gate as gates
    from assay.comparison import pairs
    from assay.core.specs import Consent
    from assay.io import collections, formats, texts
    from assay.io.columns import read_groups
    from assay.runs import run_files
    from assay.tables.table import Page, Table
else:
    gates = OnDemand("assay.comparison.gate")
    pairs = OnDemand("assay.comparison.pairs")
    collections = OnDemand("assay.io.collections")
    formats = OnDemand("assay.io.formats")
    texts = OnDemand("assay.io.texts")
    read_groups = OnDemand("assay.io.columns").read_groups
    run_files = OnDemand("assay.runs.run_files")


Texts = tuple[str, ...]
Params = dict[str, Any]
_FORMATS = output.offer_formats()
_QUERY_FORMATS = ("csv", "tsv", "markdown")


def _without_password(_: click.Context, __: click.Parameter, url: str | None) -> str | None:
    """Refuse an address with a password before --save could write it down."""
    if url and "@" in urlsplit(url).netloc:
        raise click.BadParameter("omit name and password in addresses; see docs/bench.md.")
    return url


def _without_secret(_: click.Context, __: click.Parameter, specs: Texts) -> Texts:
    """Refuse the address of a database with a password."""
    if any(mask_secrets(spec) != spec for spec in specs):
        advice = "pass passwords by PGPASSWORD or in bench.toml"
        raise click.BadParameter(f"{advice}: command lines are stored.")
    return specs


_CALLBACKS = {"base_url": _without_password, "rerank": _without_secret, "index": _without_secret}


_in_models = partial(option, section="Models")
_write_file = partial(options.in_result, type=options.output_file, metavar="FILE", writes=True)
# What is no setting of the bench, but of the machine.
_machine_options = options.add_options(
    options.mismatch_option,
    options.threads_option,
    cluster_options("Encode on threads, serial, auto (Ray), or Ray's address. [here]"),
    _in_models(
        "--cache",
        type=options.output_folder,
        metavar="DIR",
        help="Cache folder of vectors. [$ASSAY_CACHE or system default]",
        writes=True,
    ),
    _in_models("--no-cache", is_flag=True, help="Disable the cache."),
)


# What is written, and where.
_output_options = options.add_options(
    _write_file("--chart", help="With --sweep: curves as SVG."),
    _write_file("--html", help="Offline HTML report."),
    options.in_result(
        "--runs DIR",
        type=options.output_folder,
        help="Folder for one TREC run per system.",
        writes=True,
    ),
    _write_file("--per-query", help="Table of queries (.csv, .tsv, .md)."),
    options.in_result(
        "--format",
        "named",
        type=click.Choice(_FORMATS),
        help="Output format; csv holds the leaderboard.",
        aside=True,
    ),
    options.in_result("--csv", "csv_wanted", is_flag=True, help="Same as --format csv."),
    options.json_option,
    options.full_option,
    options.signature_option,
    options.output_option,
)


@click.command("bench", cls=Command, verified=True)
@argument(
    "config",
    required=False,
    metavar="[BENCH.TOML]",
    reads=True,
    names="assay.cli.repeating:texts_of_config",
)
@options.add_options(*(named.declare(callback=_CALLBACKS.get(named.name)) for named in OPTIONS))
@_machine_options
@options.consent_options("the config file")
@options.statistics_options
@options.conventions_choices
@gate_options
@_output_options
@options.save_options("bench")
def command(*, saving: Saving, consent: Consent, gate: Gate, **params: Any) -> int:
    """Compare text models and search systems on your data.

    All models encode and search the same documents; their results are judged, compared by query
    and tested. Vectors are cached: a second run computes nothing, an interrupted run resumes.

    Models: bm25, tfidf, lsa:DIM, wordllama, minilm:DIR, st:MODEL, onnx:DIR, model2vec:MODEL,
    openai:MODEL, npy:FILE, py:MODULE:FUNCTION. Append @sentences:5:1 to chunk documents,
    ?codes=int8 or ?codes=binary to compress vectors.

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
    layout = _choose_layout(params)
    data = {} if params["config"] is None else bench.read_config(params["config"])
    overrides = {key: value for key, value in params.items() if key in REQUEST_KEYS}
    with reserve_stdout():  # code that the config names is imported
        request = bench.make_request(data, **consent.as_options(), **overrides)
    _refuse_contradictions(params, request)
    request = _with_gate(request, gate, params)
    result, journal, column = _run(params, request, saving)
    settings = {key: params[key] for key in _STATISTICS}
    settings |= {"by": column} if column else {}
    board = result.report(command=output.command_line(), **settings)
    blocked = gate.wanted and bool(result.left_out)
    if not blocked:
        answer = gate.answer(board, board.comparison)
        if gate.worse and params["baseline"] is not None:
            answer = _add_variants(answer, result, settings)
        if answer.look is not None:
            result = replace(result, look=answer.look.number)
    curves: tuple[Any, ...] = ()
    if request.sweep is not None:
        keys = ("level", "resamples", "seed", "by")
        how = {key: settings[key] for key in keys if key in settings}
        curves = bench.sweep_curves(result, request.sweep, request.curves, **how)
    if saving.wanted:
        tasks = {} if journal is None else {"cluster": journal.to_dict()}
        tasks |= {"sweeps": [curve.to_dict() for curve in curves]} if curves else {}
        records = result.records(seed=params["seed"], clusters=settings.get("by", ""), **tasks)
        saving.save(records, params["config"], *request.files)
    if blocked:
        name, reason = next(iter(result.left_out.items()))
        raise InputError(f"The check could not run: {name} cannot run ({reason}). Omit that model.")
    report = BenchReport(result, board, answer, curves)
    _narrate_idle_options(result, request, params["where"])
    _write_files(report, params)
    output.emit(report, layout, params["file"], terminal=print_on_terminal)
    return report.gate.exit_code()


@dataclass(frozen=True)
class BenchReport:
    """What a bench prints: its result, compared by the settings of the command."""

    result: BenchResult
    board: Any
    gate: GateAnswer = field(default_factory=GateAnswer)
    curves: tuple[Any, ...] = ()

    @property
    def signature(self) -> str:
        """The conventions of the scores."""
        return "|".join([self.result.sign(self.board), *(curve.method for curve in self.curves)])

    def table(self) -> Table:
        """Return every number of the leaderboard."""
        return self.result.table(self.board)

    def page(self) -> Page:
        """Return verdict, leaderboard, costs and findings."""
        sweeps = [part for curve in self.curves for part in curve.page()]
        page = [*self.result.page(self.board)[:-1], Words(self.signature, "signature")]
        return [*sweeps, *page, *self.gate.page()]

    def paper(self) -> Page:
        """Return one table of systems × measures for a paper; one system has its page."""
        if self.board.comparison is None:
            return self.page()
        from assay.comparison.paper import paper_page, paper_table

        return paper_page(paper_table(self.board.comparison, label="tab:bench"), self.page())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        data = {**self.result.to_dict(per_query=True, board=self.board), **self.gate.to_dict()}
        sweeps = [curve.to_dict() for curve in self.curves]
        return {**data, "signature": self.signature, "sweeps": sweeps} if sweeps else data


def print_on_terminal(report: BenchReport) -> None:
    """Print the leaderboard with its intervals drawn, costs and findings."""
    from assay.bench.terminal import print_bench

    print_bench(report.result, report.board, output.as_shown(report.page()))


def _choose_layout(params: Params) -> str:
    named = params["named"]
    if params["csv_wanted"]:
        if named not in (None, "csv"):
            raise click.UsageError(f"--csv and --format {named} exclude each other.")
        named = "csv"
    return output.choose_format(named, params["json_wanted"], params["file"], known=_FORMATS)


_WRITTEN = ("file", "html", "per_query", "chart")
_STATISTICS = ("baseline", "test", "correction", "level", "interval", "resamples", "seed", "margin")


def _refuse_contradictions(params: Params, request: BenchRequest) -> None:
    pairs.ComparisonSettings(**{key: params[key] for key in _STATISTICS if key != "baseline"})
    rivals = request.plan.rivals
    if params["baseline"] not in (None, *rivals):
        raise click.UsageError(
            f"The baseline {params['baseline']!r} is not a compared model or fusion. Known: "
            f"{', '.join(rivals)}."
        )
    refuse_idle_workers(params["where"], params["workers"])
    if params["chart"] and request.sweep is None:
        raise click.UsageError("--chart requires --sweep.")
    if params["cache"] and params["no_cache"]:
        raise click.UsageError("--cache and --no-cache exclude each other.")
    written = [params[key] for key in _WRITTEN]
    inputs = params["config"], *request.files, options.group_file(params["by"])
    for path in written:
        output.refuse_input(path, *inputs)
    output.refuse_same_file(*written)
    if params["html"]:
        find_hook("check_report_file")(params["html"])
    if params["per_query"]:
        output.choose_format(None, False, params["per_query"], known=_QUERY_FORMATS)


def _with_gate(request: BenchRequest, gate: Gate, params: Params) -> BenchRequest:
    """Return a copy with the measures of the gate, which is refused where nothing could fail it."""
    plan, baseline = request.plan, params["baseline"]
    gate.refuse_without(baseline is not None)
    gated = len(plan.rivals) > 1 or baseline in plan.bases.values()
    if baseline is not None and gate.wanted and not gated:
        raise click.UsageError("The baseline is the only system. Add the one to check.")
    output.refuse_same_file(*(params[key] for key in _WRITTEN), gate.look_file)
    named = request.measures or request.usual_measures
    return replace(request, measures=tuple(dict.fromkeys((*named, *map(str, gate.measures)))))


def _add_variants(answer: GateAnswer, result: BenchResult, settings: dict[str, Any]) -> GateAnswer:
    """Return the answer with the variants of the baseline that are worse than it."""
    baseline = settings["baseline"]
    how = {key: value for key, value in settings.items() if key != "baseline"}
    for family in result.variants(**how):
        if family.baseline == baseline:
            reasons = [*(answer.reasons or ()), *gates.worse_than_baseline(family)]
            shown = "; ".join(filter(None, [answer.shown, gates.describe_pass(family, baseline)]))
            return replace(answer, reasons=reasons, shown=shown)
    return answer


def _run(params: Params, request: BenchRequest, saving: Saving) -> tuple[BenchResult, Any, str]:
    """Return the result, the tasks of the cluster if there was one, and the column of groups."""
    vectors = None
    if not params["no_cache"]:
        vectors = models.EmbeddingCache(params["cache"], tell=output.log)
    named = params["conventions"]
    if not options.is_typed("conventions"):
        named = request.options.get("conventions", named)
    choices = {key: params[key] for key in options.CONVENTIONS}
    rules = options.make_conventions(named, **choices)
    output.silence_logging()
    saving.set_name(request.plan.names[0])
    collection = request.load()
    saving.set_dataset(collection.name)
    column, groups = "", None
    if params["by"] is not None:
        column, groups = read_groups(params["by"], collection.query_ids)
    depth = {"depth": params["depth"]} if params["depth"] else {}
    bars = system_bars(len(request.plan.names), saving.listener)
    quiet = click.get_current_context().meta.get("assay.quiet")
    with _open_cluster(params, request) as cluster, bars as progress:
        result = request.run(
            collection,
            cache=vectors,
            progress=progress if quiet else partial(_narrate_pairs, progress),
            cluster=cluster,
            groups=groups,
            conventions=rules,
            **{key: params[key] for key in ("threads", "allow_mismatch")},
            store=click.get_current_context().params["store"],
            **depth,
        )
    result = result if groups is None else result.with_groups(**{column: groups})
    return result, None if cluster is None else cluster.journal, column


def _narrate_pairs(show: Any, name: str, phase: str, done: int, total: int | None) -> None:
    """Say how many pairs a reranker is going to score, and show progress."""
    if phase.startswith("reranking ") and not done:
        output.log(f"{name}: {phase}")
    show(name, phase, done, total)


@contextmanager
def _open_cluster(params: Params, request: BenchRequest) -> Iterator[Any]:
    """Yield where texts are encoded; None stands for this process."""
    if params["where"] is None or not request.plan.encodes:
        yield None
        return
    with find_hook("open_cluster")(params["where"], workers=params["workers"]) as cluster:
        yield cluster


def _narrate_idle_options(result: BenchResult, request: BenchRequest, where: str | None) -> None:
    """Say which options changed nothing."""
    if where is not None and not request.plan.encodes:
        output.log("--cluster ignored: no model encodes texts")
    if request.plan.indexes and not any(system.result.index for system in result.systems):
        output.log("--index ignored: no model produces vectors")


def _write_files(report: BenchReport, params: Params) -> None:
    result = report.result
    if params["chart"]:
        output.write(bench.draw_curves(report.curves), params["chart"])
    if params["html"]:
        path = report.board.save(params["html"])
        output.log(f"{path}: {path.stat().st_size / 1000:,.0f} kB")
    if file := params["per_query"]:
        layout = output.choose_format(None, False, file, known=_QUERY_FORMATS)
        table = output.TableResult(result.query_table(), signature=report.signature)
        output.emit(table, layout, file)
        output.log(f"{file}: {result.chance.n_queries:,} queries")
    if params["runs"]:
        files = bench.write_runs(result, params["runs"])
        output.log(f"{params['runs']}: {len(files)} runs")


def explain_systems(runs: Texts, params: Params) -> tuple[Answers, Callable[[Answers], None]]:
    """Explain one query of a bench.toml, of stored runs or of run files with their texts.

    Returns:
        The answers, and the function that prints them on a terminal.
    """
    explain = _explain_config if runs and runs[0].endswith(".toml") else _explain_files
    explain = _explain_stored if params["saved"] else explain
    answers = explain(runs, params, params["places"] or PLACES)
    return answers, OnDemand("assay.bench.terminal").print_answers


def _explain_config(runs: Texts, params: Params, places: int) -> Answers:
    """Run the bench again; its vectors are in the cache."""
    if len(runs) > 1:
        raise click.UsageError("Several bench.toml. Explain one at a time.")
    with reserve_stdout():
        request = bench.make_request(bench.read_config(runs[0]), **params["consent"].as_options())
    output.note_inputs(*request.files)
    collection, vectors = request.load(), models.EmbeddingCache(tell=output.log)
    with system_bars() as progress:
        result = request.run(collection, cache=vectors, progress=progress)
    return bench.explain_bench(result, params["query"], places=places)


def _explain_files(runs: Texts, params: Params, places: int) -> Answers:
    corpus = params["corpus"]
    folder = texts.TextFolder(corpus, params["extensions"]) if Path(corpus).is_dir() else None
    collection = collections.load_collection(folder or corpus, params["queries"], params["qrels"])
    if folder is not None and folder.left_out:
        output.log(folder.describe_left_out())
    named = zip(run_files.unique_names(runs), runs, strict=True)
    rankings = {name: formats.as_ranking(run, params["rules"]) for name, run in named}
    return bench.explain_rankings(collection, rankings, params["query"], places=places)


def _explain_stored(runs: Texts, params: Params, places: int) -> Answers:
    if places > PLACES:
        output.log(f"--places {places}: stored runs hold only the first {PLACES} documents.")
    with options.open_store(params["store"]) as store:
        if runs:
            stored = [store.run(run) for run in runs]
        else:
            newest = store.runs(task="bench", status="finished", limit=1)
            batch = newest[0].batch if newest else ""
            stored = store.runs(task="bench", status="finished", batch=batch)[::-1]
        return bench.explain_runs(stored, params["query"], places=places)


# Progress of the systems


@contextmanager
def system_bars(n_systems: int = 0, listener: Callable[..., None] | None = None) -> Iterator[Any]:
    """Show a bar for each system of a bench; the listener gets the share of all."""
    parts: dict[str, float] = {}  # of each system; none goes back

    def heard(name: str, phase: str, done: int, total: int | None) -> None:
        drawn(name, phase, done, total)
        if listener is not None and n_systems:
            part = max(done / total if total else 0.0, parts.get(name, 0.0))
            parts.update(dict.fromkeys(parts, 1.0) | {name: part})  # one after the other
            listener(int(100 * sum(parts.values()) / n_systems), 100, f"{name}: {phase}")

    with _draw_system_bars() as drawn, reserve_stdout():
        yield heard


@contextmanager
def _draw_system_bars() -> Iterator[Callable[..., None]]:
    quiet = click.get_current_context().meta.get("assay.quiet")
    if quiet or not sys.stderr.isatty():
        yield lambda name, phase, done, total: tell(f"{name}: {phase}", done, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    bar = Progress(
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.fields[name]}", table_column=None, markup=False),
        BarColumn(24),
        TextColumn("{task.fields[phase]}", style="dim", markup=False),
        console=Console(stderr=True, highlight=False),
    )
    with bar:
        yield _SystemBars(bar).tell


class _SystemBars:
    """One line for each system; it is done when the next one begins."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task: Any = None
        self._name = self._phase = ""
        self._began = self._phase_began = 0.0

    def tell(self, name: str, phase: str, done: int, total: int | None) -> None:
        now = time.perf_counter()
        if name != self._name:
            self._name, self._began, self._phase = name, now, ""
            self._task = self._bar.add_task("", total=None, name=printable(name), phase="")
        if phase != self._phase:
            self._phase, self._phase_began = phase, now
        if phase == "searching" and total is not None:
            spent = f"{now - self._began:.1f} s"
            self._bar.update(self._task, completed=1, total=1, phase=spent)
            return
        words = describe_progress(done, total, now - self._phase_began) if total else ""
        label = f"{phase} {words}".strip()
        self._bar.update(self._task, completed=done, total=total, phase=label)
