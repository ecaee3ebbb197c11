"""The commands of judging: pool, label, judge, agreement; and estimates for eval and compare."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.settings import argument, option
from assay.core.on_demand import OnDemand
from assay.errors import AssayError, UsageError, need

if TYPE_CHECKING:
    from assay.io import columns, streams, texts
    from assay.judging import (
        agreement,
        estimate,
        labels,
        machine,
        page,
        pool,
        queries,
        session,
        terminal,
    )
    from assay.runs.run_files import unique_names
else:
    columns = OnDemand("assay.io.columns")
    streams = OnDemand("assay.io.streams")
    texts = OnDemand("assay.io.texts")
    agreement = OnDemand("assay.judging.agreement")
    estimate = OnDemand("assay.judging.estimate")
    labels = OnDemand("assay.judging.labels")
    machine = OnDemand("assay.judging.machine")
    page = OnDemand("assay.judging.page")
    pool = OnDemand("assay.judging.pool")
    queries = OnDemand("assay.judging.queries")
    session = OnDemand("assay.judging.session")
    terminal = OnDemand("assay.judging.terminal")
    unique_names = OnDemand("assay.runs.run_files").unique_names

METHODS: Final = ("drawn", "depth", "all")
AIMS: Final = ("differences", "means")
FORMATS: Final = ("trec", "csv", "label-studio", "argilla", "log")
_KIND: Final = click.Choice(["human", "machine"])

_texts_options = options.add_options(
    options.in_input("--queries", metavar="FILE", help="Texts of the queries.", reads=True),
    options.in_input(
        "--docs", metavar="FILE|FOLDER", help="Texts of the documents.", reads=True, folder=True
    ),
    options.in_input(
        "--guidelines",
        metavar="FILE",
        help="What each grade means: lines such as '2: answers in part'.",
        reads=True,
    ),
)
_labels_option = options.in_result(
    "--labels",
    "log",
    metavar="FILE",
    type=options.output_file,
    help="The log of labels, which is added to. [POOL with the ending .labels.jsonl]",
    writes=True,
)


def _number_option(
    *names: str, default: int, help: str, section: str = "Input"
) -> Callable[[Any], Any]:
    """Declare an option that takes a whole number from 1."""
    about: dict[str, Any] = {"type": click.IntRange(min=1), "default": default, "metavar": "N"}
    return option(*names, show_default=True, help=help, section=section, **about)


_measure_option = options.in_measures(
    "-m",
    "--measure",
    default="DCG@10",
    show_default=True,
    metavar="NAME",
    help="P@k, DCG@k or RBP; in the pool its weights decide the probabilities.",
)
_endpoint_options = options.add_options(
    option("--base-url", metavar="URL", help="Address of the endpoint.", section="Models"),
    option(
        "--key-env", metavar="NAME", help="Variable of the key. [OPENAI_API_KEY]", section="Models"
    ),
    _number_option("--concurrency", default=4, help="Requests at a time.", section="Machines"),
    option(
        "--price",
        "prices",
        type=float,
        nargs=2,
        metavar="IN OUT",
        help="Price of a million tokens sent and received.",
        section="Machines",
    ),
)


def _tell_cost(tokens: tuple[int, int], prices: tuple[float, float] | None, about: str) -> None:
    """Say how many tokens are sent and received, and what they cost."""
    cost = (
        f", cost {sum(n * p for n, p in zip(tokens, prices, strict=True)) / 1e6:.4f}"
        if prices
        else ""
    )
    output.log(f"{about}{tokens[0]:,} tokens sent and {tokens[1]:,} received{cost}")


def _read_prompt(path: str | None, default: str) -> str:
    return default if path is None else streams.read_text(path)


def _named(runs: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(unique_names(runs), runs, strict=True)) if runs else {}


# assay pool


@click.command("pool", cls=Command)
@argument("runs", nargs=-1, required=True, metavar="RUN...", reads=True)
@options.write_option("The pool to write.", "target", required=True)
@_number_option(
    "-n",
    "--labels",
    "n",
    default=200,
    help="Number of pairs to draw, on average; with --extend how many more.",
)
@_measure_option
@options.in_measures(
    "--aim",
    type=click.Choice(AIMS),
    default=AIMS[0],
    show_default=True,
    help="Draw for differences of systems, or also for the mean of each.",
)
@options.in_measures(
    "--method",
    type=click.Choice(METHODS),
    default=METHODS[0],
    show_default=True,
    help="Draw by weight, or take all pairs down to --depth, or all.",
)
@options.in_measures(
    "--depth", type=click.IntRange(min=1), metavar="N", help="Last rank that counts."
)
@options.in_measures(
    "--scale", default="0-3", show_default=True, metavar="A-B", help="Lowest and highest grade."
)
@options.in_input(
    "--machine-labels",
    "sure",
    metavar="FILE",
    help="Labels of a model with its confidence: unsure pairs are drawn more.",
    reads=True,
)
@options.in_input("--extend", metavar="POOL", help="The pool to add to.", reads=True)
@options.seed_option_for("Seed of the draw.")
@options.json_option
def pool_command(
    *,
    runs: tuple[str, ...],
    target: str,
    scale: str,
    sure: str | None,
    extend: str | None,
    json_wanted: bool,
    **settings: Any,
) -> None:
    """Choose the pairs of query and document to label.

    By default the pairs that decide a comparison: each is drawn with a probability proportional to
    its weight in the differences of the systems, and the file holds every pair's probability.

    \b
    Examples:
      assay pool dense.run lexical.run -n 100 -o pool.tsv
      assay pool dense.run lexical.run --aim means -m P@5 -n 150 -o means.tsv
      assay pool dense.run lexical.run coarse.run -n 50 --extend pool.tsv -o larger.tsv
      assay pool dense.run lexical.run --method depth --depth 5 -o depth.tsv
    """
    output.refuse_input(target, *runs, sure)
    output.note_inputs(extend)
    before = None if extend is None else pool.read_pool(extend)
    doubt = None if sure is None else labels.read_labels(sure, kind="machine").uncertainty()
    result = pool.make_pool(
        _named(runs), scale=_parse_scale(scale), uncertainty=doubt, extend=before, **settings
    )
    result.write(target)
    summary = _PoolSummary(result, target)
    output.emit(summary, "json" if json_wanted else "text", None)


def _parse_scale(text: str) -> list[int]:
    low, dash, high = text.partition("-")
    if (
        not dash
        or not low.isdigit()
        or not high.isdigit()
        or int(high) - int(low) not in range(1, 100)
    ):
        raise click.UsageError(f"A scale is its lowest and highest grade, as 0-3, not {text!r}.")
    return list(range(int(low), int(high) + 1))


@dataclass(frozen=True)
class _PoolSummary:
    pool: Any
    file: str

    def __str__(self) -> str:
        share = self.pool.n_drawn / len(self.pool)
        return (
            f"{self.pool.n_drawn:,} of {len(self.pool):,} pairs to label ({share:.0%}), "
            f"{len(self.pool.query_ids):,} queries. Next: assay label {self.file}"
        )

    def to_dict(self) -> dict[str, Any]:
        sizes = {"pairs": len(self.pool), "drawn": self.pool.n_drawn}
        about = {"queries": len(self.pool.query_ids), "settings": dict(self.pool.settings)}
        return {"file": self.file, "digest": self.pool.digest, **sizes, **about}


# assay label


@click.command("label", cls=Command)
@argument("pool_file", metavar="POOL", reads=True)
@_texts_options
@_labels_option
@options.in_input("--by", default="", metavar="NAME", help="Who labels. [the page asks]")
@options.in_input(
    "--run",
    "runs",
    multiple=True,
    metavar="RUN",
    help="A system, to show what is known so far. May be repeated.",
    reads=True,
)
@options.in_input(
    "--terminal", "in_terminal", is_flag=True, help="Label in the terminal, not on a page."
)
@options.in_input(
    "--twice",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    metavar="X",
    help="Share of the pairs that two people label.",
)
@option(
    "-p",
    "--port",
    section="Machines",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    metavar="N",
    help="Port of the page; 0 takes any that is free.",
)
@options.in_input(
    "--import", "imported", metavar="FILE", help="Add the labels of another tool.", reads=True
)
@options.in_result(
    "--export",
    metavar="FILE",
    type=options.output_file,
    help="Write the labels for another tool.",
    writes=True,
)
@options.in_result(
    "--format", "named", type=click.Choice(FORMATS), help="Format of --import or --export."
)
@options.in_input("--kind", type=_KIND, default="human", show_default=True, help="Of --import.")
def label_command(
    *,
    pool_file: str,
    queries: str | None,
    docs: str | None,
    guidelines: str | None,
    log: str | None,
    by: str,
    runs: tuple[str, ...],
    in_terminal: bool,
    twice: float,
    port: int,
    imported: str | None,
    export: str | None,
    **about: Any,
) -> None:
    """Label the pairs of a pool, on a local page or in the terminal.

    Pairs come in random order, without system or rank. Keys: a grade, s skip, c cannot judge,
    n note, u undo. Every label is on disk before the next pair is shown; Ctrl-C ends it.

    \b
    Examples:
      assay label pool.tsv --queries topics.jsonl --docs notes.jsonl # stays up
      assay label pool.tsv --queries topics.jsonl --docs notes.jsonl --by ada --terminal
      assay label pool.tsv --labels pool.labels.jsonl --export labels.csv --format csv
      assay label pool.tsv --import judged.txt --format trec --by team --labels team.jsonl
    """
    opened = pool.read_pool(pool_file)
    book = labels.LabelLog(log or _log_of(pool_file))
    if imported is not None:
        _import(opened, book, imported, by, **about)
        return
    shown = _read_texts(queries, docs)
    if export is not None:
        _export(opened, book, export, about["named"] or "csv", shown)
        return
    open_session = partial(session.LabelSession, opened, book, texts=shown, twice=twice)
    meaning = _read_guidelines(guidelines)
    if in_terminal:
        name = by or os.environ.get("USER") or "me"
        terminal.label_in_terminal(open_session(by=name), meaning)
        return
    for package in ("starlette", "uvicorn"):
        need(package, "The page for labelling", "serve")

    def ready(address: str) -> None:
        print(address, flush=True)
        output.log(f"labels go to {book.path}; serving until Ctrl-C")

    state = partial(_describe_state, _named(runs), opened, book)
    page.serve_labels(
        lambda name: open_session(by=name), meaning, port=port, by=by, ready=ready, status=state
    )


def _describe_state(runs: dict[str, str], opened: Any, book: Any) -> str:
    """Return what is known so far, by intervals that stay valid whenever one stops."""
    if len(runs) < 2:
        return ""
    try:
        estimates = estimate.estimate_from_labels(runs, opened, book.read()).estimates
    except AssayError:
        return ""  # before the first label, say
    intervals = [
        f"{each.measure}, {each.a} − {each.b}: {each.sequence.text(sign=True)}"
        for each in estimates
        if each.sequence is not None
    ]
    return f"Known so far: {'; '.join(intervals)}" if intervals else "Too few labels yet."


def _log_of(pool_file: str) -> str:
    return str(Path(pool_file).with_suffix(".labels.jsonl"))


def _import(opened: Any, book: Any, source: str, by: str, named: str | None, kind: str) -> None:
    from dataclasses import replace

    added = labels.read_labels(source, format=named, by=by, kind=kind).check(opened, source)
    book.append(*(replace(label, pool=opened.digest) for label in added.labels))
    output.log(f"{len(added):,} labels of {source} are in {book.path}")


def _export(opened: Any, book: Any, target: str, format: str, shown: Any) -> None:
    labelled = book.read().check(opened, str(book.path))
    pairs = {
        pair: (shown.queries.get(pair[0], ""), shown.docs.get(pair[1], ""))
        for pair in labelled.by_pair()
    }
    labels.write_labels(labelled, target, format=format, texts=pairs)
    output.log(f"{len(labelled):,} labels are in {target}")


def _read_texts(queries: str | None, docs: str | None) -> Any:
    def read(path: str | None, role: Any) -> dict[str, str]:
        if path is None:
            return {}
        both = texts.read_texts(path, role)
        return dict(zip(map(str, both.ids), both.texts, strict=True))

    descriptions = {} if queries is None else _read_column(queries, "query id", "description")
    return session.LabelTexts(read(queries, "query"), read(docs, "doc"), descriptions)


def _read_column(path: str, role: str, name: str) -> dict[str, str]:
    """Return a column of a file of texts by id, if it has that column."""
    try:
        table = columns.open_table(path, "a table of texts")
        id = table.find(role)
        if id is None or name not in table.names:
            return {}
        ids, words = table.columns([id, name], gaps=[name])
    except AssayError:
        return {}
    return {str(key): str(text) for key, text in zip(ids, words, strict=True) if text}


def _read_guidelines(path: str | None) -> Mapping[int, str]:
    from assay.judging.session import GUIDELINES

    if path is None:
        return GUIDELINES
    meaning = {}
    for line in filter(str.strip, streams.read_text(path).splitlines()):
        grade, colon, words = line.partition(":")
        if not (colon and grade.strip().isdigit()):
            raise UsageError(f"{path}: lines are like '2: answers in part', not {line[:40]!r}.")
        meaning[int(grade)] = words.strip()
    return meaning


# assay judge


@click.command("judge", cls=Command)
@argument("pool_file", metavar="POOL", reads=True)
@option(
    "--model",
    required=True,
    metavar="SPEC",
    help="openai:NAME of a chat endpoint, or py:MODULE:FUNCTION.",
    section="Models",
)
@_texts_options
@options.in_input("--prompt", metavar="FILE", help="With {query} and {document}.", reads=True)
@options.in_result(
    "--labels",
    "log",
    type=options.output_file,
    required=True,
    metavar="FILE",
    help="The log of machine labels.",
    writes=True,
)
@_endpoint_options
@option(
    "--temperature",
    type=click.FloatRange(min=-1),
    default=0.0,
    show_default=True,
    metavar="X",
    help="Temperature; -1 leaves it to the endpoint.",
    section="Models",
)
@option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Number of pairs.", section="Machines"
)
@options.json_option
def judge_command(
    *,
    pool_file: str,
    model: str,
    queries: str | None,
    docs: str | None,
    guidelines: str | None,
    prompt: str | None,
    log: str,
    base_url: str | None,
    key_env: str | None,
    temperature: float,
    json_wanted: bool,
    **settings: Any,
) -> None:
    """Let a model label the pairs of a pool.

    The log is the cache: a run that broke off goes on where it ended. Answers that cannot be read
    are counted and never guessed. The key stays in the environment.

    \b
    Examples:
      assay judge pool.tsv --model py:demo_judge:judge --queries topics.jsonl \\
        --docs notes.jsonl --labels machine.jsonl
      assay judge pool.tsv --model openai:gpt-oss-20b --base-url http://127.0.0.1:8000/v1 \\
        --queries topics.jsonl --docs notes.jsonl --labels gpt.jsonl # needs a network
    """
    if queries is None or docs is None:
        raise click.UsageError("A judge reads texts: give --queries and --docs.")
    from assay.judging.machine import PROMPT

    opened, shown = pool.read_pool(pool_file), _read_texts(queries, docs)
    words = _read_prompt(prompt, PROMPT)
    heat = None if temperature < 0 else temperature
    ask = machine.open_model(model, base_url=base_url, key_env=key_env, temperature=heat)
    if model.startswith("openai:"):
        _tell_cost(machine.estimate_cost(opened, shown, words), settings["prices"], "about ")
    settings |= {"ask": ask, "prompt": words, "guidelines": _read_guidelines(guidelines)}
    report = machine.judge_pool(opened, shown, labels.LabelLog(log), model=model, **settings)
    output.emit(report, "json" if json_wanted else "text", None)


# assay agreement


@click.command("agreement", cls=Command)
@argument("files", nargs=-1, required=True, metavar="LABELS...", reads=True)
@options.in_input(
    "--run", "runs", multiple=True, metavar="RUN", help="A system. May be repeated.", reads=True
)
@_measure_option
@options.resamples_option
@options.seed_option
@options.result_options()
def agreement_command(
    *,
    files: tuple[str, ...],
    runs: tuple[str, ...],
    measure: str,
    resamples: int,
    seed: int,
    layout: str,
    file: str | None,
) -> None:
    """Measure how labellers agree, and whether a judge favours a system.

    Files are logs of labels, qrels, CSV or exports of other tools; the first is the reference.

    \b
    Examples:
      assay agreement pool.labels.jsonl machine.labels.jsonl
      assay agreement pool.labels.jsonl machine.labels.jsonl --run dense.run --run lexical.run
    """
    output.refuse_input(file, *files, *runs)
    people: dict[str, dict[Any, float]] = {}
    for path, name in zip(files, unique_names(files), strict=True):
        grades = labels.read_labels(path).by_labeller()
        for who, marks in grades.items():
            people[name if len(grades) == 1 and name not in people else f"{name}:{who}"] = marks
    report = agreement.measure_agreement(
        people, runs=_named(runs), measure=measure, resamples=min(resamples, 2000), seed=seed
    )
    output.emit(report, layout, file)


# assay queries


@click.command("queries", cls=Command)
@argument("source", metavar="LOG|DOCS", reads=True)
@options.write_option("The queries to write, as JSON lines.", "target", required=True)
@options.in_result(
    "--qrels",
    type=options.output_file,
    metavar="FILE",
    help="Write which document each query was made from, as qrels.",
    writes=True,
)
@_number_option(
    "-n", "--number", default=100, help="Number of queries; with --strata from each stratum."
)
@options.in_input("--log", "is_log", is_flag=True, help="The file is a log of queries.")
@options.in_input("--column", metavar="NAME", help="Column of the queries in a log.")
@options.in_input("--strata", metavar="NAME", help="Column of the strata in a log.")
@options.in_input("--uniform", is_flag=True, help="Sample distinct queries alike, not by count.")
@options.in_input(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(["title", "heading", "sentence"]),
    help="What to take from documents. May be repeated. [all]",
)
@_number_option("--per-doc", default=1, help="Number of queries from one document.")
@option("--model", metavar="SPEC", help="openai:NAME or py:MODULE:FUNCTION.", section="Models")
@options.in_input("--prompt", metavar="FILE", help="With {document} and {n}.", reads=True)
@_endpoint_options
@options.in_result(
    "--cache",
    type=options.output_file,
    metavar="FILE",
    help="The model's answers, to go on from.",
    writes=True,
)
@options.seed_option_for("Seed of the sample.")
@options.json_option
def queries_command(
    *,
    source: str,
    target: str,
    qrels: str | None,
    number: int,
    is_log: bool,
    kinds: tuple[str, ...],
    per_doc: int,
    model: str | None,
    seed: int,
    json_wanted: bool,
    **settings: Any,
) -> None:
    """Make queries from a log, from documents, or by a model.

    Each query keeps where it came from. What is often wrong with generated queries is counted:
    copies of the text, duplicates, questions that need the passage in view.

    \b
    Examples:
      assay queries searches.csv --log -n 20 -o sampled.jsonl
      assay queries docs.jsonl -n 30 --kind sentence -o made.jsonl --qrels made.qrels
      assay queries notes.jsonl --model py:demo_judge:write -n 10 -o written.jsonl
    """
    output.refuse_input(target, source, settings["prompt"])
    output.refuse_same_file(target, qrels, settings["cache"])
    of_log = {key: settings.pop(key) for key in ("column", "strata", "uniform")}
    stray = [key for key, value in of_log.items() if value]
    if stray and not is_log:
        raise click.UsageError(f"--{stray[0]} requires --log.")
    if is_log and (model or kinds or qrels):
        raise click.UsageError("--log samples queries; --model, --kind and --qrels need documents.")
    if is_log:
        result = queries.queries_from_log(source, number, seed=seed, **of_log)
    elif model is None:
        titles = _read_column(source, "doc id", "title")
        parts, docs = kinds or ("title", "heading", "sentence"), _read_texts(None, source).docs
        result = queries.queries_from_docs(
            docs, number, kinds=parts, per_doc=per_doc, seed=seed, titles=titles
        )
    else:
        result = _write_queries(source, number, model, per_doc=per_doc, seed=seed, **settings)
    result.write(target, qrels)
    output.emit(result, "json" if json_wanted else "text", None)


def _write_queries(
    source: str,
    number: int,
    model: str,
    *,
    prompt: str | None,
    base_url: str | None,
    key_env: str | None,
    prices: tuple[float, float] | None,
    **settings: Any,
) -> Any:
    """Let a model write queries; say before and after what it costs."""
    from assay.judging.queries import PROMPT

    words, docs = _read_prompt(prompt, PROMPT), _read_texts(None, source).docs
    ask = machine.open_model(model, base_url=base_url, key_env=key_env)
    if model.startswith("openai:") and docs:
        n_docs = min(len(docs), -(-number // settings["per_doc"]))
        size = n_docs * (sum(map(len, docs.values())) / len(docs) + len(words))
        _tell_cost((round(size / 4), 20 * number), prices, "about ")
    result = queries.queries_from_model(
        docs, number, model=model, ask=ask, prompt=words, **settings
    )
    if prices and any(result.tokens):
        _tell_cost(result.tokens, prices, "")
    return result


# assay eval and assay compare


_UNDERSTOOD: Final = {
    *("runs", "measures", "baseline", "rel", "level", "pool", "labels", "machine_labels"),
    *("named", "json_wanted", "file", "full", "signature"),
}


def estimate_labels(
    pool_file: str,
    labels_file: str,
    machine_file: str | None,
    *,
    means: bool,
    settings: Mapping[str, Any],
) -> int:
    """Print estimates from drawn labels, for `assay eval` (means) and `assay compare`.

    Args:
        pool_file: The pool.
        labels_file: Human labels.
        machine_file: Machine labels, if any.
        means: Whether means are asked for, not differences.
        settings: The command's other settings.

    Returns:
        The exit code.
    """
    context = click.get_current_context()
    for name in context.params:
        typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if typed and name not in _UNDERSTOOD:
            flag = next(p.opts[-1] for p in context.command.params if p.name == name)
            raise UsageError(f"{flag} does not go with --pool.")
    if settings["layout"] in ("trec", "model-card"):
        raise UsageError(f"--format {settings['layout']} holds no estimates.")
    runs, file = _named(settings["runs"]), settings["file"]
    output.refuse_input(file, *settings["runs"], pool_file, labels_file, machine_file)
    base = settings.get("baseline")
    if base is not None and base not in runs:
        by_path = {path: name for name, path in runs.items()}
        base, path = by_path.get(base) or unique_names([base])[0], base
        runs = {base: path, **runs}
    result = estimate.estimate_from_labels(
        runs,
        pool.read_pool(pool_file),
        labels.read_labels(labels_file),
        machine=labels.read_labels(machine_file, kind="machine") if machine_file else None,
        measures=settings["measures"],
        means=means,
        baseline=base,
        rel=settings["rel"],
        level=settings.get("level", 0.05),
    )
    output.emit(result, settings["layout"], file, command=f"{context.command.name} labels")
    return 0
