"""Where results go: stdout, a file, or the store (`--save`); narration goes to stderr."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import click

from assay import __version__
from assay.cli.progress import clear_progress
from assay.cli.settings import facts_of
from assay.core.on_demand import OnDemand
from assay.core.text import mask_secrets, printable, remark_about
from assay.core.work import tell
from assay.errors import AssayError, UsageError
from assay.io.streams import StandardInput, as_typed, atomic_write, split_array
from assay.plugins import find_hook
from assay.tables.table import (
    Cell,
    Page,
    Table,
    Words,
    as_csv,
    brief_page,
    column_widths,
    drop_optional,
    latex_page,
    markdown_page,
    split_columns,
    text_page,
)

if TYPE_CHECKING:
    from assay.cli.terminal import print_page
    from assay.io import fingerprints
    from assay.runs.record import RunRecord, fingerprint_files
else:  # JSON and --save alone need them
    print_page = OnDemand("assay.cli.terminal").print_page
    fingerprints = OnDemand("assay.io.fingerprints")
    RunRecord = OnDemand("assay.runs.record").RunRecord
    fingerprint_files = OnDemand("assay.runs.record").fingerprint_files


# The layout of everything that --json prints; docs/json.md describes it.
SCHEMA_VERSION: Final = 1
# Results whose own layout has changed since the first, as schemas.json has it.
_LAYOUTS: Final[dict[str, int]] = {}

# Endings that promise what no command prints.
_PROMISES: Final = (
    *(".html", ".jsonl", ".ndjson", ".npy", ".npz", ".parquet", ".pdf", ".pq", ".xlsx"),
)
_PACKED: Final = (".gz", ".zip", ".zst")
_NOT_IN_JSON: Final = "[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"


def note_inputs(*paths: str | None) -> None:
    """Note the input files of a result: JSON has their digests."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta.setdefault("assay.inputs", {}).update(dict.fromkeys(filter(None, paths)))


def refuse_input(file: str | None, *inputs: str | None) -> None:
    """Refuse to write the result over one of the files that it is made of, which are noted."""
    note_inputs(*inputs)
    for path in inputs:
        if file and path and _same(file, path):
            raise UsageError(f"{file} is one of the inputs and would be lost. Write another file.")


def refuse_same_file(*files: str | None) -> None:
    """Refuse to write two results into one file: the second would replace the first."""
    named = [file for file in files if file]
    for place, file in enumerate(named):
        before = named[:place]
        if os.path.abspath(file) in map(os.path.abspath, before) or any(
            _same(file, other) for other in before
        ):
            raise UsageError(f"{file} is named for two results. Name two files.")


def _same(left: str, right: str) -> bool:
    try:
        return os.path.samefile(split_array(left)[0], split_array(right)[0])
    except (OSError, ValueError):
        return False  # one of them does not exist: reading or writing it says so


def choose_format(
    named: str | None, json_wanted: bool, file: str | None, *, known: Sequence[str]
) -> str:
    """Choose the format: as named, else by the ending of the output file, else text.

    An ending that promises a format that is not one of the `known` ones is refused.
    """
    if json_wanted and named not in (None, "json"):
        raise UsageError(f"--json and --format {named} exclude each other.")
    ending = Path(file).suffix.lower() if file else ""
    named = "json" if json_wanted else named
    by_suffix = {layout.suffix: name for name, layout in FORMATS.items() if layout.suffix}
    format = named or by_suffix.get(ending, "text")
    broken = ending in _PACKED or (named is None and ending in _PROMISES)
    if broken or format not in known:
        endings = [suffix for suffix, name in by_suffix.items() if name in known]
        raise UsageError(
            f"{file}: this result cannot be written as {ending}. Use {', '.join(endings)}, "
            "or .txt for text."
        )
    return format


def on_terminal() -> bool:
    """Tell whether results go to a terminal."""
    return sys.stdout.isatty()


def narrate_all(messages: Iterable[str]) -> None:
    """Print several lines to stderr."""
    for message in messages:
        log(message)


def log(message: str) -> None:
    """Print a line about the result to stderr."""
    clear_progress()
    print(printable(message), file=sys.stderr, flush=True)


def as_json(data: dict[str, Any]) -> str:
    """Return JSON with the version of its layout; control characters are escaped."""
    import json

    name = data["command"].replace(" ", "-")
    about = {"schema_version": SCHEMA_VERSION, "schema": f"assay/{name}/{_LAYOUTS.get(name, 1)}"}
    whole = {**about, **data}
    text = json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False)
    return re.sub(_NOT_IN_JSON, lambda match: f"\\u{ord(match.group()):04x}", text)


def _made_by() -> dict[str, Any]:
    """Return what repeats a result: version, arguments, and the files that were read.

    Nothing for a command that reads no files of the user, or that another command runs.
    """
    meta = click.get_current_context().meta
    typed = without_options(meta.get("assay.arguments", ()), _ELSEWHERE)
    files = list(_files_in(meta.get("assay.inputs", ()), typed) if typed else ())
    if not files:
        return {}
    words = [mask_secrets(word) for word in typed]
    origin = {"version": __version__, "arguments": words, "inputs": digest_inputs(files)}
    return {"made_by": origin}


def digest_inputs(files: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return size and SHA-256 of each file, read once per command."""
    digests = click.get_current_context().meta.setdefault("assay.digests", {})
    fingerprints_by_file = {}
    for file in files:
        path = os.path.abspath(file)
        if path not in digests:
            digests[path] = fingerprints.fingerprints([file])[file]
        fingerprints_by_file[file] = digests[path]
    return fingerprints_by_file


# Where a result goes does not belong to how it is made.
_ELSEWHERE: Final = {"--save": False, "--store": True, "--output": True, "-o": True}


def without_options(arguments: Sequence[str], options: Mapping[str, bool]) -> tuple[str, ...]:
    """Drop some options from the arguments; those that are True here take a value.

    >>> without_options(["eval", "a", "--save", "--store", "s.db", "-of"], _ELSEWHERE)
    ('eval', 'a')
    """
    remaining = []
    rest = iter(arguments)
    for word in rest:
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if options.get(name) and word == name:
            next(rest, None)
        elif name not in options:
            remaining.append(word)
    return tuple(remaining)


def _files_in(paths: Iterable[str], typed: Sequence[str]) -> Iterator[str]:
    """Yield the files among what was noted, and those in its folders.

    What a config file names has an absolute path, which here is one from the current folder.
    """
    here = os.path.join(os.getcwd(), "")
    for noted in paths:
        near = (
            noted.startswith(here)
            and not isinstance(noted, StandardInput)
            and not any(noted in word for word in typed)
        )
        path = noted.removeprefix(here) if near else noted
        if os.path.isfile(split_array(path)[0]):
            yield path
        elif os.path.isdir(path):
            inside = sorted(file for file in Path(path).rglob("*") if file.is_file())
            yield from map(str, inside)


def write(text: str, file: str | None) -> None:
    """Write a result to stdout, or whole or not at all to a file."""
    clear_progress()
    text = _name_standard_input(text)
    if file is None:
        if on_terminal():  # control characters are written out, but for tabs and line feeds
            text = re.sub(r"[^\t\n]+", lambda match: printable(match.group()), text)
        print(text)
        return
    with atomic_write(file) as stream:
        # Names of files may hold what UTF-8 cannot; its escape is also JSON's.
        stream.write(f"{text}\n".encode(errors="backslashreplace"))


def _name_standard_input(text: str) -> str:
    """Write `-` where a text names the copy of standard input."""
    context = click.get_current_context(silent=True)
    for value in context.params.values() if context else ():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, StandardInput):
                text = text.replace(str(part), as_typed(part))
    return text


class Result(Protocol):
    """A result that `emit` can print.

    Beside plain data for JSON a result has what the formats of its command need: `page()` for text,
    Markdown and LaTeX, and `table()` for CSV and TSV. Where there is no page, it is made of the
    `tables()`, or text is `str(result)`; where there is no single table, CSV has all of them.
    `paper()` is the page for LaTeX: one table with caption, label and notes.
    `trec()` gives trec_eval's layout, `model_card()` that of Hugging Face; `screen()` is a page for
    one screen, where `page()` with counted remarks would not be one. A `signature` stands below
    tables, and as a column in CSV. `remarks`, which a page shows and CSV does not, go to stderr
    then.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        ...


def emit(
    result: Any,
    format: str,
    file: str | None,
    *,
    command: str = "",
    terminal: Callable[[Any], None] | None = None,
    remarks: Iterable[str] = (),
    brief: bool = True,
) -> None:
    """Write a result in a format, to a file or to stdout.

    `command` is what JSON calls the running command, if not by its own name. On a terminal, text
    is coloured and fitted to the width: by `terminal`, for results with a layout of their own.
    `remarks` that the result does not hold itself stand in its text, and beside other formats.
    On stdout, text is what fits on a screen and into its width, unless the result is not `brief`
    or --full is given.
    """
    clear_progress()
    whole = file is not None or is_full() or not brief
    page = _page_to_show(result, remarks, whole=whole) if format == "text" else None
    if page is None:
        narrate_all(remarks)
    if format == "text" and file is None and on_terminal():
        if terminal is not None:
            terminal(result)
        elif page is None:
            write(str(result), None)
        else:
            print_page(page)
    elif page is not None:
        shown = [part for part in page if _role(part) != "next"]
        write(text_page(shown if file else [*fit_tables(shown, whole=whole)]), file)
    elif format == "json":
        name = command or click.get_current_context().command_path.partition(" ")[2]
        write(as_json({"command": name, **result.to_dict(), **_made_by()}), file)
    else:
        if FORMATS[format].of == "table":
            narrate_all(getattr(result, "remarks", ()))
        write(FORMATS[format].lay_out(result), file)


def _terminal_width() -> int:
    """Return COLUMNS, or the width of the terminal, or 80; without what shutil imports."""
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns) or 80
    except (OSError, ValueError):
        return 80


def fit_tables(page: Page, *, whole: bool = False) -> Iterator[Words | Table]:
    """Break tables into blocks for the width (80, or COLUMNS); drop optional columns first."""
    width = _terminal_width()
    for part in page:
        if isinstance(part, Words):
            yield part
        else:
            table = part if whole else drop_optional(part, width, column_widths(part))
            yield from split_columns(table, width)


def is_full() -> bool:
    """Tell whether to show everything (--full)."""
    return _is_noted("full")


def _is_noted(flag: str) -> bool:
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(f"assay.{flag}"))


def _page_to_show(result: Any, remarks: Iterable[str], *, whole: bool) -> Page | None:
    """Return the text of a result: all of it, or what fits on a screen."""
    page = result.screen() if hasattr(result, "screen") and not whole else _page_of(result)
    if page is None:
        return None
    last = next((i for i, part in enumerate(page) if _role(part) == "signature"), len(page))
    page[last:last] = [Words(remark, "remark") for remark in remarks]
    return page if whole else as_shown(page)


def as_shown(page: Page) -> Page:
    """Return the whole page with --full, else what fits on a screen."""
    if is_full():
        return page
    return brief_page(page, whole_signature=_is_noted("signature"))


def _role(part: Words | Table) -> str:
    """Return the role of words; a table has none."""
    return part.role if isinstance(part, Words) else ""


def _page_of(result: Any) -> Page | None:
    if hasattr(result, "page"):
        page: Page = result.page()
        return page
    if hasattr(result, "tables"):
        return [*result.tables(), Words(result.signature, "signature")]
    return None


def _lay_out_latex(result: Any) -> str:
    if hasattr(result, "paper"):
        return latex_page(result.paper())
    return _lay_out_page(result, latex_page)


def _lay_out_page(result: Any, lay_out: Callable[[Page], str]) -> str:
    page = _page_of(result)
    if page is not None:
        return lay_out(page)
    return "\n".join(printable(line) for line in str(result).splitlines())


def _lay_out_csv(result: Any, delimiter: str) -> str:
    tables = [result.table()] if hasattr(result, "table") else result.tables()
    signature = getattr(result, "signature", "")
    if signature:
        tables = [
            Table((*t.columns, "signature"), tuple((*row, Cell(signature)) for row in t.rows))
            for t in tables
        ]
    return "\n\n".join(as_csv(table, delimiter) for table in tables)


class Format(NamedTuple):
    """A format of results: what part of a result it shows, the ending it has, how it is laid out.

    `of` is "page" (tables and sentences), "table" (one table of every number), "data" (JSON) or
    "own" (a layout of few commands, which name it).
    """

    of: str
    suffix: str
    lay_out: Callable[[Any], str]


# A format that is added here is offered by every command whose results have such a part.
FORMATS: Final = {
    "text": Format("page", "", partial(_lay_out_page, lay_out=text_page)),
    "trec": Format("own", "", lambda result: str(result.trec())),
    "markdown": Format("page", ".md", partial(_lay_out_page, lay_out=markdown_page)),
    "latex": Format("page", ".tex", _lay_out_latex),
    "csv": Format("table", ".csv", partial(_lay_out_csv, delimiter=",")),
    "tsv": Format("table", ".tsv", partial(_lay_out_csv, delimiter="\t")),
    "json": Format("data", ".json", lambda result: as_json(result.to_dict())),
    "model-card": Format("own", "", lambda result: str(result.model_card())),
}


def offer_formats(*parts: str, also: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of the formats that show these parts of a result, and JSON."""
    parts_of = {*(parts or ("page", "table")), "data"}
    return tuple(name for name, layout in FORMATS.items() if layout.of in parts_of or name in also)


@dataclass(frozen=True)
class TableResult:
    """One table with a title above, a note and a signature below, and the same as data."""

    content: Table
    data: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    note: str = ""
    signature: str = ""

    def table(self) -> Table:
        """Return the table."""
        return self.content

    def page(self) -> Page:
        """Return title, table, note and signature; empty ones are left out."""
        below = [Words(self.note), Words(self.signature, "signature")]
        return [Words(self.title, "verdict"), self.content, *below]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.data)


@dataclass(frozen=True)
class TextResult:
    """A text, and the same as data."""

    text: str
    data: Mapping[str, Any]

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.data)


def command_line() -> str:
    """Return the running command as it was typed, without passwords."""
    import shlex

    context = click.get_current_context()
    typed = context.meta.get("assay.arguments", (str(context.info_name),))
    return shlex.join(["assay", *map(mask_secrets, typed)])


def silence_logging() -> None:
    """Set up logging before a package does so, to stderr, when it is imported."""
    import logging  # slow to load, and most commands log nothing

    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())


def own_remarks(result: Any, format: str) -> Iterable[str]:
    """Return the remarks of a result whose page does not show them."""
    return () if FORMATS[format].of == "table" else result.remarks


def remarks_on(records: Sequence[RunRecord], but: Iterable[str] = ()) -> list[str]:
    """Return what a reader should know, a line each, `but` what the result says itself."""
    from assay.scoring.output import disclosures

    said = set(but)
    lines = [
        remark_about(record.name, words) if len(records) > 1 else words
        for record in records
        for words in disclosures(record.scored(), record.chance_means())
    ]
    return [line for line in lines if line not in said]


# What `--save` does: results of a command become runs of a store


# The batch that `assay runs rerun` repeats, while it does.
repeated_batch: ContextVar[str] = ContextVar("repeated_batch", default="")

REPORT_INTERVAL: Final = 1.0  # seconds between two reports of progress


class Saving:
    """Stores results; without a store it does nothing."""

    def __init__(
        self, store: Any = None, run: Any = None, about: Mapping[str, Any] | None = None
    ) -> None:
        self._store = store
        self._run = run
        self._about = dict(about or {})
        self._began = time.perf_counter()
        self._reported = -REPORT_INTERVAL
        self.saved = False

    @property
    def wanted(self) -> bool:
        """Whether results are stored at all."""
        return self._store is not None

    def set_name(self, name: str) -> None:
        """Name the first of the runs; others see it from now on."""
        if self._run is not None:
            self._run.set_name(name)

    def set_dataset(self, dataset: str) -> None:
        """Name the dataset, unless --dataset does; others see it from now on."""
        if self._run is not None and dataset and not self._about["dataset"]:
            self._about["dataset"] = dataset
            self._run.set_dataset(dataset)

    @property
    def listener(self) -> Callable[..., None] | None:
        """The function to which long work reports (done, total, step), for other processes."""
        return None if self._run is None else self._report_progress

    def _report_progress(self, done: int, total: int | None, now: str = "") -> None:
        """Report progress now and then; ignore failures."""
        moment = time.perf_counter() - self._began
        if self._run is None or not total or moment < self._reported + REPORT_INTERVAL:
            return
        self._reported = moment
        with suppress(AssayError):
            self._run.progress(done, total, now)

    def refuse(self, why: str) -> None:
        """Refuse --save, with a reason."""
        if self._store is not None:
            raise click.UsageError(f"--save: {why}.")

    def save(self, records: Iterable[RunRecord], *files: str | None) -> None:
        """Store records, all at once; they are on disk when this returns.

        `files` were read for all of them, beside those that a record names itself.
        """
        if self._store is None or self._run is None:
            return
        seconds = time.perf_counter() - self._began
        finished = fingerprint_files(
            (
                record.replace(
                    **{**self._about, "config": {**self._about["config"], **record.config}}
                    | ({"task": record.task} if record.task else {}),
                    files=(*record.files, *files),
                )
                for record in records
            ),
            digest_inputs,
        )
        tell("saving", 0)
        runs = self._store.finish_together(self._run, finished, seconds=seconds)
        self.saved = True
        named = f"run {runs[0]}" if len(runs) == 1 else f"runs {runs[0]} to {runs[-1]}"
        log(f"saved as {named} in {self._store.database.location}")


@contextmanager
def saving_runs(
    task: str, *, wanted: bool, store: str | None, dataset: str | None, tags: tuple[str, ...]
) -> Iterator[Saving]:
    """Give what a command saves with; open the store before any work is done."""
    typed = click.get_current_context().meta.get("assay.arguments", ())
    unread = not any("run:" in word for word in typed)  # or the store holds inputs
    values = {"--store": store and unread, "--dataset": dataset, "--tag": tags}
    if not wanted:
        if idle := next((option for option, value in values.items() if value), None):
            raise click.UsageError(f"{idle} requires --save.")
        yield Saving()
        return
    with find_hook("open_store")(store) as opened:
        about = _describe_call(task, dataset or "", tags)
        name = str(click.get_current_context().info_name)
        run = opened.begin(RunRecord(name, **about))  # others see it as running
        saving = Saving(opened, run, about)
        try:
            yield saving
        except BaseException as error:
            if isinstance(error, click.ClickException | UsageError) and not saving.saved:
                opened.delete(run.id)  # a request that makes no sense is not a run
            elif not saving.saved:
                run.fail(error)
            raise


def _describe_call(task: str, dataset: str, tags: tuple[str, ...]) -> dict[str, Any]:
    context = click.get_current_context()
    typed = context.meta.get("assay.arguments", (str(context.info_name),))
    command = without_options(typed, {"--save": False, "--store": True})
    # Where results go does not belong to what was run, and a URL may hold a password.
    aside = {name for name, facts in facts_of(context.command) if facts.aside}
    config = {key: as_typed(value) for key, value in context.params.items() if key not in aside}
    return {
        "task": task,
        "dataset": dataset or str(context.params.get("dataset_name") or ""),
        "tags": tags,
        "config": config,
        "command": command,
        "folder": os.getcwd(),
        "rerun_of": repeated_batch.get(),
    }
