"""`assay measures`: List the measures, their formulas and parameters."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.core.conventions import PRESETS
from assay.measures import GROUPS, REGISTRY, parse_many
from assay.measures.registry import format_value, load_measures
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.measures import Definition

__all__ = ["command"]


@click.command("measures", cls=Command)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--conventions", "presets", is_flag=True, help="List the presets instead.")
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
        raise click.UsageError("--conventions lists the presets; it takes no NAME.")
    result = _list_presets() if presets else _list_measures(names)
    layout = output.choose_format(None, json_wanted, file, known=_formats(result))
    output.emit(result, layout, file)


def _formats(result: output.TableResult | output.TextResult) -> tuple[str, ...]:
    if isinstance(result, output.TextResult):
        return ("text", "json")
    return ("text", "markdown", "csv", "tsv", "json")


def _list_measures(names: tuple[str, ...]) -> output.TableResult | output.TextResult:
    """All measures, those of other installed packages included, or all about some of them."""
    failures = load_measures()
    if names:
        return _describe_measures(names)
    for failure in failures:
        output.narrate(str(failure))
    return _list_all()


def _list_all() -> output.TableResult:
    rows = tuple(
        (Cell(_pattern(one)), Cell(one.formula), Cell(_other_names(one)))
        for one in REGISTRY.values()
    )
    data = {
        "measures": [_to_dict(one) for one in REGISTRY.values()],
        "groups": {name: list(members) for name, members in GROUPS.items()},
    }
    table = Table(("measure", "formula", "also called"), rows)
    note = "'assay measures NAME' says more. Groups for -m: default, official, all_trec."
    return output.TableResult(table, data, note=note)


def _pattern(one: Definition) -> str:
    """How the measure is written: `P@k`, `AP[@k]`, `iprec@x`, `MAP@R`."""
    cut = {"required": "@k", "optional": "[@k]", "level": "@x", "R": "@R"}.get(one.cutoff, "")
    return one.name + cut


def _other_names(one: Definition) -> str:
    trec = (one.trec or "").replace("{k}", "k").replace("{level}", "x")
    names = dict.fromkeys(name for name in (trec, *one.aliases) if name)
    return ", ".join(name for name in names if name.lower() != one.name.lower())


def _to_dict(one: Definition) -> dict[str, Any]:
    """One measure as plain data."""
    return {
        "name": one.name,
        "written": _pattern(one),
        "summary": one.summary,
        "formula": one.formula,
        "cutoff": one.cutoff,
        "range": [0.0, one.high],
        "aggregate": one.aggregate,
        "aliases": list(one.aliases),
        "trec_eval": one.trec,
        "laws": sorted(one.laws),
        "parameters": {
            key: {
                "takes": param.takes(),
                "default": param.default,
                "about": param.about,
                "convention": param.convention,
            }
            for key, param in one.params.items()
        },
    }


def _describe_measures(names: tuple[str, ...]) -> output.TextResult:
    found = {
        one.name: one
        for name in names
        for one in ([REGISTRY[name]] if name in REGISTRY else [parse_many(name)[0].definition])
    }
    data = {"measures": [_to_dict(one) for one in found.values()]}
    return output.TextResult("\n\n".join(map(_describe, found.values())), data)


def _describe(one: Definition) -> str:
    high = "no limit" if one.high is None else f"{one.high:g}"
    facts = {
        "formula": one.formula,
        "range": f"0 to {high}",
        "average": {"mean": "arithmetic mean", "sum": "sum", "geometric": "geometric mean"}[
            one.aggregate
        ],
        "also called": _other_names(one) or "–",
    }
    lines = [_pattern(one), "", inspect.cleandoc(one.function.__doc__ or ""), ""]
    lines += [f"{key + ':':<13}{value}" for key, value in facts.items()]
    lines += ["parameters:" if one.params else "parameters:  none"]
    for key, param in one.params.items():
        source = f"conventions ({param.convention})" if param.convention else _default(param)
        lines.append(f"  {key:<8}{param.about}; {param.takes()}; default: {source}")
    return "\n".join(lines)


def _default(param: Any) -> str:
    return format_value(param.default) or "none"


def _list_presets() -> output.TableResult:
    usual = set(PRESETS["trec_eval"].signature().split("|"))
    rows = []
    for name, rules in PRESETS.items():
        own = [part for part in rules.signature().split("|")[1:] if part not in usual]
        rows.append((Cell(name), Cell("  ".join(own) or "the default")))
    data = {"presets": {name: rules.signature() for name, rules in PRESETS.items()}}
    table = Table(("preset", "what differs from trec_eval"), tuple(rows))
    note = "'assay eval --conventions NAME' takes one, and prints its whole signature."
    return output.TableResult(table, data, note=note)
