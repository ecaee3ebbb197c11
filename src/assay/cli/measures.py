"""`assay measures` (Tools): List the measures, their formulas and parameters."""

from __future__ import annotations

import inspect
import textwrap
from functools import partial
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.settings import argument, option
from assay.core.conventions import PRESETS
from assay.core.on_demand import OnDemand
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.measures import Definition, parse_many
    from assay.measures.registry import format_value, load_measures
else:
    parse_many = OnDemand("assay.measures").parse_many
    format_value = OnDemand("assay.measures.registry").format_value
    load_measures = OnDemand("assay.measures.registry").load_measures


@click.command("measures", cls=Command)
@argument("names", nargs=-1, metavar="[NAME]...", offers="assay.cli.completion:offer_measures")
@option("--conventions", "presets", is_flag=True, help="List the presets instead.")
@options.json_option
@options.output_option
def command(*, names: tuple[str, ...], presets: bool, json_wanted: bool, file: str | None) -> None:
    """List the measures, their formulas and parameters.

    With a NAME, describe that measure with an example.

    \b
    Examples:
      assay measures
      assay measures nDCG ndcg_cut_10
      assay measures --conventions
    """
    if presets and names:
        raise click.UsageError("--conventions lists all presets. Omit NAME.")
    result = _list_presets() if presets else _list_measures(names)
    table = () if isinstance(result, output.TextResult) else ("markdown", "csv", "tsv")
    layout = output.choose_format(None, json_wanted, file, known=("text", *table, "json"))
    output.emit(result, layout, file)


def _list_measures(names: tuple[str, ...]) -> output.TableResult | output.TextResult:
    """List all measures, also of other packages, or details of the named ones."""
    from assay.measures import GROUPS, REGISTRY

    failures = load_measures()
    if names:
        return _describe_measures(names)
    output.narrate_all(map(str, failures))
    rows = tuple(
        (Cell(_pattern(definition)), Cell(definition.formula), Cell(_other_names(definition)))
        for definition in REGISTRY.values()
    )
    data = {
        "measures": [_to_dict(definition) for definition in REGISTRY.values()],
        "groups": {name: list(members) for name, members in GROUPS.items()},
    }
    table = Table(("measure", "formula", "also called"), rows)
    note = "'assay measures NAME' says more. Groups for -m: default, official, all_trec."
    return output.TableResult(table, data, note=note)


def _pattern(entry: Definition) -> str:
    """Return the form of a measure: `P@k`, `AP[@k]`, `iprec@x`, `MAP@R`."""
    cut = {"required": "@k", "optional": "[@k]", "level": "@x", "R": "@R"}.get(entry.cutoff, "")
    return entry.name + cut


def _other_names(definition: Definition) -> str:
    trec = (definition.trec or "").replace("{k}", "k").replace("{level}", "x")
    names = dict.fromkeys(name for name in (trec, *definition.aliases) if name)
    return ", ".join(name for name in names if name.lower() != definition.name.lower())


def _to_dict(definition: Definition) -> dict[str, Any]:
    """Return one measure as plain data."""
    return {
        "name": definition.name,
        "written": _pattern(definition),
        "summary": definition.summary,
        "formula": definition.formula,
        "cutoff": definition.cutoff,
        "range": [0.0, definition.high],
        "aggregate": definition.aggregate,
        "aliases": list(definition.aliases),
        "trec_eval": definition.trec,
        "laws": sorted(definition.laws),
        "parameters": {
            key: {
                "takes": param.takes(),
                "default": param.default,
                "about": param.about,
                "convention": param.convention,
            }
            for key, param in definition.params.items()
        },
    }


def _describe_measures(names: tuple[str, ...]) -> output.TextResult:
    from assay.measures import REGISTRY

    definitions = {
        entry.name: entry
        for name in names
        for entry in ([REGISTRY[name]] if name in REGISTRY else [parse_many(name)[0].definition])
    }
    data = {"measures": [_to_dict(entry) for entry in definitions.values()]}
    return output.TextResult("\n\n".join(map(_describe, definitions.values())), data)


def _describe(definition: Definition) -> str:
    high = "no limit" if definition.high is None else f"{definition.high:g}"
    facts = {
        "formula": definition.formula,
        "range": f"0 to {high}",
        "average": {"mean": "arithmetic mean", "sum": "sum", "geometric": "geometric mean"}[
            definition.aggregate
        ],
        "also called": _other_names(definition) or "–",
    }
    lines = [_pattern(definition), "", inspect.cleandoc(definition.function.__doc__ or ""), ""]
    lines += [f"{key + ':':<13}{value}" for key, value in facts.items()]
    lines += ["parameters:" if definition.params else "parameters:  none"]
    for key, param in definition.params.items():
        default = "None" if param.default is None else format_value(param.default) or "none"
        source = f"conventions ({param.convention})" if param.convention else default
        lines.append(f"  {key:<8}{param.about}; {param.takes()}; default: {source}")
    text = "\n".join(lines)
    if not output.on_terminal():
        return text
    fill = partial(textwrap.fill, width=get_terminal_size().columns, subsequent_indent=" " * 10)
    return "\n".join(map(fill, text.split("\n")))


def _list_presets() -> output.TableResult:
    usual = set(PRESETS["trec_eval"].signature().split("|"))
    rows = []
    for name, rules in PRESETS.items():
        changes = [part for part in rules.signature().split("|")[1:] if part not in usual]
        rows.append((Cell(name), Cell("  ".join(changes) or "the default")))
    data = {"presets": {name: rules.signature() for name, rules in PRESETS.items()}}
    table = Table(("preset", "what differs from trec_eval"), tuple(rows))
    note = "'assay eval --conventions NAME' takes one, and prints its whole signature."
    return output.TableResult(table, data, note=note)
