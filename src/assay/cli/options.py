"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from assay.cli import output
from assay.cli.commands import note_in_context
from assay.cli.output import saving_runs
from assay.cli.settings import option
from assay.core.conventions import CHOICES, Conventions
from assay.core.on_demand import OnDemand
from assay.core.specs import Consent
from assay.core.text import did_you_mean
from assay.io.streams import check_folder, check_target
from assay.plugins import find_hook
from assay.stats.choices import CORRECTIONS, INTERVAL, INTERVALS, LEVEL, RESAMPLES, TESTS

if TYPE_CHECKING:
    from assay.io.columns import split_column
    from assay.io.writers import describe_run
    from assay.measures import Measure
else:
    describe_run = OnDemand("assay.io.writers").describe_run
    split_column = OnDemand("assay.io.columns").split_column


Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Decorator = Callable[[Decorated], Decorated]


def _section(title: str) -> Callable[..., Callable[[Decorated], Decorated]]:
    """Return `option` for the options under one heading of a command's help."""
    return partial(option, section=title)


in_input = _section("Input")
in_search = _section("Search")
in_measures = _section("Measures and conventions")
in_statistics = _section("Statistics")
in_result = _section("Result")
in_models, in_machines = _section("Models"), _section("Machines")
in_trust, in_gate = _section("Trust"), _section("Gate")
in_store = _section("Store")


# Where a command writes: as `type` of a parameter these refuse, before any work is done, a place
# where nothing can be written.


def output_file(path: str) -> str:
    """Check a file to write, and make its folder."""
    _refuse_dash(path)
    check_target(path)
    return path


def _refuse_dash(path: str) -> None:
    """Refuse `-`, which is standard input elsewhere; few who type it want a file of that name."""
    if path == "-":
        raise click.UsageError("Cannot write to '-'. Omit -o to print; './-' names such a file.")


def output_folder(path: str) -> str:
    """Check a folder to write to, which the command makes."""
    _refuse_dash(path)
    check_folder(path)
    return path


def add_options(*options: Callable[[Any], Any]) -> Callable[[Decorated], Decorated]:
    """Make one decorator of several options, listed in this order."""

    def add(command: Decorated) -> Decorated:
        for decorate in reversed(options):
            command = decorate(command)
        return command

    return add


# Files and formats

RUN_FORMATS: Final = ("trec", "csv", "tsv", "json", "jsonl", "parquet", "npz")

json_option = in_result("--json", "json_wanted", is_flag=True, help="Print JSON.", aside=True)


def write_option(
    words: str, name: str = "file", *, required: bool = False
) -> Callable[[Decorated], Decorated]:
    """Declare -o, the file that a command writes."""
    return in_result(
        "-o",
        "--output FILE",
        name,
        type=output_file,
        required=required,
        help=words,
        writes=True,
        aside=name == "file",
    )


output_option = write_option("Write the result to FILE (atomically).")
queries_option = in_input(
    "--queries FILE", help="Query ids and texts, for files keyed by query text.", reads=True
)
qrels_option = in_input("-r", "--qrels QRELS", required=True, help="The judgments.", reads=True)


def label_options(*, means: bool) -> Callable[[Decorated], Decorated]:
    """Declare -r, or --pool and labels, from which a room estimates means or differences."""

    def need(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if value is None and not context.params.get("pool"):
            raise click.MissingParameter(ctx=context, param=parameter)
        return value

    # The stored configuration of a run with judgments has none of these.
    aside: dict[str, Any] = {"reads": True, "aside": True}
    where = "Labelled pool, instead of -r."
    add = add_options(
        in_input("-r", "--qrels QRELS", help="The judgments.", callback=need, reads=True),
        queries_option,
        in_input("--pool FILE", is_eager=True, help=where, **aside),
        in_input("--labels FILE", help="With --pool: human labels.", **aside),
        in_input("--machine-labels FILE", help="With --pool: labels of a model.", **aside),
        in_statistics("--within X", type=float, help="With --pool: ± to plan for.", aside=True),
    )

    def decorate(command: Decorated) -> Decorated:
        @wraps(command)
        def call(*, pool: Any, labels: Any, machine_labels: Any, **settings: Any) -> Any:
            if pool and labels and not settings["qrels"]:
                files = (pool, labels, machine_labels)
                return find_hook("estimate_labels")(*files, means=means, settings=settings)
            if pool or labels or machine_labels or settings.pop("within"):
                raise click.UsageError("--pool requires --labels and excludes -r.")
            return command(**settings)

        return cast("Decorated", add(call))

    return decorate


mismatch_option = in_input(
    "--allow-mismatch", is_flag=True, help="Continue despite mismatched ids (1 vs 01)."
)
target_format_option = in_result(
    "--to", "target_format", choices=RUN_FORMATS, help="Format of the run. [by its name]"
)


ir_metadata_option = in_result(
    "--ir-metadata auto|FILE",
    "ir_metadata",
    help="ir_metadata head of a TREC run, from a YAML file.",
    reads=True,
)


def describe_method(source: str | None, *, name: str, **settings: Any) -> dict[str, Any] | None:
    """Return the ir_metadata of the run that a command makes, if requested."""
    if source is None:
        return None
    stated = {key: value for key, value in settings.items() if value not in (None, False, ())}
    tag = stated.pop("tag", name)
    method = {"retrieval": [{"name": name, **stated}]}
    return describe_run(tag, command=output.command_line(), method=method, file=source)


# What the text of a result shows; `emit` looks it up.
full_option = in_result(
    "--full",
    is_flag=True,
    expose_value=False,
    callback=note_in_context,
    help="Show all warnings, the method and the full signature.",
)
signature_option = in_result(
    "--signature",
    is_flag=True,
    expose_value=False,
    callback=note_in_context,
    help="Show the whole signature, not a short id.",
)


def result_options(
    *formats: str,
    also: tuple[str, ...] = (),
    words: str = "Output format.",
    named: bool = True,
    brief: bool = True,
) -> Callable[[Decorated], Decorated]:
    """Declare --format (unless it is not `named`), --json and -o.

    The command gets `layout` and `file`. Without `formats` it offers all that show pages and
    tables, and those in `also`. Where the result is a page that is shown in brief, the command
    also has --full and --signature.
    """
    formats = formats or output.offer_formats(also=also)
    choice = in_result("--format", "named", choices=formats, help=words, aside=True)
    pages = [full_option, signature_option] if brief and "markdown" in formats else []
    add = add_options(*([choice] if named else []), json_option, *pages, output_option)

    def decorate(command: Decorated) -> Decorated:
        @wraps(command)
        def call(
            *, json_wanted: bool, file: str | None, named: str | None = None, **settings: Any
        ) -> Any:
            layout = output.choose_format(named, json_wanted, file, known=formats)
            return command(layout=layout, file=file, **settings)

        return cast("Decorated", add(call))

    return decorate


# Measures and conventions


def measures_option(words: str, default: tuple[str, ...] = ()) -> Decorator[Any]:
    """Declare -m, which may be repeated."""
    return in_measures(
        "-m",
        "--measure NAME",
        "measures",
        multiple=True,
        default=default,
        help=words,
        offers="assay.cli.completion:offer_measures",
    )


CONVENTIONS: Final = ("ties", "empty", "missing", "unjudged", "depth")  # with an option each
rel_option = in_measures("--rel N", type=float, help="Smallest grade that is relevant. [1]")
conventions_choices = add_options(
    in_measures(
        "-c",
        "--conventions NAME",
        shown="trec_eval",
        help="Preset ('assay measures --conventions' lists them) or signature.",
        offers="assay.cli.completion:offer_presets",
    ),
    in_measures("--ties", choices=CHOICES["ties"], help="How tied documents count."),
    in_measures("--empty", choices=CHOICES["empty"], help="Queries without a relevant document."),
    in_measures(
        "--missing", choices=CHOICES["missing"], help="Judged queries missing from the run."
    ),
    in_measures(
        "--unjudged", choices=CHOICES["unjudged"], help="Retrieved documents without a judgment."
    ),
    in_measures("--depth N", least=1, help="Evaluate the first N documents of each query."),
)


def conventions_options(command: Decorated) -> Decorated:
    """Declare the conventions; the command gets them as `rules`."""

    @wraps(command)
    def call(*, conventions: str, **settings: Any) -> Any:
        changes = {name: settings.pop(name) for name in CONVENTIONS}
        return command(rules=make_conventions(conventions, **changes), **settings)

    return cast("Decorated", conventions_choices(call))


def make_conventions(conventions: str, **changes: Any) -> Conventions:
    """Return the conventions that the options describe."""
    return Conventions.parse(conventions).replace(**changes)


def apply_threshold(measures: tuple[Measure, ...], rel: float | None) -> tuple[Measure, ...]:
    """Set the smallest relevant grade of measures that take one and name none."""
    if rel is None:
        return measures
    grade = int(rel) if rel.is_integer() else rel
    return tuple(
        measure(rel=grade)
        if "rel" in measure.definition.params and "rel" not in dict(measure.params)
        else measure
        for measure in measures
    )


def is_typed(option: str) -> bool:
    """Tell whether an option of the running command was typed."""
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.COMMANDLINE


# Statistics

test_option = in_statistics("--test", choices=TESTS, shown="randomisation", help="Paired test.")
correction_option = in_statistics(
    "--correction",
    choices=CORRECTIONS,
    show_default="max-t; holm with another test than randomisation",
    help="Correction for several pairs of runs.",
)
level_option = in_statistics(
    "--level A", type=float, shown=LEVEL, help="Significance level; intervals have 1 - A."
)
resamples_option = in_statistics(
    "--resamples N", least=100, shown=RESAMPLES, help="Number of resamples."
)


def seed_option_for(words: str) -> Callable[[Decorated], Decorated]:
    """Declare --seed, by default 0."""
    return in_statistics("--seed N", least=0, shown=0, help=words)


seed_option = seed_option_for("Random seed.")
# All but the baseline go to `compare` as given.
statistics_options = add_options(
    in_statistics(
        "-b",
        "--baseline NAME",
        help="Compare with this run only: its name or its file.",
        reads=True,
    ),
    test_option,
    correction_option,
    level_option,
    in_statistics(
        "--interval",
        choices=INTERVALS,
        shown=INTERVAL,
        help="Type of confidence interval; auto follows the test.",
    ),
    resamples_option,
    seed_option,
    in_statistics(
        "--margin X",
        type=float,
        help="Margin of non-inferiority and equivalence: the largest negligible difference.",
    ),
    in_statistics(
        "--by FILE[:COLUMN]",
        help="Clusters of dependent queries, resampled and tested as whole groups.",
        reads=True,
    ),
)


slices_option = in_statistics(
    "--slices FILE[:COLUMN]", help="File of query and slice, to compare within slices.", reads=True
)


def group_file(by: str | None) -> str | None:
    """Return the file that --by or --slices names, without its column."""
    return None if by is None else split_column(by)[0]


def find_baseline(baseline: str, items: Sequence[object], names: Sequence[str]) -> int | None:
    """Find a baseline by the name of a run or its file; None for a file not listed."""
    alike = [
        place
        for place, (item, name) in enumerate(zip(items, names, strict=True))
        if baseline in (name, item)
    ]
    if alike:
        return alike[0]
    if os.path.exists(baseline):
        return None
    raise click.UsageError(
        f"The baseline {baseline!r} is neither a file nor one of the runs."
        + did_you_mean(baseline, names, most=2, fallback=5)
    )


# Search

zero_option = in_search(
    "--zero",
    choices=["error", "drop", "last"],
    shown="error",
    help="All-zero vectors under cosine.",
)


def metric_option(help: str, default: str | None = None) -> Callable[[Decorated], Decorated]:
    """Declare --metric, the similarity of vectors."""
    return in_search("--metric", choices=["cosine", "dot", "l2"], shown=default, help=help)


threads_option = in_search("--threads N", least=1, help="Number of threads. [all cores]")


# The store

_OFFER: Final = "assay.store.completion:offer"  # what the store knows, for completion

store_option = in_store(
    "--store FILE|URL",
    help="Store of runs: file or postgresql://... [$ASSAY_STORE, or assay.db]",
    aside=True,
)
run_filters = add_options(
    in_models(
        "--model NAME",
        help="Only stored runs of this model.",
        offers="assay.models.specs:offer_models",
    ),
    in_input("--name NAME", help="Only stored runs of this name.", offers=f"{_OFFER}_names"),
    in_store(
        "--tag TAG",
        multiple=True,
        help="Only stored runs with all these tags.",
        offers=f"{_OFFER}_tags",
    ),
    in_store("--since DATE", help="Only stored runs from this day on (UTC)."),
    in_store("--until DATE", help="Only stored runs up to this day."),
)
filter_options = add_options(
    in_store("--task NAME", help="Only this task: retrieval, …", offers=f"{_OFFER}_tasks"),
    in_store("--dataset NAME", help="Only this dataset.", aside=True, offers=f"{_OFFER}_datasets"),
    run_filters,
)


# What a command that is repeated may do; what it says itself about that is not believed.
repeated_consent: ContextVar[Consent | None] = ContextVar("repeated_consent", default=None)


def consent_options(words: str) -> Callable[[Decorated], Decorated]:
    """Declare --allow-code and --allow-endpoint; the command gets `consent`."""
    add = add_options(
        in_trust("--allow-code", is_flag=True, help=f"Run code that {words} names."),
        in_trust(
            "--allow-endpoint HOST[=VARIABLE]",
            "allow_endpoints",
            multiple=True,
            help=f"Host that {words} may send data to. May be repeated.",
        ),
    )

    def decorate(command: Decorated) -> Decorated:
        @wraps(command)
        def call(*, allow_code: bool, allow_endpoints: tuple[str, ...], **settings: Any) -> Any:
            typed = Consent.of(allow_code, allow_endpoints)
            return command(consent=repeated_consent.get() or typed, **settings)

        return cast("Decorated", add(call))

    return decorate


def save_options(task: str) -> Callable[[Decorated], Decorated]:
    """Declare --save and its companions; the command gets `saving`, which stores results."""
    add = add_options(
        in_store("--save", is_flag=True, help="Store the results as runs.", aside=True),
        store_option,
        in_store(
            "--dataset NAME",
            help="With --save: the dataset.",
            aside=True,
            offers=f"{_OFFER}_datasets",
        ),
        in_store(
            "--tag TAG",
            "tags",
            multiple=True,
            help="With --save: a tag of the runs. May be repeated.",
            aside=True,
            offers=f"{_OFFER}_tags",
        ),
    )

    def decorate(command: Decorated) -> Decorated:
        @wraps(command)
        def call(*, save: bool, **settings: Any) -> Any:
            about = {name: settings.pop(name) for name in ("store", "dataset", "tags")}
            with saving_runs(task, wanted=save, **about) as saving:
                return command(saving=saving, **settings)

        return cast("Decorated", add(call))

    return decorate


@contextmanager
def open_store(place: str | None) -> Iterator[Any]:
    """Open the store, if there is one; say so if it is for reading only."""
    with find_hook("open_store")(place, create=False) as store:
        if store.read_only_reason:
            output.log(store.read_only_reason)
        yield store


# Clusters, for rank, encode and bench


def cluster_options(words: str) -> Callable[[Decorated], Decorated]:
    """Declare --cluster and --workers; `words` describe the use of --cluster."""
    return add_options(
        in_machines(
            "--cluster WHERE", "where", help=words, allow="assay.cli.options:allow_cluster"
        ),
        in_machines("--workers N", least=1, help="With --cluster: number of workers. [all cores]"),
    )


def allow_cluster(
    values: list[str], params: Mapping[str, Any], consent: Consent, place: str
) -> None:
    """Refuse a cluster elsewhere that a stored command names, without consent."""
    for where in values:
        if where not in ("serial", "threads", "auto", "local"):
            consent.check_code(f"the cluster {where!r}", place)


def refuse_idle_workers(where: str | None, workers: int | None) -> None:
    """Reject --workers without --cluster."""
    if where is None and workers is not None:
        raise click.UsageError("--workers requires --cluster.")
