"""Reference pages from the code itself: functions and classes, commands, presets, the tutorial.

They are made when the site is built, so that they cannot differ from the code.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any

import click

import assay
from assay.cli.main import assay as program
from assay.core.conventions import PRESET_NOTES

# The verbs of `assay` by what they are for; whatever else is public follows as values and types.
VERBS = {
    "Evaluate and compare": (
        *("evaluate", "compare", "diff", "check", "explain", "compare_tasks"),
        *("judge", "score", "judge_ranks"),
    ),
    "Evaluate a task": (
        *("run_bench", "evaluate_predictions", "label_retrieval", "paired_retrieval"),
        *("evaluate_codes", "run_experiment"),
    ),
    "Search and fuse": (
        *("rank", "prepare", "fuse", "score_pairs", "target_ranks", "target_ranks_from_scores"),
        *("rank_codes", "pack_codes"),
    ),
    "Read, write and report": (
        *("read_run", "read_qrels", "read_sparse", "read_tokens"),
        *("write_run", "write_qrels", "write_scores", "make_report"),
    ),
    "Name measures and conventions": ("parse", "parse_many", "preset"),
}
# Pages, with the modules whose public names they list.
API = {
    "api.md": ("The API: assay", ("assay", "assay.errors")),
    "api-search.md": (
        "The API: search and models",
        (
            "assay.search.engine",
            "assay.search.indexes",
            "assay.search.fusion",
            "assay.models",
            "assay.cluster",
        ),
    ),
    "api-tasks.md": (
        "The API: tasks",
        tuple(f"assay.{name}" for name in ("bench", "crossmodal", "prediction", "codes", "vision")),
    ),
    "api-results.md": (
        "The API: statistics and results",
        (
            "assay.stats",
            "assay.comparison.sensitivity",
            "assay.io.collections",
            "assay.runs",
            "assay.store",
            "assay.report",
            "assay.web",
        ),
    ),
    "api-compat.md": (
        "The API: names of other packages",
        (
            *(
                f"assay.compat.{name}"
                for name in ("trec_eval", "pytrec_eval", "ranx", "ir_measures")
            ),
            *(f"assay.{name}.compat" for name in ("bench", "prediction", "crossmodal", "codes")),
            "assay.vision.compat",
        ),
    ),
}
# What each page begins with.
FOR_WHOM = {
    "api.md": "For whoever calls Assay from Python. `import assay` is enough: every name is loaded"
    " when it is first used. [Values](values.md) shows the steps from a run to a mean.",
    "api-search.md": "For whoever searches vectors or encodes texts from Python."
    " [Search](search.md), [indexes](indexes.md), [text models](models.md) and"
    " [scaling](scaling.md) have recipes.",
    "api-tasks.md": "For whoever evaluates a task from Python. [Text models](bench.md),"
    " [modalities](crossmodal.md), [predictions](predict.md), [codes](codes.md) and"
    " [descriptors](descriptors.md) have recipes.",
    "api-results.md": "For whoever tests differences, stores results or shows them from Python."
    " [Statistics](statistics.md), [compare](compare.md), [store](store.md) and"
    " [report](report.md) have recipes.",
    "api-compat.md": "For whoever has scripts with the names of other packages or guides."
    " [Switching](switching.md), [trec_eval](trec_eval.md) and [other guides](compat.md) show what"
    " to import.",
}


def api_page(page: str) -> str:
    """Return a page of the public names of its modules; verbs of `assay` come first."""
    title, modules = API[page]
    parts = [f"# {title}", FOR_WHOM[page]]
    if "assay" not in modules:
        rows = [f"| [`{name}`](#{name.replace('.', '')}) | {_about(name)} |" for name in modules]
        parts.append("\n".join(["| module | what it holds |", "|---|---|", *rows]))
    for name in modules:
        parts += _verbs() if name == "assay" else _module(name)
    return "\n\n".join(filter(None, parts)) + "\n"


def _verbs() -> list[str]:
    """Return the public names of `assay` by what they are for, after a table of the verbs."""
    verbs = {name for names in VERBS.values() for name in names}
    others = [name for name in assay.__all__ if name not in verbs]
    groups = VERBS | {"Values and types": others}
    parts = []
    rows = [
        f"| {group if name == names[0] else ''} | [`{name}`](#assay{name})"
        f" | {_escaped(_first_line(getattr(assay, name)))} |"
        for group, names in VERBS.items()
        for name in names
    ]
    parts.append("\n".join(["| to | use | it does |", "|---|---|---|", *rows]))
    for group, names in groups.items():
        parts.append(f"## {group}")
        for name in names:
            parts += _member("assay", name, getattr(assay, name))
    return parts


def _about(name: str) -> str:
    return _escaped(_first_line(importlib.import_module(name)))


def _first_line(value: Any) -> str:
    return _doc(value).partition("\n")[0]


def _module(name: str) -> list[str]:
    module = importlib.import_module(name)
    parts = [f"## {name}", _prose(_doc(module))]
    for each in _public_names(module):
        parts += _member(name, each, getattr(module, each))
    return parts


def _public_names(module: Any) -> list[str]:
    """Return the names that a module declares, or else those that it defines itself."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    return getattr(module, "__all__", None) or own


def _member(module: str, name: str, value: Any) -> list[str]:
    if inspect.ismodule(value):
        return []
    parts = [f"### {module}.{name}"]
    if not callable(value):
        parts.append(
            f"Its keys: {', '.join(f'`{one}`' for one in value)}."
            if isinstance(value, dict)
            else f"```python\n{value!r}\n```"
        )
    else:
        parts += [_signature(name, value), _prose(_doc(value))]
    if inspect.isclass(value) and not issubclass(value, Exception):
        parts += [text for member in _methods(value) for text in _method(name, *member)]
    return parts


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The public members with a docstring that a class of this package defines itself."""
    for name, member in vars(kind).items():
        plain = getattr(member, "__func__", member)
        if not name.startswith("_") and getattr(plain, "__doc__", None):
            yield name, plain


def _method(owner: str, name: str, member: Any) -> list[str]:
    if isinstance(member, property | cached_property):
        return [f"**`{owner}.{name}`**", _prose(_doc(member))]
    if not callable(member):
        return []
    return [_signature(f"{owner}.{name}", member), _prose(_doc(member))]


def _doc(value: Any) -> str:
    own = getattr(value, "__doc__", None)
    return inspect.cleandoc(own) if isinstance(own, str) else ""


def _signature(name: str, value: Any) -> str:
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    public = [
        one
        for one in found.parameters.values()
        if not one.name.startswith("_") and one.name not in ("self", "cls")
    ]
    shown = [_parameter(one) for one in public]
    kinds = [one.kind for one in public]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    inside = ", ".join(shown)
    if len(name) + len(inside) > 80:
        inside = "\n" + "".join(f"    {one},\n" for one in shown)
    given = found.return_annotation
    gives = f" -> {_kind(given)}" if given not in (found.empty, None, "None") else ""
    return f"```python\n{name}({inside}){gives}\n```"


def _kind(annotation: Any) -> str:
    written = getattr(annotation, "__forward_arg__", annotation)  # of a NamedTuple
    return written if isinstance(written, str) else inspect.formatannotation(written)


def _parameter(one: inspect.Parameter) -> str:
    """A parameter as it was written, without the quotes of an annotation that is text."""
    named = str(one.replace(annotation=one.empty, default=one.empty))
    typed = one.annotation is not one.empty
    if typed:
        named += f": {_kind(one.annotation)}"
    if one.default is one.empty:
        return named
    default = re.sub(r"<[^>]*>|\b\w+\(.*\)", "…", repr(one.default))
    return f"{named} = {default}" if typed else f"{named}={default}"


def _prose(doc: str) -> str:
    """Return a docstring as Markdown: lists of arguments, and blocks of examples and code."""
    return "\n\n".join(_paragraph(paragraph) for paragraph in re.split(r"\n\s*\n", doc))


def _paragraph(text: str) -> str:
    heading, _, below = text.partition("\n")
    if heading in ("Args:", "Raises:", "Attributes:"):
        items = re.split(r"\n(?=\S)", inspect.cleandoc(below))
        return f"**{heading[:-1]}**\n\n" + "\n".join(
            _item(" ".join(item.split())) for item in items
        )
    if heading in ("Returns:", "Yields:"):
        return f"**{heading[:-1]}** {_escaped(' '.join(below.split()))}"
    if heading == "Example:" or heading.startswith(">>>"):
        example = inspect.cleandoc(below) if heading == "Example:" else text
        return f"**Example**\n\n```pycon\n{example}\n```"
    if text and all(line.startswith("    ") for line in text.splitlines()):
        language = "pycon" if text.lstrip().startswith(">>>") else "text"
        return f"```{language}\n{inspect.cleandoc(text)}\n```"
    return _escaped(text)


def _item(text: str) -> str:
    name, _, meaning = text.partition(": ")
    return f"- `{name}`: {_escaped(meaning)}"


def _escaped(text: str) -> str:
    """Signs that Markdown would take for its own, outside of code."""
    spans = re.split(r"(`+[^`]+`+)", text)
    return "".join(
        one if at % 2 else re.sub(r"([<*\[\]_])", r"\\\1", one) for at, one in enumerate(spans)
    )


def commands_page() -> str:
    """The help of every command."""
    parts = [
        "# Commands",
        "For whoever wants every option: what `--help` prints, for each command. The examples run"
        " in the folder that `assay demo --files FOLDER` writes, unless they say what they need.",
    ]
    for words, command in _commands(program, ("assay",)):
        settings = {**program.context_settings, "terminal_width": 100}
        context = click.Context(command, info_name=" ".join(words), **settings)
        parts += [f"## {' '.join(words)}", f"```text\n{command.get_help(context).rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


def _commands(
    command: click.Command, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _commands(below, (*words, name))


def presets_page() -> str:
    """Every choice of every preset, and what the preset stands for."""
    names = [one.name for one in fields(assay.Conventions) if one.name != "name"]
    lines = [
        "# Presets",
        "",
        "For whoever needs the choices behind a preset's name."
        " [Conventions](conventions.md) explains the choices, and says which presets are"
        " tested against the package of that name.",
        "",
        "| preset | " + " | ".join(f"`{name}`" for name in names) + " |",
        "|---|" + "---|" * len(names),
    ]
    for name, chosen in assay.PRESETS.items():
        cells = [f"`{getattr(chosen, one)}`" for one in names]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    for name in assay.PRESETS:
        lines += ["", f"## {name}", "", _escaped(PRESET_NOTES[name])]
    return "\n".join(lines) + "\n"


def tutorial_page(notebook: Path) -> str:
    """The notebook with its outputs as a page."""
    parts = []
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_output(output) for output in cell.get("outputs", ())]
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    """What a cell has shown: a picture or a table before its text."""
    data = output.get("data", {})
    for kind in ("image/svg+xml", "text/html"):
        if kind in data:
            whole = "".join(data[kind])
            return (
                '<div class="output" tabindex="0">'
                + re.sub(r"\s*\n\s*", " ", whole).strip()
                + "</div>"
            )
    return f"```text\n{''.join(output.get('text') or data.get('text/plain', '')).rstrip()}\n```"
