"""`assay compare`: Compare runs: which is better, by how much, and how sure is that?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.comparison import tables
from assay.comparison.compare import compare
from assay.comparison.gate import failures, parse_condition, worse_than_baseline
from assay.comparison.tables import MOST_PAIRS
from assay.core.text import did_you_mean
from assay.io.formats import as_judgments
from assay.measures import parse_many
from assay.runs.record import RunRecord
from assay.runs.run_files import group_records, score_run_files, unique_names
from assay.tables.page import Words

if TYPE_CHECKING:
    from assay.cli.saving import Saving
    from assay.comparison.compare import Comparison
    from assay.comparison.differences import QueryDifferences
    from assay.comparison.gate import Condition
    from assay.comparison.sensitivity import Sensitivity
    from assay.measures import Measure
    from assay.tables.page import Page

__all__ = ["command", "with_baseline"]

_FORMATS = ("text", "markdown", "latex", "csv", "tsv", "json")
_REASONS = 3


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@options.qrels_option
@click.option(
    "-m",
    "--measure",
    "measures",
    multiple=True,
    metavar="NAME",
    help="A measure such as nDCG@10 (the default), or a group. May be repeated.",
)
@options.statistics_options
@click.option(
    "--sensitivity",
    "sensitivity_wanted",
    is_flag=True,
    help="Compare also under other tie rules and conventions.",
)
@click.option(
    "--differences",
    "n_differences",
    type=click.IntRange(min=1),
    metavar="N",
    help="The N largest wins and losses among the queries.",
)
@options.conventions_options
@click.option("--rel", type=float, metavar="N", help="Smallest grade that is relevant. [1]")
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Exit with 1 if a run meets it: 'nDCG@10 < baseline - 0.005'. May be repeated.",
)
@click.option(
    "--fail-if-worse",
    is_flag=True,
    help="Exit with 1 if a run is significantly worse than the baseline; with --margin, unless it "
    "is shown to be within the margin.",
)
@click.option("--format", "named", type=click.Choice(_FORMATS), help="Layout of the result.")
@options.json_option
@options.output_option
@options.save_options("retrieval")
def command(
    *,
    runs: tuple[str, ...],
    qrels: str,
    measures: tuple[str, ...],
    baseline: str | None,
    by: str | None,
    sensitivity_wanted: bool,
    n_differences: int | None,
    conventions: str,
    ties: str | None,
    empty: str | None,
    missing: str | None,
    depth: int | None,
    rel: float | None,
    conditions: tuple[str, ...],
    fail_if_worse: bool,
    named: str | None,
    json_wanted: bool,
    file: str | None,
    saving: Saving,
    **settings: Any,
) -> int:
    """Compare runs: which is better, by how much, and how sure is that?

    All pairs, or each run with a baseline. A verdict for each measure, means and differences with
    intervals, p-values corrected for the number of pairs.

    \b
    Examples:
      assay compare bm25.txt dense.txt --qrels qrels.txt
      assay compare *.run -r qrels.txt -m nDCG@10 -m AP --format latex
      assay compare dense.txt hybrid.txt -r qrels.txt --baseline bm25.txt --differences 5
      assay compare coarse.txt dense.txt -r qrels.txt --sensitivity
      assay compare new.txt -r qrels.txt -b old.txt --fail-if 'nDCG@10 < baseline - 0.005'
      assay compare new.txt -r qrels.txt -b old.txt --fail-if-worse --margin 0.005
    """
    layout = _layout(named, json_wanted, file)
    _refuse_senseless(layout, sensitivity_wanted, n_differences)
    gate = _Gate.of(conditions, fail_if_worse, rel)
    paths, base = with_baseline(runs, baseline)
    gate.refuse_without(base)
    output.refuse_input(file, *paths, qrels, options.group_file(by))
    rules = options.make_conventions(
        conventions, ties=ties, empty=empty, missing=missing, depth=depth
    )
    with output.show_activity("reading and scoring …", qrels, *paths):
        scored = score_run_files(paths, qrels, _wanted(measures, rel, gate), conventions=rules)
    column = None
    if by is not None:
        scored, column = group_records(scored, by)
    seeds = {"seed": settings["seed"]}
    saving.keep(
        [one.but(seeds=seeds, clusters=column or "") for one in scored], options.group_file(by)
    )
    settings |= {"baseline": None if base is None else scored[base].name, "by": column}
    comparison = _compared(scored, settings)
    extra = _Extra(
        tuple(_differences(comparison) if n_differences else ()),
        n_differences or 0,
        tuple(_sensitivities(scored, qrels, comparison, settings) if sensitivity_wanted else ()),
    )
    reasons = gate.reasons(comparison)
    _narrate(scored, comparison, layout)
    if layout == "json":
        data = _as_data(scored, qrels, comparison, extra)
        gated = {"gate": {"failed": bool(reasons), "reasons": reasons}} if gate.wanted else {}
        output.put(output.as_json({**data, **gated}), file)
    else:
        _print(comparison, extra, layout, file)
    return _shut(reasons)


def _layout(named: str | None, json_wanted: bool, file: str | None) -> str:
    if named is None and not json_wanted and file and file.lower().endswith(".tex"):
        return "latex"
    return output.choose_format(named, json_wanted, file)


def _refuse_senseless(layout: str, sensitivity: bool, n_differences: int | None) -> None:
    if layout in ("csv", "tsv") and (sensitivity or n_differences):
        raise click.UsageError(
            f"--format {layout} holds one table, that of the pairs; use text, markdown, latex or "
            "json for --sensitivity and --differences."
        )


@dataclass(frozen=True)
class _Gate:
    """What makes the command fail."""

    conditions: tuple[Condition, ...]
    worse: bool

    @classmethod
    def of(cls, texts: tuple[str, ...], worse: bool, rel: float | None) -> _Gate:
        """Read the conditions; their measures take the same smallest relevant grade as others."""
        read = map(parse_condition, texts)
        conditions = [
            replace(c, measure=options.apply_threshold((c.measure,), rel)[0]) for c in read
        ]
        return cls(tuple(conditions), worse)

    @property
    def wanted(self) -> bool:
        """Whether there is anything to fail for."""
        return bool(self.conditions) or self.worse

    def refuse_without(self, base: int | None) -> None:
        """Refuse to hold runs against a baseline that nobody named."""
        speaks = [condition for condition in self.conditions if condition.limit is None]
        if base is None and (self.worse or speaks):
            what = "--fail-if-worse" if self.worse else f"'{speaks[0]}'"
            raise click.UsageError(f"{what} needs a baseline: name it with --baseline.")

    def reasons(self, comparison: Comparison) -> list[str]:
        """Why the command fails; nothing if it does not."""
        worse = list(worse_than_baseline(comparison)) if self.worse else []
        return [*failures(comparison, self.conditions), *worse]


def with_baseline(
    runs: tuple[str, ...], baseline: str | None
) -> tuple[tuple[str, ...], int | None]:
    """All files, and which of them is the baseline; it may be named without being listed."""
    base = None
    if baseline is not None:
        names = unique_names(runs)
        alike = [i for i, run in enumerate(runs) if baseline in (names[i], run)]
        if not alike and os.path.exists(baseline):
            runs, alike = (baseline, *runs), [0]
        if not alike:
            raise click.UsageError(
                f"The baseline {baseline!r} is neither a file nor one of the runs."
                + did_you_mean(baseline, names, most=2, fallback=5)
            )
        base = alike[0]
    if len(runs) < 2:
        raise click.UsageError("There is one run; a comparison needs two, or a --baseline.")
    return runs, base


def _wanted(names: tuple[str, ...], rel: float | None, gate: _Gate) -> tuple[Measure, ...]:
    held = tuple(condition.measure for condition in gate.conditions)
    asked = options.apply_threshold(parse_many(names or held or ("nDCG@10",)), rel)
    return tuple(dict.fromkeys((*asked, *held)))


def _compared(scored: list[RunRecord], settings: dict[str, Any]) -> Comparison:
    first, second, *more = (one.scored() for one in scored)
    return compare(first, second, *more, names=[one.name for one in scored], **settings)


@dataclass(frozen=True)
class _Extra:
    """What was asked for beside the comparison."""

    differences: tuple[QueryDifferences, ...]
    n_differences: int
    sensitivities: tuple[Sensitivity, ...]


def _differences(comparison: Comparison) -> Iterator[QueryDifferences]:
    """Each run less the baseline; else the best run less the second, or two runs as given."""
    for measure in comparison.measures:
        if comparison.baseline is not None:
            for pair in comparison.pairs_on(measure):
                yield comparison.differences(measure, pair.a, pair.b)
        elif len(comparison.names) == 2:
            yield comparison.differences(measure)
        else:
            first, second, *_ = comparison.standings_on(measure)
            yield comparison.differences(measure, first.name, second.name)


def _sensitivities(
    scored: list[RunRecord], qrels: str, comparison: Comparison, settings: dict[str, Any]
) -> Iterator[Sensitivity]:
    from assay.comparison.sensitivity import sensitivity

    judgments = as_judgments(qrels)
    runs = {one.name: one.provenance["file"] for one in scored}
    scores = scored[0].scored()
    groups = {
        name: dict(zip(scores.query_ids, column.tolist(), strict=True))
        for name, column in scores.groups.items()
    }
    for measure in comparison.measures:
        yield sensitivity(
            runs,
            judgments,
            measure,
            conventions=scores.conventions,
            groups=groups,
            **settings,
        )


def _narrate(scored: list[RunRecord], comparison: Comparison, layout: str) -> None:
    """Say what a reader should know that the result itself does not hold."""
    output.narrate_remarks(scored)
    if layout in ("csv", "tsv"):
        for remark in comparison.remarks:
            output.narrate(remark)
    n_pairs = len(comparison.pairs) // len(comparison.measures)
    if layout in ("text", "markdown", "latex") and n_pairs > MOST_PAIRS:
        output.narrate(f"{n_pairs:,} pairs are too many to list; --format csv or json has them")


def _as_data(
    scored: list[RunRecord], qrels: str, comparison: Comparison, extra: _Extra
) -> dict[str, Any]:
    data = {
        "command": "compare",
        **comparison.to_dict(),
        "qrels": qrels,
        "runs": [
            {
                "name": one.name,
                "path": one.provenance["file"],
                "tag": one.provenance["tag"] or one.name,
            }
            for one in scored
        ],
    }
    if extra.differences:
        data["differences"] = [one.to_dict(extra.n_differences) for one in extra.differences]
    if extra.sensitivities:
        data["sensitivity"] = [one.to_dict() for one in extra.sensitivities]
    return data


def _print(comparison: Comparison, extra: _Extra, layout: str, file: str | None) -> None:
    from assay.tables import page

    if layout in ("csv", "tsv"):
        table = tables.data_table(comparison)
        output.show([table], layout=layout, file=file, signature=comparison.signature)
        return
    made = tables.comparison_page(comparison, _extra_page(extra))
    if layout == "text" and file is None and output.on_terminal():
        from assay.report.terminal import print_page

        print_page(made)
        return
    write = {"text": page.text_page, "markdown": page.markdown_page, "latex": page.latex_page}
    output.put(write[layout](made), file)


def _extra_page(extra: _Extra) -> Page:
    page: Page = []
    for found in extra.differences:
        page.append(Words(f"{found.measure}: the queries that {found.a} wins and loses most"))
        page.append(found.table(extra.n_differences))
    for each in extra.sensitivities:
        page += [Words(each.verdict, "verdict"), each.table()]
        if each.unchanged:
            page.append(Words(f"No mean changes under {', '.join(each.unchanged)}."))
    return page


def _shut(reasons: list[str]) -> int:
    """One line that says why the command fails, and the exit code."""
    if not reasons:
        return 0
    more = f"; and {len(reasons) - _REASONS} more" if len(reasons) > _REASONS else ""
    sys.stdout.flush()
    output.narrate(f"assay: failed: {'; '.join(reasons[:_REASONS])}{more}")
    return 1
