"""What `assay descriptors run` and `demo` do: evaluate, draw, save and show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.cli import output
from assay.cli.descriptors_pictures import check_pictures, draw_pictures
from assay.cli.progress import progress_bar
from assay.cli.saved import Result, Saving
from assay.errors import MismatchError
from assay.report.page import Page, Words
from assay.report.tables import Table
from assay.tasks import descriptors_tables as tables
from assay.tasks.descriptors_compare import compare_descriptors
from assay.tasks.descriptors_data import aggregates_of_result, result_data
from assay.tasks.descriptors_run import ExperimentResult, load_scenes, run_experiment
from assay.tasks.descriptors_settings import Experiment
from assay.tasks.descriptors_summary import CategorySummary, summarize

if TYPE_CHECKING:
    from assay.comparison import Comparison

__all__ = ["Report", "evaluate_and_show"]

_MOST_NOTES = 3


def evaluate_and_show(
    experiment: Experiment, folder: str | None, saving: Saving, chosen: dict[str, Any], *,
    inputs: Sequence[str],
) -> int:  # fmt: skip
    """Run the experiment and print what the options ask for; 1 if anything failed."""
    file, wide = chosen["file"], chosen["wide"]
    layout = output.chosen_format(chosen["named"], chosen["json_wanted"], file)
    for written in (file, wide):
        output.refuse_input(written, *inputs)
    output.refuse_one_file(file, wide)
    scenes = load_scenes(experiment.dataset)
    pair, pictures = chosen["show"], chosen["show_to"] or "."
    if pair is not None:
        check_pictures(scenes, pair, pictures)
    with progress_bar(f"{experiment.name}: scenes") as progress:
        found = run_experiment(
            experiment, work_folder=folder, scenes=scenes, threads=chosen["threads"],
            progress=progress,
        )  # fmt: skip
    report = Report(found, chosen)
    if pair is not None:
        draw_pictures(found, pair, pictures)
    if wide is not None:
        from assay.report.tables import as_csv

        output.put(as_csv(tables.wide_table(found.results, report.rule)), wide)
    saving.keep(_runs(found, report.rule, inputs))
    _show(report, layout, file)
    return 1 if found.n_failed else 0


@dataclass(frozen=True, eq=False)
class Report:
    """What was found, as tables, words and plain data."""

    found: ExperimentResult
    chosen: dict[str, Any]

    @property
    def rule(self) -> str:
        """Which label 0 counts as wrong."""
        return self.found.experiment.evaluation.rule

    @property
    def signature(self) -> str:
        """The conventions, and which version computed the numbers."""
        return self.found.headline[0].scores.signature

    @cached_property
    def summaries(self) -> list[CategorySummary]:
        """Descriptors × categories, for the first tolerance."""
        return self.summaries_at(self.found.experiment.evaluation.tau[0])

    def summaries_at(self, tau: float) -> list[CategorySummary]:
        """Descriptors × categories for one tolerance."""
        how = self.found.experiment.evaluation
        return [
            row
            for one in self.found.at(tau)
            for row in summarize(one, level=how.level, resamples=how.resamples, seed=how.seed)
        ]

    @cached_property
    def comparison(self) -> Comparison | None:
        """How descriptors compare on AP; None for one, or where they must not be compared."""
        if len(self.found.headline) < 2:
            return None
        how = self.found.experiment.evaluation
        try:
            return compare_descriptors(
                self.found.headline, force=self.chosen["force"], level=1 - how.level,
                resamples=how.resamples, seed=how.seed,
            )  # fmt: skip
        except MismatchError:
            return None

    @cached_property
    def remarks(self) -> list[str]:
        """What a reader of the numbers should know, a line each."""
        found = self.found
        lines = [f"scenes evaluated: {found.n_computed}, kept from before: {found.n_reused}"]
        lines += found.notes[:_MOST_NOTES]
        if len(found.notes) > _MOST_NOTES:
            lines.append(f"… and {len(found.notes) - _MOST_NOTES} more such notes")
        for name, failure in found.failures:
            lines.append(f"FAILED {name} {failure.scene} {failure.pair}: {failure.reason}")
        if self.comparison is None and len(found.headline) > 1:
            lines.append(self._why_not_compared())
        if self.chosen["force"] and self._sets > 1:
            lines.append("compared by force: means of scenes, on different keypoints")
        for one in found.headline:
            tied = one.scores.tied.any(axis=0)
            if tied.any():
                lines.append(
                    f"{one.name}: {tied.mean():.1%} of keypoints have a value that depends on ties"
                )
        return lines

    @property
    def _sets(self) -> int:
        return len({one.query_set for one in self.found.headline})

    def _why_not_compared(self) -> str:
        try:
            compare_descriptors(self.found.headline)
        except MismatchError as error:
            return f"not compared: {error} (--force)"
        return ""

    def tables(self) -> list[Table]:
        """Everything that was asked for."""
        found = [tables.category_table(self.summaries)]
        headline = self.found.headline
        tasks = tables.task_table(headline, self.rule)
        found += [tasks] if tasks is not None else []
        found += [tables.scene_table(headline)] if self.chosen["per_scene"] else []
        found += [tables.rank_table(headline)] if self.chosen["ranks"] else []
        found += [tables.timing_table(headline)] if self.chosen["timings"] else []
        return found

    def page(self) -> Page:
        """Tables with words between them, for people."""
        how = self.found.experiment.evaluation
        page: Page = [Words(f"τ = {how.tau[0]:g} px; keypoints: {self._keypoints()}")]
        first, *rest = self.tables()
        page.append(first)
        if self.comparison is not None:
            page += [Words(words, "verdict") for words in self.comparison.verdicts.values()]
            page += [Words(words) for words in self.comparison.remarks]
            page.append(self.comparison.pair_table())
        page += rest
        for tau in how.tau[1:]:
            page += [Words(f"τ = {tau:g} px"), tables.category_table(self.summaries_at(tau))]
        page += [Words(line) for line in self.remarks]
        return [*page, Words(self.signature, "signature")]

    def _keypoints(self) -> str:
        return "; ".join(dict.fromkeys(one.keypoints for one in self.found.headline))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        found = self.found
        return {
            "command": "descriptors",
            "signature": self.signature,
            "experiment": _plain(asdict(found.experiment)),
            "results": [
                result_data(one, self.summaries_at(one.tau), rule=self.rule)
                for one in found.results
            ],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "computed": found.n_computed,
            "reused": found.n_reused,
            "failed": found.n_failed,
            "remarks": self.remarks,
        }


def _plain(value: Any) -> Any:
    """Settings as JSON can hold them: a limit that is not there is None."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if value == float("inf") else value


def _runs(found: ExperimentResult, rule: str, inputs: Sequence[str]) -> list[Result]:
    several = len(found.experiment.evaluation.tau) > 1
    evaluation = found.experiment.evaluation
    return [
        Result(
            f"{one.name} τ={one.tau:g}" if several else one.name, one.scores, list(inputs),
            config={"tau": one.tau, "keypoints": one.keypoints, "metric": one.metric, "rule": rule,
                    "query_set": one.query_set, "experiment": _plain(asdict(found.experiment))},
            seeds={"intervals": evaluation.seed}, chance=one.chance(), ceiling=one.ceiling(),
            aggregates=_aggregates(one, rule), model=one.name, clusters="scene",
            drawing={"level": evaluation.level, "resamples": evaluation.resamples,
                     "seed": evaluation.seed},
        )
        for one in found.results
    ]  # fmt: skip


def _aggregates(one: Any, rule: str) -> Any:
    try:
        return aggregates_of_result(one, rule)
    except ImportError:  # without a store there is nothing to save, either
        return ()


def _show(report: Report, layout: str, file: str | None) -> None:
    from assay.report.page import markdown_page, text_page

    if layout == "json":
        output.put(output.as_json(report.to_dict()), file)
    elif layout in ("csv", "tsv"):
        for line in report.remarks:
            output.narrate(line)
        table = tables.category_data(report.summaries)
        output.show([table], layout=layout, file=file, signature=report.signature)
    elif layout == "text" and file is None and output.on_terminal():
        from assay.cli.terminal import print_page

        print_page(report.page())
    else:
        output.put((markdown_page if layout == "markdown" else text_page)(report.page()), file)
