"""`assay compare`: Compare runs: which is better, by how much, and how sure is that?"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.comparison.compare import compare
from assay.comparison.gate import failures, parse_condition, worse_than_baseline
from assay.comparison.looks import count_look, look_at
from assay.comparison.tables import MOST_PAIRS, comparison_page, data_table
from assay.measures import parse_many
from assay.runs.leaderboard import vary_conventions
from assay.runs.record import RunRecord
from assay.runs.run_files import group_records, score_run_files, unique_names
from assay.tables.page import Page, Words

if TYPE_CHECKING:
    from assay.cli.saving import Saving
    from assay.comparison.compare import Comparison
    from assay.comparison.differences import QueryDifferences
    from assay.comparison.gate import Condition
    from assay.comparison.looks import Look
    from assay.comparison.sensitivity import Sensitivity
    from assay.core.conventions import Conventions
    from assay.measures import Measure
    from assay.tables.table import Table

__all__ = ["command"]

_REASONS = 3


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@options.qrels_option
@options.measures_option("A measure such as nDCG@10 (the default), or a group. May be repeated.")
@options.statistics_options
@options.slices_option
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
@options.rel_option
@options.mismatch_option
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
@click.option(
    "--look",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --fail-if-worse: it is asked for the N-th time on these queries; all looks together "
    "err as rarely as --level says.",
)
@click.option(
    "--look-file",
    type=options.output_file,
    metavar="FILE",
    help="The same, and FILE counts: numbers seen before are no new look, a new baseline begins "
    "anew.",
)
@options.result_options("text", "markdown", "latex", "csv", "tsv", "json")
@options.save_options("retrieval")
def command(
    *,
    runs: tuple[str, ...],
    qrels: str,
    measures: tuple[str, ...],
    baseline: str | None,
    by: str | None,
    slices: str | None,
    sensitivity_wanted: bool,
    n_differences: int | None,
    rules: Conventions,
    rel: float | None,
    allow_mismatch: bool,
    conditions: tuple[str, ...],
    fail_if_worse: bool,
    look: int | None,
    look_file: str | None,
    layout: str,
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
      assay compare coarse.txt dense.txt -r qrels.txt --slices queries.tsv:language
      assay compare new.txt -r qrels.txt -b old.txt --fail-if 'nDCG@10 < baseline - 0.005'
      assay compare new.txt -r qrels.txt -b old.txt --fail-if-worse --margin 0.005
      assay compare new.txt -r qrels.txt -b old.txt --fail-if-worse --look-file looks.json
    """
    if layout in ("csv", "tsv") and (sensitivity_wanted or n_differences):
        raise click.UsageError(
            f"--format {layout} holds one table, that of the pairs; use text, markdown, latex or "
            "json for --sensitivity and --differences."
        )
    gate = _Gate.parse(conditions, fail_if_worse, rel, look, look_file)
    paths, base = _add_baseline(runs, baseline)
    gate.refuse_without(base)
    grouping = [options.group_file(one) for one in (by, slices)]
    output.refuse_input(file, *paths, qrels, *grouping)
    output.refuse_same_file(file, look_file)
    wanted = _choose_measures(measures, rel, gate)
    with output.show_activity("reading and scoring …", qrels, *paths):
        records = score_run_files(
            paths, qrels, wanted, conventions=rules, allow_mismatch=allow_mismatch
        )
    column = None
    if by is not None:
        records, column = group_records(records, by)
    sliced = None
    if slices is not None:
        records, sliced = group_records(records, slices, without="")
    seeds = {"seed": settings["seed"]}
    saving.save([one.but(seeds=seeds, clusters=column or "") for one in records], *grouping)
    first, second, *more = (one.scored() for one in records)
    comparison = compare(
        first,
        second,
        *more,
        names=[one.name for one in records],
        baseline=None if base is None else records[base].name,
        by=column,
        slices=sliced,
        **settings,
    )
    asked = gate.look_at(comparison)
    result = _ComparedFiles(
        comparison,
        records,
        qrels,
        differences=tuple(comparison.main_differences()) if n_differences else (),
        n_differences=n_differences or 0,
        sensitivities=(
            tuple(vary_conventions(records, qrels, comparison)) if sensitivity_wanted else ()
        ),
        reasons=gate.reasons(comparison, asked) if gate.wanted else None,
        look=asked,
    )
    _narrate(records, comparison, layout)
    output.emit(result, layout, file)
    return _exit_code(result.reasons or [])


def _add_baseline(
    runs: tuple[str, ...], baseline: str | None
) -> tuple[tuple[str, ...], int | None]:
    """All files, and which of them is the baseline; it may be named without being listed."""
    base = None
    if baseline is not None:
        base = options.find_baseline(baseline, runs, unique_names(runs))
        if base is None:
            runs, base = (baseline, *runs), 0
    if len(runs) < 2:
        raise click.UsageError("There is one run; a comparison needs two, or a --baseline.")
    return runs, base


def _choose_measures(names: tuple[str, ...], rel: float | None, gate: _Gate) -> tuple[Measure, ...]:
    """Those named, else those of the gate, else nDCG@10."""
    gated = tuple(condition.measure for condition in gate.conditions)
    named = options.apply_threshold(parse_many(names or gated or ("nDCG@10",)), rel)
    return tuple(dict.fromkeys((*named, *gated)))


@dataclass(frozen=True)
class _Gate:
    """What makes the command fail."""

    conditions: tuple[Condition, ...]
    worse: bool
    look: int | None
    look_file: str | None

    @classmethod
    def parse(
        cls,
        texts: tuple[str, ...],
        worse: bool,
        rel: float | None,
        look: int | None,
        look_file: str | None,
    ) -> _Gate:
        """Read the conditions; their measures take the same smallest relevant grade as others."""
        if look is not None and look_file is not None:
            raise click.UsageError("--look and --look-file both count: give one of the two.")
        if (look is not None or look_file is not None) and not worse:
            name = "--look" if look_file is None else "--look-file"
            raise click.UsageError(f"{name} counts the looks of --fail-if-worse: add that.")
        conditions = [
            replace(one, measure=options.apply_threshold((one.measure,), rel)[0])
            for one in map(parse_condition, texts)
        ]
        return cls(tuple(conditions), worse, look, look_file)

    @property
    def wanted(self) -> bool:
        """Whether there is anything to fail for."""
        return bool(self.conditions) or self.worse

    def refuse_without(self, base: int | None) -> None:
        """Refuse conditions on a baseline that is not named."""
        relative = [condition for condition in self.conditions if condition.limit is None]
        if base is None and (self.worse or relative):
            what = "--fail-if-worse" if self.worse else f"'{relative[0]}'"
            raise click.UsageError(f"{what} needs a baseline: name it with --baseline.")

    def look_at(self, comparison: Comparison) -> Look | None:
        """The look, counted; None where the gate is asked as if for the only time."""
        if self.look_file is not None:
            look_at(comparison, 1)  # what cannot be looked at is not counted
            number, seen_before = count_look(comparison, self.look_file)
            return look_at(comparison, number, seen_before=seen_before)
        return None if self.look is None else look_at(comparison, self.look)

    def reasons(self, comparison: Comparison, look: Look | None) -> list[str]:
        """Why the command fails; nothing if it does not."""
        worse = worse_than_baseline(comparison) if look is None else look.reasons
        return [*failures(comparison, self.conditions), *(worse if self.worse else ())]


@dataclass(frozen=True)
class _ComparedFiles:
    """A comparison of run files with the differences and sensitivities that options add."""

    comparison: Comparison
    records: list[RunRecord]
    qrels: str
    differences: tuple[QueryDifferences, ...]
    n_differences: int
    sensitivities: tuple[Sensitivity, ...]
    reasons: list[str] | None  # of the gate; None where there is none
    look: Look | None

    @property
    def signature(self) -> str:
        return self.comparison.signature

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.comparison.remarks

    def table(self) -> Table:
        return data_table(self.comparison)

    def page(self) -> Page:
        extra: Page = []
        for found in self.differences:
            extra.append(Words(f"{found.measure}: the queries that {found.a} wins and loses most"))
            extra.append(found.table(self.n_differences))
        for each in self.sensitivities:
            extra += [Words(each.verdict, "verdict"), each.table()]
            if each.unchanged:
                extra.append(Words(f"No mean changes under {', '.join(each.unchanged)}."))
        extra += [Words(sentence) for sentence in (self.look.sentences if self.look else ())]
        return comparison_page(self.comparison, extra)

    def to_dict(self) -> dict[str, Any]:
        data = {
            **self.comparison.to_dict(),
            "qrels": self.qrels,
            "runs": [
                {
                    "name": one.name,
                    "path": one.provenance["file"],
                    "tag": one.provenance["tag"] or one.name,
                }
                for one in self.records
            ],
        }
        if self.differences:
            data["differences"] = [one.to_dict(self.n_differences) for one in self.differences]
        if self.sensitivities:
            data["sensitivity"] = [one.to_dict() for one in self.sensitivities]
        if self.reasons is not None:
            data["gate"] = {"failed": bool(self.reasons), "reasons": self.reasons}
            if self.look is not None:
                data["gate"]["look"] = self.look.to_dict()
        return data


def _narrate(records: list[RunRecord], comparison: Comparison, layout: str) -> None:
    """Say what a reader should know that the result itself does not hold."""
    output.narrate_remarks(records, but=comparison.remarks)
    n_pairs = len(comparison.pairs) // len(comparison.measures)
    if layout in ("text", "markdown", "latex") and n_pairs > MOST_PAIRS:
        output.narrate(f"{n_pairs:,} pairs are too many to list; --format csv or json has them")


def _exit_code(reasons: list[str]) -> int:
    """The exit code, after one line that says why the gate failed."""
    if not reasons:
        return 0
    more = f"; and {len(reasons) - _REASONS} more" if len(reasons) > _REASONS else ""
    sys.stdout.flush()
    output.narrate(f"assay: failed: {'; '.join(reasons[:_REASONS])}{more}")
    return 1
