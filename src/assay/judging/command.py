"""The commands of judging: pool, label, judge, agreement; and estimates for eval and compare."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import click

from assay import judging
from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.options import add_options, in_input, in_machines, in_measures, in_models, in_result
from assay.cli.progress import reserve_stdout
from assay.cli.settings import argument
from assay.core.on_demand import OnDemand
from assay.core.text import bracket, interval_heading
from assay.errors import AssayError, UsageError, need
from assay.judging.plugin import AIMS, METHODS, PLUGIN
from assay.judging.plugin import QUERY_KINDS as KINDS
from assay.tables.table import Cell, table_of

if TYPE_CHECKING:
    from assay.io import columns, streams, texts
    from assay.runs.run_files import unique_names
else:
    columns, streams = OnDemand("assay.io.columns"), OnDemand("assay.io.streams")
    texts, unique_names = OnDemand("assay.io.texts"), OnDemand("assay.runs.run_files").unique_names

FORMATS: Final = ("trec", "csv", "label-studio", "argilla", "log")

_GRADES: Final = "Meaning of grades, such as '2: answers in part'."
_texts_options = add_options(
    in_input("--queries FILE", help="Texts of the queries.", reads=True),
    in_input("--docs FILE|FOLDER", help="Texts of the documents.", reads=True, folder=True),
    in_input("--guidelines FILE", reads=True, help=_GRADES),
)
_writes: Final[dict[str, Any]] = {"type": options.output_file, "writes": True}
_measure_option = in_measures(
    "-m", "--measure NAME", shown="DCG@10", help="Target measure: P@k, DCG@k or RBP."
)
_MODEL: Final = "Model: openai:NAME or py:MODULE:FUNCTION."
_PRICE: Final = "Prices per million tokens sent and received."
_endpoint_options = add_options(
    in_models("--base-url URL", help="Endpoint URL."),
    in_models("--key-env NAME", help="Environment variable of the key. [OPENAI_API_KEY]"),
    in_machines("--concurrency N", least=1, shown=4, help="Number of concurrent requests."),
    in_machines("--rate N", least=1, help="Maximum requests per minute."),
    in_machines("--price IN OUT", "prices", type=float, nargs=2, help=_PRICE),
)
_runs_option = in_input(
    "--run RUN", "runs", multiple=True, help="Run of a system. May be repeated.", reads=True
)


def _open_model(spec: str, settings: dict[str, Any], **about: Any) -> dict[str, Any]:
    """Return the settings of work with a model; say what it will cost before it starts."""
    address = {key: settings.pop(key) for key in ("base_url", "key_env", "rate")}
    opened: dict[str, Any] = {"model": spec, "ask": judging.open_model(spec, **address, **about)}
    if spec.startswith("openai:"):
        opened["before"] = partial(_tell_cost, settings["prices"], "about ")
    return opened


def _tell_cost(prices: tuple[float, float] | None, words: str, sent: int, received: int) -> None:
    price = judging.machine.price_of(prices, sent, received)
    output.log(words + judging.machine.describe_tokens(sent, received, price))


def _named(runs: tuple[str, ...]) -> dict[str, Any]:
    """Return systems by name: run files, folders of them, and stored runs by number."""
    paths = [path for run in runs for path in _runs_in(run)]
    files = [p for p in paths if os.path.exists(p) or not re.fullmatch("(run:)?[0-9]{1,7}", p)]
    named: dict[str, Any] = dict(zip(unique_names(files), files, strict=True)) if files else {}
    stored = [path.removeprefix("run:") for path in paths if path not in files]
    if stored:
        with options.open_store(click.get_current_context().params.get("store")) as store:
            for run in (store.run(key) for key in stored):
                if not run.has_results:
                    raise UsageError(f"Run {run.id} has no stored results. Pass its run file.")
                rows = {q: [d.doc for d in part.results] for q, part in run.all_results().items()}
                named[f"{run.name} #{run.id}" if run.name in named else run.name] = rows
    return named


def _stored_limits(named: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a remark per stored run with missing depth."""
    lists = [(name, rows.values()) for name, rows in named.items() if isinstance(rows, dict)]
    lengths = [(name, max(map(len, docs), default=0)) for name, docs in lists]
    return tuple(f"{name}: the first {n} documents of each query are stored" for name, n in lengths)


def _runs_in(path: str) -> list[str]:
    """Return the run files of a folder, as 'assay bench --runs' writes them, or the path."""
    if not os.path.isdir(path):
        return [path]
    files = sorted(str(file) for file in Path(path).glob("*.run*") if file.is_file())
    if not files:
        raise UsageError(f"{path} holds no run files. Add NAME.run files.")
    return files


def _refuse_typed(problem: str, names: Iterable[str]) -> None:
    """Refuse options of this command that were typed and would change nothing."""
    for parameter in click.get_current_context().command.params:
        if parameter.name in names and options.is_typed(str(parameter.name)):
            raise click.UsageError(f"{parameter.opts[-1]} {problem}.")


# assay pool


@click.command("pool", cls=Command)
@argument("runs", nargs=-1, required=True, metavar="RUN...", reads=True)
@options.store_option
@options.write_option("Pool file to write.", "target", required=True)
@in_input("-n", "--labels N", "n", least=1, shown=200, help="Expected number of pairs to draw.")
@_measure_option
@in_measures("--aim", choices=AIMS, shown=AIMS[0], help="Aim: differences, or also means.")
@in_measures("--method", choices=METHODS, shown=METHODS[0], help="Sampling of the pairs.")
@in_measures("--depth N", least=1, help="Pool depth.")
@in_measures("--scale A-B", shown="0-3", help="Grade scale, such as 0-3.")
@in_input(
    "--machine-labels FILE",
    "sure",
    help="Machine labels; uncertain pairs are drawn more often.",
    reads=True,
)
@in_input("--extend POOL", help="Pool to extend.", reads=True)
@options.seed_option_for("Random seed.")
@options.json_option
def pool_command(
    *, runs: Any, target: str, sure: Any, extend: Any, json_wanted: bool, **settings: Any
) -> None:
    """Choose the pairs of query and document to label.

    Default: the pairs that decide a comparison, drawn with probability proportional to their weight
    in the systems' differences; the file holds every probability. RUN is a run file, a folder of
    them, or the number of a stored run with its results.

    \b
    Examples:
      assay pool dense.run lexical.run -n 100 -o pool.tsv
      assay pool dense.run lexical.run --aim means -m P@5 -n 150 -o means.tsv
      assay pool dense.run lexical.run coarse.run -n 50 --extend pool.tsv -o larger.tsv
      assay pool dense.run lexical.run --method depth --depth 5 -o depth.tsv
    """
    output.refuse_input(target, *runs, sure)
    output.note_inputs(extend)
    del settings["store"]
    if extend is not None:
        _refuse_typed("excludes --extend, whose pool decides", ("seed", "scale"))
    settings["scale"] = _parse_scale(settings["scale"])
    settings["extend"] = None if extend is None else judging.read_pool(extend)
    doubt = None if sure is None else judging.read_labels(sure, kind="machine").uncertainty()
    if doubt == {}:
        raise UsageError(f"{sure} states no confidence. Omit --machine-labels.")
    named = _named(runs)
    for limit in _stored_limits(named):
        output.log(limit)
    result = judging.make_pool(named, uncertainty=doubt, **settings)
    result.write(target)
    n, drawn, n_queries = len(result), result.n_drawn, len(result.query_ids)
    words = f"{drawn:,} of {n:,} pairs to label ({100 * drawn / n:.0f} %), {n_queries:,} queries"
    sizes = {"pairs": n, "drawn": drawn, "queries": n_queries}
    data = {"file": target, "digest": result.digest, **sizes, "settings": dict(result.settings)}
    summary = output.TextResult(f"{words}. Next: assay label {target}", data)
    output.emit(summary, "json" if json_wanted else "text", None)


def _parse_scale(text: str) -> list[int]:
    match = re.fullmatch("([0-9]{1,6})-([0-9]{1,6})", text)
    grades = list(range(int(match[1]), int(match[2]) + 1)) if match else []
    if not 2 <= len(grades) <= 100:
        raise click.UsageError(f"Cannot read the scale {text!r}. Write low-high, such as 0-3.")
    return grades


# assay label


@click.command("label", cls=Command)
@argument("pool_file", metavar="POOL", reads=True)
@_texts_options
@in_result("--labels FILE", "log", help="Label log to append to. [POOL.labels.jsonl]", **_writes)
@in_input("--by NAME", default="", help="Labeller's name. [asked on the page]")
@_runs_option
@in_input("--terminal", is_flag=True, help="Label in the terminal.")
@in_input("--twice X", type=click.FloatRange(0, 1), shown=0.0, help="Share labelled twice.")
@in_input(
    "-p", "--port N", type=click.IntRange(0, 65535), shown=0, help="Port; 0 for any free port."
)
@in_input("--import FILE", "imported", help="Labels of another tool to import.", reads=True)
@in_result("--export FILE", help="File for labels of another tool.", **_writes)
@in_result("--format", "named", choices=FORMATS, help="Format of --import or --export.")
@in_input("--kind", choices=("human", "machine"), shown="human", help="Kind of imported labels.")
def label_command(**settings: Any) -> None:
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
    at = SimpleNamespace(**settings)
    opened = judging.read_pool(at.pool_file)
    book = judging.LabelLog(at.log or Path(at.pool_file).with_suffix(".labels.jsonl"))
    log, texts_read = str(book.path), (at.queries, at.docs, at.guidelines)
    output.refuse_input(log, at.pool_file, at.imported, *texts_read, *at.runs)
    output.refuse_input(at.export, at.pool_file, log, *texts_read, *at.runs)
    if at.imported is None:
        _refuse_typed("requires --import", ("kind",))
        if at.export is None:
            _refuse_typed("requires --import or --export", ("named",))
    if at.imported is not None:
        _refuse_typed("excludes --import", ("export", "terminal", "twice", "port"))
        added = judging.read_labels(at.imported, format=at.named, by=at.by, kind=at.kind)
        added.check(opened, at.imported)
        book.append(*(replace(label, pool=opened.digest) for label in added.labels))
        output.log(f"{len(added):,} labels of {at.imported} are in {book.path}")
        return
    label_texts = _read_texts(at.queries, at.docs)
    if at.export is not None:
        _refuse_typed("excludes --export", ("terminal", "twice", "port"))
        if not book.path.exists():
            raise streams.missing_file(log)
        labelled = book.read().check(opened, str(book.path))
        pairs = {
            (q, d): (label_texts.queries.get(q, ""), label_texts.docs.get(d, ""))
            for q, d in labelled.by_pair()
        }
        judging.write_labels(labelled, at.export, format=at.named or "csv", texts=pairs)
        output.log(f"{len(labelled):,} labels are in {at.export}")
        return
    open_session = partial(judging.LabelSession, opened, book, texts=label_texts, twice=at.twice)
    meaning = _read_guidelines(at.guidelines)
    state = judging.session.LabelStatus(_named(at.runs), opened, book)
    if at.terminal:
        name = at.by or os.environ.get("USER") or "me"
        judging.session.label_in_terminal(open_session(by=name), meaning, status=state.compute)
        return
    for package in ("starlette", "uvicorn"):
        need(package, "The page for labelling", "serve")

    def ready(address: str) -> None:
        print(address, flush=True)
        output.log(f"labels go to {book.path}; serving until Ctrl-C")

    from assay.judging.page import serve_labels

    serve_labels(open_session, meaning, port=at.port, by=at.by, ready=ready, status=state)


def _read_texts(queries: str | None, docs: str | None) -> Any:
    def read(path: str | None, role: Any) -> dict[str, str]:
        both = texts.read_texts(path, role) if path else texts.Texts((), ())  # type: ignore[arg-type]
        return dict(zip(map(str, both.ids), both.texts, strict=True))

    descriptions = {} if queries is None else _read_column(queries, "query id", "description")
    return judging.LabelTexts(read(queries, "query"), read(docs, "doc"), descriptions)


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
    if path is None:
        return judging.session.GUIDELINES
    meaning = {}
    for line in filter(str.strip, streams.read_text(path).splitlines()):
        grade, colon, words = line.partition(":")
        if not (colon and grade.strip().isdigit()):
            raise UsageError(f"{path}: write lines as '2: answers in part', not {line[:40]!r}.")
        meaning[int(grade)] = words.strip()
    return meaning


# assay judge


@click.command("judge", cls=Command)
@argument("pool_file", metavar="POOL", reads=True)
@in_models("--model SPEC", required=True, help=_MODEL)
@_texts_options
@in_input("--prompt FILE", help="Prompt file with {query} and {document}.", reads=True)
@in_result("--labels FILE", "log", required=True, help="Log of machine labels.", **_writes)
@_endpoint_options
@in_models(
    "--temperature X",
    type=float,
    shown=0.0,
    help="Sampling temperature; -1 for the endpoint default.",
)
@in_machines("--limit N", least=1, help="Number of pairs.")
@options.json_option
def judge_command(
    *, pool_file: str, model: str, queries: Any, docs: Any, json_wanted: bool, **settings: Any
) -> None:
    """Let a model label the pairs of a pool.

    The log is the cache: an interrupted run resumes. Unreadable answers are counted, never guessed.
    The key stays in the environment.

    \b
    Examples:
      assay judge pool.tsv --model py:demo_judge:judge --queries topics.jsonl \\
        --docs notes.jsonl --labels machine.jsonl
      assay judge pool.tsv --model openai:gpt-oss-20b --base-url http://127.0.0.1:8000/v1 \\
        --queries topics.jsonl --docs notes.jsonl --labels gpt.jsonl # needs a network
    """
    if queries is None or docs is None:
        raise click.UsageError("A judge needs texts. Pass --queries and --docs.")
    opened, label_texts = judging.read_pool(pool_file), _read_texts(queries, docs)
    prompt, heat = settings.pop("prompt"), settings.pop("temperature")
    if prompt:
        settings["prompt"] = streams.read_text(prompt)
    settings["guidelines"] = _read_guidelines(settings["guidelines"])
    with reserve_stdout():
        settings |= _open_model(model, settings, temperature=None if heat < 0 else heat)
        log = judging.LabelLog(settings.pop("log"))
        report = judging.judge_pool(opened, label_texts, log, **settings)
    output.emit(report, "json" if json_wanted else "text", None)


# assay agreement


@click.command("agreement", cls=Command, verified=True)
@argument("files", nargs=-1, required=True, metavar="LABELS...", reads=True)
@_runs_option
@_measure_option
@in_input("--by FILE[:COLUMN]", help="Topic column of queries; 'query' for each query.", reads=True)
@options.in_statistics("--within X", type=float, shown=0.05, help="Target half width of κ.")
@options.resamples_option
@options.seed_option
@options.result_options()
@options.save_options("judging")
def agreement_command(
    *, files: Any, runs: Any, by: str | None, layout: str, file: Any, saving: Any, **settings: Any
) -> None:
    """Measure how labellers agree, and whether a judge favours a system.

    Files are logs of labels, qrels, CSV or exports of other tools; the first is the reference.

    \b
    Examples:
      assay agreement pool.labels.jsonl machine.labels.jsonl
      assay agreement pool.labels.jsonl machine.labels.jsonl --run dense.run --run lexical.run
      assay agreement pool.labels.jsonl machine.labels.jsonl --by kinds.tsv:kind --save
    """
    output.refuse_input(file, *files, *runs, None if by == "query" else options.group_file(by))
    people: dict[str, dict[Any, float]] = {}
    for path, name in zip(files, unique_names(files), strict=True):
        grades = judging.read_labels(path).by_labeller()
        for who, marks in grades.items():
            people[name if len(grades) == 1 and name not in people else f"{name}:{who}"] = marks
    queries = sorted({query for marks in people.values() for query, _ in marks})
    settings["topics"] = dict(zip(queries, queries, strict=True)) if by else None
    if by and by != "query":
        from assay.core.ids import Ids

        settings["topics"] = columns.read_groups(by, Ids.of(queries, "query"))[1]
    settings["resamples"] = min(settings["resamples"], 2000)
    named = _named(runs)
    report = judging.measure_agreement(people, runs=named, **settings)
    report = replace(report, remarks=(*report.remarks, *_stored_limits(named)))
    saving.save(report.records(), *files, *runs, options.group_file(by))
    output.emit(report, layout, file)


# assay queries


_OF_DOCS: Final = ("model", "kinds", "qrels", "per_doc")
_OF_MODEL: Final = ("prompt", "base_url", "key_env", "concurrency", "rate", "prices", "cache")


@click.command("queries", cls=Command)
@argument("source", metavar="LOG|DOCS", reads=True)
@options.write_option("Output queries (JSON lines).", "target", required=True)
@in_result("--qrels FILE", help="Output qrels: the document of each query.", **_writes)
@in_input("-n", "--number N", least=1, shown=100, help="Number of queries (per stratum).")
@in_input("--log", "is_log", is_flag=True, help="Read FILE as a query log.")
@in_input("--column NAME", help="Query column of a log.")
@in_input("--strata NAME", help="Stratum column of a log.")
@in_input("--uniform", is_flag=True, help="Sample distinct queries uniformly, not by count.")
@in_input(
    "--kind",
    "kinds",
    multiple=True,
    choices=KINDS,
    help="Parts of documents. May be repeated. [all]",
)
@in_input("--per-doc N", least=1, shown=1, help="Maximum number of queries per document.")
@in_models("--model SPEC", help=_MODEL)
@in_input("--prompt FILE", help="Prompt file with {document} and {n}.", reads=True)
@_endpoint_options
@in_result("--cache FILE", help="Answer cache of the model.", **_writes)
@options.seed_option_for("Random seed.")
@options.json_option
def queries_command(
    *, source: str, target: str, qrels: str | None, number: int, is_log: bool, **settings: Any
) -> None:
    """Create queries from a log, documents, or a model.

    Each query keeps its source. Counts typical faults of generated queries: copies of the text,
    duplicates, questions that need the passage in view.

    \b
    Examples:
      assay queries searches.csv --log -n 20 -o sampled.jsonl
      assay queries docs.jsonl -n 30 --kind sentence -o made.jsonl --qrels made.qrels
      assay queries notes.jsonl --model py:demo_judge:write -n 10 -o written.jsonl
    """
    output.refuse_input(target, source, settings["prompt"])
    output.refuse_same_file(target, qrels, settings["cache"])
    of_log = {key: settings.pop(key) for key in ("column", "strata", "uniform")}
    names = ("model", "kinds", "prompt", "json_wanted")
    model, kinds, prompt, json_wanted = map(settings.pop, names)
    if is_log:
        _refuse_typed("excludes --log", (*_OF_DOCS, *_OF_MODEL))
    else:
        _refuse_typed("requires --log", of_log)
    if model is None:
        _refuse_typed("requires --model", _OF_MODEL)
    several = {"per_doc": settings["per_doc"], "seed": settings["seed"]}
    if is_log:
        result = judging.queries_from_log(source, number, seed=settings["seed"], **of_log)
    elif model is None:
        titles, docs = _read_column(source, "doc id", "title"), _read_texts(None, source).docs
        several |= {"kinds": kinds or KINDS, "titles": titles}
        result = judging.queries_from_docs(docs, number, **several)
    else:
        if prompt:
            settings["prompt"] = streams.read_text(prompt)
        with reserve_stdout():
            settings |= _open_model(model, settings)
            prices, docs = settings.pop("prices"), _read_texts(None, source).docs
            result = judging.queries_from_model(docs, number, **settings)
        if prices and any(result.tokens):
            _tell_cost(prices, "", *result.tokens)
    result.write(target, qrels)
    output.emit(result, "json" if json_wanted else "text", None)


# assay eval and assay compare


_UNDERSTOOD: Final = {
    *("runs", "measures", "baseline", "rel", "level", "pool", "labels", "machine_labels", "within"),
    *("named", "json_wanted", "file", "full", "signature", "save", "store", "dataset", "tags"),
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
    _refuse_typed("excludes --pool", {*context.params} - _UNDERSTOOD)
    if settings["layout"] in ("trec", "model-card"):
        raise UsageError(f"--format {settings['layout']} cannot hold estimates. Choose another.")
    runs, file = _named(settings["runs"]), settings["file"]
    output.refuse_input(file, *settings["runs"], pool_file, labels_file, machine_file)
    base = settings.get("baseline")
    if base is not None and base not in runs:
        by_path = {path: name for name, path in runs.items() if isinstance(path, str)}
        base, path = by_path.get(base) or unique_names([base])[0], base
        runs = {base: path, **runs}
    result = judging.estimate_from_labels(
        runs,
        judging.read_pool(pool_file),
        judging.read_labels(labels_file),
        machine=judging.read_labels(machine_file, kind="machine") if machine_file else None,
        means=means,
        baseline=base,
        level=settings.get("level", 0.05),
        **{key: settings[key] for key in ("measures", "rel", "within")},
    )
    result = replace(result, remarks=(*result.remarks, *_stored_limits(runs)))
    files = {"pool": pool_file, "labels": labels_file, "machine_labels": machine_file}
    records = [record.replace(config=files) for record in result.records()]
    settings["saving"].save(records, *settings["runs"], *files.values())
    output.emit(result, settings["layout"], file, command=f"{context.command.name} labels")
    return 0


# Stored estimates in reports and on the dashboard


def report_sections(records: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return sentences, then numbers, of records from labels."""
    parts: list[tuple[str, Any]] = []
    for record in (record for record in records if record.task == PLUGIN.name):
        about, of = record.details, f": {record.name}" if len(records) > 1 else ""
        said = "\n".join([*about["verdicts"], *about["remarks"]])
        rows = []
        for each in record.aggregates:
            ends = Cell(bracket(each.low, each.high), "figure")
            rows.append((each.measure, each.subset, Cell(each.value, "fraction"), ends))
        heading = interval_heading(next((e.level for e in record.aggregates if e.level), 0.95))
        table = table_of(("measure", "of", "estimate", heading), rows)
        parts += [(f"Verdict from labels{of}", said), (f"Numbers from labels{of}", table)]
        parts.append((f"Signature{of}", about["signature"]))
    return parts


def dashboard_views(run: Any) -> list[tuple[str, Any]]:
    """Return dashboard views of a stored run from labels."""
    stored = run.task == PLUGIN.name and run.status == "finished"
    return report_sections([run.record()])[:1] if stored else []
