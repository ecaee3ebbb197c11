"""`assay compare` (Evaluate): Compare runs: which is better, by how much, and how sure is that?"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.gating import Gate, gate_options
from assay.cli.settings import argument
from assay.stats.choices import MOST_PAIRS
from assay.tables.table import Page, Words

if TYPE_CHECKING:
    from assay.cli.gating import GateAnswer
    from assay.cli.output import Saving
    from assay.comparison.compare import Comparison, QueryDifferences
    from assay.comparison.sensitivity import Sensitivity
    from assay.core.conventions import Conventions
    from assay.measures import Measure
    from assay.runs.record import RunRecord
    from assay.tables.table import Table


@click.command("compare", cls=Command, verified=True)
@argument("runs", nargs=-1, required=True, metavar="RUN...", reads=True)
@options.measures_option("Measure or group of measures. [nDCG@10] May be repeated.")
@options.statistics_options
@options.slices_option
@options.in_statistics(
    "--sensitivity",
    "sensitivity_wanted",
    is_flag=True,
    help="Compare also under other tie rules and conventions.",
)
@options.in_statistics(
    "--differences N",
    "n_differences",
    least=1,
    help="The N largest wins and losses among the queries.",
)
@options.conventions_options
@options.rel_option
@options.mismatch_option
@gate_options
@options.result_options()
@options.save_options("retrieval")
@options.label_options(means=False)
def command(
    *,
    runs: tuple[str, ...],
    qrels: str,
    queries: str | None,
    measures: tuple[str, ...],
    baseline: str | None,
    by: str | None,
    slices: str | None,
    sensitivity_wanted: bool,
    n_differences: int | None,
    rules: Conventions,
    rel: float | None,
    allow_mismatch: bool,
    gate: Gate,
    layout: str,
    file: str | None,
    saving: Saving,
    **settings: Any,
) -> int:
    """Compare runs: which is better, by how much, and how sure is that?

    Compares all pairs, or each run with a baseline. Prints a verdict per measure, means and
    differences with intervals, and p-values corrected for the number of pairs.

    \b
    Examples:
      assay compare dense.run lexical.run --qrels qrels.txt
      assay compare *.run -r qrels.txt -m nDCG@10 -m AP --format latex
      assay compare dense.run coarse.run -r qrels.txt --baseline lexical.run --differences 5
      assay compare coarse.run dense.run -r qrels.txt --sensitivity
      assay compare coarse.run dense.run -r qrels.txt --slices kinds.tsv:kind
      assay compare dense.run -r qrels.txt -b coarse.run --fail-if 'nDCG@10 < baseline - 0.005'
      assay compare dense.run -r qrels.txt -b coarse.run --fail-if-worse --margin 0.1
      assay compare dense.run -r qrels.txt -b coarse.run --fail-if-worse --look-file looks.json
    """
    if layout in ("csv", "tsv") and (sensitivity_wanted or n_differences):
        raise click.UsageError(
            f"--format {layout} holds pairs only. Omit --sensitivity and --differences."
        )
    from assay.comparison.compare import compare
    from assay.runs.leaderboard import vary_conventions
    from assay.runs.run_files import group_records, score_run_files

    paths, base = _add_baseline(runs, baseline)
    gate.refuse_without(base is not None)
    grouping = [options.group_file(record) for record in (by, slices)]
    output.refuse_input(file, *paths, qrels, queries, *grouping)
    output.refuse_same_file(file, gate.look_file)
    parsed = _choose_measures(measures, rel, gate)
    records = score_run_files(
        paths, qrels, parsed, conventions=rules, allow_mismatch=allow_mismatch, queries=queries
    )
    column = None
    if by is not None:
        records, column = group_records(records, by)
    sliced = None
    if slices is not None:
        records, sliced = group_records(records, slices, without="")
    seeds = {"seed": settings["seed"]}
    saving.save([run.replace(seeds=seeds, clusters=column or "") for run in records], *grouping)
    first, second, *more = (record.scored() for record in records)
    comparison = compare(
        first,
        second,
        *more,
        names=[record.name for record in records],
        baseline=None if base is None else records[base].name,
        by=column,
        slices=sliced,
        **settings,
    )
    answer = gate.answer(
        comparison, comparison, None if base is None else str(records[base].provenance["file"])
    )
    result = _ComparedFiles(
        answer.sign(comparison),
        records,
        qrels,
        differences=tuple(comparison.main_differences()) if n_differences else (),
        n_differences=n_differences or 0,
        sensitivities=(
            tuple(vary_conventions(records, qrels, comparison, queries))
            if sensitivity_wanted
            else ()
        ),
        gate=answer,
    )
    output.emit(result, layout, file, remarks=_remarks(records, comparison, layout))
    return result.gate.exit_code()


def _add_baseline(
    runs: tuple[str, ...], baseline: str | None
) -> tuple[tuple[str, ...], int | None]:
    """Return all files, and which is the baseline; it need not be listed."""
    from assay.io.streams import unique_names

    base = None
    if baseline is not None:
        base = options.find_baseline(baseline, runs, unique_names(runs))
        if base is None:
            runs, base = (baseline, *runs), 0
    if len(runs) < 2:
        raise click.UsageError("A comparison needs two runs. Name another, or a --baseline.")
    return runs, base


def _choose_measures(names: tuple[str, ...], rel: float | None, gate: Gate) -> tuple[Measure, ...]:
    """Choose the named measures, else those of the gate, else nDCG@10."""
    from assay.measures import parse_many

    gated = gate.measures
    named = options.apply_threshold(parse_many(names or gated or ("nDCG@10",)), rel)
    return tuple(dict.fromkeys((*named, *gated)))


@dataclass(frozen=True)
class _ComparedFiles:
    """A comparison of run files with the differences and sensitivities that options add."""

    comparison: Comparison
    records: list[RunRecord]
    qrels: str
    differences: tuple[QueryDifferences, ...]
    n_differences: int
    sensitivities: tuple[Sensitivity, ...]
    gate: GateAnswer

    @property
    def signature(self) -> str:
        return self.comparison.signature

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.comparison.remarks

    def table(self) -> Table:
        return self.comparison.data_table()

    def page(self) -> Page:
        """Return verdict and tables of each measure, extra tables and the method."""
        return self.comparison.page(self._extra())

    def paper(self) -> Page:
        """Return one table of systems × measures, and what options add."""
        return self.comparison.paper(self._extra())

    def screen(self) -> Page:
        """Return the first verdict, one table of all measures, and few pairs."""
        files = [str(run.provenance["file"]) for run in self.records]
        words = ["assay", "report", *files, "-r", self.qrels, "-o", "report.html"]
        next_step = Words(f"See it query by query: {shlex.join(words)}", "next")
        return [*self.comparison.screen(self._extra()), next_step]

    def _extra(self) -> Page:
        extra: Page = []
        for words in self.differences:
            extra.append(Words(f"{words.measure}: the queries that {words.a} wins and loses most"))
            extra.append(words.table(self.n_differences))
        for each in self.sensitivities:
            extra += [Words(each.verdict, "verdict"), each.table()]
            if each.unchanged:
                extra.append(Words(f"No mean changes under {', '.join(each.unchanged)}."))
        return [*extra, *self.gate.page()]

    def to_dict(self) -> dict[str, Any]:
        data = {
            **self.comparison.to_dict(),
            "qrels": self.qrels,
            "runs": [
                {
                    "name": part.name,
                    "path": part.provenance["file"],
                    "tag": part.provenance["tag"] or part.name,
                }
                for part in self.records
            ],
        }
        if self.differences:
            data["differences"] = [part.to_dict(self.n_differences) for part in self.differences]
        if self.sensitivities:
            data["sensitivity"] = [part.to_dict() for part in self.sensitivities]
        return {**data, **self.gate.to_dict()}


def _remarks(records: list[RunRecord], comparison: Comparison, layout: str) -> list[str]:
    """Return what a reader should know that the result does not hold."""
    remarks = output.remarks_on(records, but=comparison.remarks)
    n_pairs = len(comparison.pairs) // len(comparison.measures)
    if layout in ("text", "markdown") and n_pairs > MOST_PAIRS:
        remarks.append(f"{n_pairs:,} pairs are too many to list; --format csv or json has them")
    return remarks
