"""Where results and narration go: results to stdout or a file, narration to stderr."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from assay.core.text import printable
from assay.errors import UsageError
from assay.io.atomic import atomic_write
from assay.runs.record import RunRecord
from assay.scoring.disclosures import disclosures
from assay.tables.table import Cell, Table, as_csv, as_markdown, as_text

__all__ = [
    "SCHEMA_VERSION",
    "as_json",
    "chosen_format",
    "hush_packages",
    "narrate",
    "on_terminal",
    "put",
    "refuse_input",
    "refuse_one_file",
    "show",
    "typed_command",
]

# The layout of everything that --json prints; docs/command-line.md describes it.
SCHEMA_VERSION: Final = 1

_BY_SUFFIX: Final = {".json": "json", ".csv": "csv", ".tsv": "tsv", ".md": "markdown"}
# Endings that promise what no command prints.
_PROMISES: Final = (
    ".html",
    ".jsonl",
    ".ndjson",
    ".npy",
    ".npz",
    ".parquet",
    ".pdf",
    ".pq",
    ".tex",
    ".xlsx",
)
_PACKED: Final = (".gz", ".zip", ".zst")
_LAYOUTS: Final[dict[str, Callable[[Table], str]]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "tsv": lambda table: as_csv(table, "\t"),
}
_NOT_IN_JSON: Final = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def refuse_input(file: str | None, *inputs: str | None) -> None:
    """Refuse to write the result over one of the files that it is made of."""
    for path in inputs:
        if file and path and _same(file, path):
            raise UsageError(f"{file} is one of the inputs and would be lost. Write another file.")


def refuse_one_file(*files: str | None) -> None:
    """Refuse to write two results into one file: the second would replace the first."""
    given = [file for file in files if file]
    for place, file in enumerate(given):
        before = given[:place]
        if os.path.abspath(file) in map(os.path.abspath, before) or any(
            _same(file, other) for other in before
        ):
            raise UsageError(f"{file} is named for two results. Give each a file of its own.")


def _same(left: str, right: str) -> bool:
    try:
        return os.path.samefile(left, right)
    except (OSError, ValueError):
        return False  # one of them does not exist: reading or writing it says so


def chosen_format(
    named: str | None, json_wanted: bool, file: str | None, *, known: tuple[str, ...] = ()
) -> str:
    """The format: as named, else as the ending of the output file says, else text.

    An ending that promises another format is refused; `known` are the formats of a command that
    does not have all.
    """
    if json_wanted and named not in (None, "json"):
        raise UsageError(f"--json and --format {named} exclude each other.")
    ending = Path(file).suffix.lower() if file else ""
    named = "json" if json_wanted else named
    chosen = named or _BY_SUFFIX.get(ending, "text")
    broken = ending in _PACKED or (named is None and ending in _PROMISES)
    if broken or (known and chosen not in known):
        endings = [key for key, name in _BY_SUFFIX.items() if not known or name in known]
        raise UsageError(
            f"{file}: this result cannot be written as {ending}. Use {', '.join(endings)}, "
            "or .txt for text."
        )
    return chosen


def on_terminal() -> bool:
    """Whether results go to a terminal."""
    return sys.stdout.isatty()


def narrate(message: str) -> None:
    """Say something about the result, beside it."""
    print(printable(message), file=sys.stderr, flush=True)


def as_json(data: dict[str, Any]) -> str:
    """JSON with the version of its layout; control characters are escaped, text stays readable."""
    whole = {"schema_version": SCHEMA_VERSION, **data}
    text = json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False)
    return _NOT_IN_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def put(text: str, file: str | None) -> None:
    """Write a result to stdout, or whole or not at all to a file."""
    if file is None:
        safe = "\n".join(map(_keep_tabs, text.split("\n"))) if on_terminal() else text
        print(safe)
        return
    with atomic_write(file) as stream:
        # Names of files may hold what UTF-8 cannot; its escape is also JSON's.
        stream.write(f"{text}\n".encode(errors="backslashreplace"))


def _keep_tabs(line: str) -> str:
    return "\t".join(map(printable, line.split("\t")))


def show(
    tables: list[Table], *, layout: str, file: str | None, signature: str, title: str = ""
) -> None:
    """Tables in a layout, with the signature below (text, Markdown) or as a column (CSV, TSV)."""
    if layout == "text" and file is None and on_terminal():
        from assay.report.terminal import print_tables

        print_tables(tables, title=title, signature=signature)
        return
    if layout in ("csv", "tsv"):
        tables = [
            Table((*t.columns, "signature"), tuple((*row, Cell(signature)) for row in t.rows))
            for t in tables
        ]
        put("\n\n".join(map(_LAYOUTS[layout], tables)), file)
        return
    parts = [printable(title)] if title else []
    parts += [_LAYOUTS[layout](table) for table in tables]
    parts.append(f"`{signature}`" if layout == "markdown" else signature)
    put("\n\n".join(parts), file)


def typed_command() -> str:
    """The command line of the running command: what was typed, in the order of its options."""
    context = click.get_current_context()
    words = ["assay", context.info_name or ""]
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        words += _words(parameter, _without_password(value) if name == "store" else value)
    return shlex.join(words)


def _without_password(store: str) -> str:
    from assay.store.database import locate

    return str(locate(store)) if "://" in store else store


def _words(parameter: click.Parameter, value: object) -> list[str]:
    values = value if isinstance(value, tuple) else (value,)
    if isinstance(parameter, click.Argument):
        return [str(one) for one in values]
    option = max(parameter.opts, key=len)
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return [option]
    return [word for one in values for word in (option, str(one))]


def hush_packages() -> None:
    """Some packages set up logging to stderr when they are imported, unless somebody has."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())


_LARGE = 30_000_000  # bytes that take long enough to read for somebody to wait


def working_on(what: str, *files: str) -> AbstractContextManager[object]:
    """Something that moves, where the files are large enough to wait for and somebody watches."""
    large = sum(os.path.getsize(file) for file in files if os.path.isfile(file)) > _LARGE
    if not large or not sys.stderr.isatty():
        return nullcontext()
    from assay.report.terminal import working

    return working(what)


def narrate_remarks(records: Sequence[RunRecord]) -> None:
    """What a reader of the numbers should know, a line each."""
    for one in records:
        start = f"{one.name}: " if len(records) > 1 else ""
        for remark in disclosures(one.scored()):
            narrate(start + remark)
