"""What `assay descriptors run` and `demo` do: evaluate, draw, save and show."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from assay import __version__
from assay.cli import output
from assay.cli.progress import progress_bar
from assay.cli.saving import Saving
from assay.errors import AssayError, InputError, MismatchError
from assay.search.engine import Codes, rank, target_ranks
from assay.tables.page import Page, Words, markdown_page, text_page
from assay.tables.table import Cell, Table, as_csv
from assay.tasks.descriptors import tables
from assay.tasks.descriptors.compare import CategorySummary, compare_descriptors, summarize
from assay.tasks.descriptors.data import result_data
from assay.tasks.descriptors.distances import hamming_nearest, hamming_target_ranks
from assay.tasks.descriptors.experiment import Experiment
from assay.tasks.descriptors.imports import (
    ImportedRow,
    ImportedRows,
    compare_scenes,
    import_results,
)
from assay.tasks.descriptors.run import ExperimentResult, load_scenes, run_experiment
from assay.tasks.descriptors.tables import category_data, category_table
from assay.tasks.vision.drawing import draw_pair
from assay.tasks.vision.pair import make_pair

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison
    from assay.tasks.descriptors.experiment import DescriptorSettings
    from assay.tasks.descriptors.patches import PatchResult
    from assay.tasks.descriptors.run import ExperimentResult
    from assay.tasks.vision.scenes import Scene

__all__ = [
    "Report",
    "check_pictures",
    "draw_pictures",
    "evaluate_and_show",
    "show_import",
    "show_patches",
    "shown_pair",
]

_SHOWN = (
    "true_map_micro",
    "true_map_macro_by_scene",
    "viewpoint_map",
    "illumination_map",
    "keypoint_verification_ap",
    "keypoint_retrieval_ap",
    "precision_at_1",
    "precision_at_5",
    "mean_precision",
)


def show_import(file: str, unit: str, against: str | None, layout: str, target: str | None) -> int:
    """Print the results of a file; 1 if something in it contradicts something."""
    sources = {"imported": import_results(file, unit=unit)}
    if against is not None:
        sources["new"] = import_results(against, unit="fraction")
    said = [line for found in sources.values() for line in found.contradictions]
    comparison = _compared(sources)
    signature = f"imported|unit:{unit}|version:{__version__}"
    if layout == "json":
        data = {
            "command": "descriptors import",
            "signature": signature,
            "contradictions": said,
            **{name: [_row_data(row) for row in found.rows] for name, found in sources.items()},
            "comparison": None if comparison is None else comparison.to_dict(),
        }
        output.put(output.as_json(data), target)
    else:
        for line in said:
            output.narrate(line)
        shown = None if layout in ("csv", "tsv") else _SHOWN
        tables = [_table(sources, shown)]
        if comparison is not None and shown is not None:
            output.narrate("compared on the means of scenes; their keypoints may differ")
            tables += [comparison.table(), comparison.pair_table()]
        output.show(tables, layout=layout, file=target, signature=signature)
    return 1 if said else 0


def _compared(sources: dict[str, ImportedRows]) -> Any:
    """New results with earlier ones, where both have means of the same scenes."""
    if "new" not in sources:
        return None
    try:
        return compare_scenes([row for found in sources.values() for row in found.rows])
    except AssayError as error:
        output.narrate(f"not compared: {error}")
        return None


def _table(sources: dict[str, ImportedRows], wanted: tuple[str, ...] | None) -> Table:
    every = list(dict.fromkeys(name for found in sources.values() for name in found.columns))
    columns = every if wanted is None else [name for name in wanted if name in every]
    rows = [
        (
            Cell(source),
            Cell(row.name),
            Cell(len(row.scenes), "count"),
            *(Cell(row.values.get(name, math.nan), "fraction") for name in columns),
        )
        for source, found in sources.items()
        for row in found.rows
    ]
    return Table(("source", "descriptor", "scenes", *columns), tuple(rows))


def _row_data(row: ImportedRow) -> dict[str, Any]:
    return {
        "place": row.place,
        "descriptor": row.name,
        "values": row.values,
        "counts": row.counts,
        "scenes": row.scenes,
        "about": row.about,
    }


def show_patches(found: PatchResult, layout: str, file: str | None) -> None:
    """Print patch mAP by category, matching mAP and FPR@95."""
    result = found.result
    summaries = summarize(result)
    signature = result.scores.signature
    if layout == "json":
        data = {
            "command": "descriptors patches",
            "signature": signature,
            "fpr95": found.fpr95,
            "seed": found.seed,
            "result": result_data(result, summaries, rule="paper"),
        }
        output.put(output.as_json(data), file)
    elif layout in ("csv", "tsv"):
        output.show([category_data(summaries)], layout=layout, file=file, signature=signature)
    else:
        tables = [category_table(summaries), _task_table(found)]
        output.show(tables, layout=layout, file=file, signature=signature)


def _task_table(found: PatchResult) -> Table:
    rows = [(Cell("patch mAP"), Cell(found.patch_map, "fraction"))]
    if found.result.matching is not None:
        matching = found.result.matching.mean(empty="skip")["AP"]
        rows.append((Cell("matching mAP"), Cell(matching, "fraction")))
    for kind, value in found.fpr95.items():
        rows.append((Cell(f"FPR@95, wrong pairs of {_words(kind)}"), Cell(value, "fraction")))
    return Table(("task", found.result.name), tuple(rows))


def _words(kind: str) -> str:
    """The kind of wrong pairs in words: `same/easy` are those of the same scene, easy patches."""
    where, _, difficulty = kind.partition("/")
    place = "the same scene" if where == "same" else "other scenes"
    return f"{place}, {difficulty}" if difficulty else place


def draw_pictures(found: ExperimentResult, pair: str, folder: str) -> None:
    """Draw a pair such as v_wall/1-4 for all descriptors; the pair is described again."""
    scene, k = shown_pair(found.scenes, pair)
    for descriptor in found.experiment.descriptors:
        name = "".join(c if c.isalnum() or c in "-_" else "_" for c in descriptor.name)
        path = os.path.join(folder, f"{scene.name}-1-{k}-{name}.png")
        try:
            _draw(found, scene, k, descriptor, path)
        except InputError as error:  # the pair is listed as failed, too
            output.narrate(f"no picture of {pair} by {descriptor.name}: {error}")
        else:
            output.narrate(f"wrote {path}")


def check_pictures(scenes: Sequence[Scene], pair: str, folder: str) -> None:
    """Refuse a pair that is not there, and a folder, before hours of work."""
    shown_pair(scenes, pair)
    if not os.path.isdir(folder):
        raise click.UsageError(f"--show-to {folder} is no folder. Make it first.")


def shown_pair(found: Sequence[Scene], text: str) -> tuple[Scene, int]:
    """The scene and the image that --show names."""
    name, slash, numbers = text.rpartition("/")
    scenes = {scene.name: scene for scene in found}
    number = numbers.removeprefix("1-")
    if not slash or name not in scenes or not number.isdecimal():
        raise click.UsageError(
            f"--show takes a pair such as {found[0].name}/1-2; found {text!r}. Scenes: "
            f"{', '.join(scenes)}."
        )
    if int(number) not in scenes[name].pairs:
        raise click.UsageError(f"Scene {name!r} has no pair 1-{number}.")
    return scenes[name], int(number)


def _draw(
    found: ExperimentResult, scene: Scene, k: int, descriptor: DescriptorSettings, path: str
) -> None:
    how = found.experiment.evaluation
    data = make_pair(
        scene,
        k,
        keypoints=descriptor.keypoints or found.experiment.keypoints,
        descriptor=descriptor.type,
        options=descriptor.options,
        taus=how.tau,
        one_to_one=how.one_to_one,
        symmetric=how.symmetric,
    )
    ranks, nearest = _ranks_of(data, descriptor.metric)
    draw_pair(scene, data, path, ranks=ranks, found=nearest)


def _ranks_of(data: Any, metric: Any) -> tuple[Any, Any]:
    """The rank of each true match, and which target is the nearest."""
    left, right, target = data.query_vectors, data.target_vectors, data.truth.target
    has = np.flatnonzero(target >= 0)
    ranks = np.zeros(len(target), np.int64)
    if isinstance(left, Codes):
        nearest = hamming_nearest(left.packed, right.packed)[0]
        ranks[has] = hamming_target_ranks(left.packed[has], right.packed, target[has]).rank
        return ranks, nearest
    ranks = target_ranks(left, right, target, metric=metric).rank
    return ranks, rank(left, right, 1, metric=metric).docs


_MOST_NOTES = 3


def evaluate_and_show(
    experiment: Experiment,
    folder: str | None,
    saving: Saving,
    chosen: dict[str, Any],
    *,
    inputs: Sequence[str],
) -> int:
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
            experiment,
            work_folder=folder,
            scenes=scenes,
            threads=chosen["threads"],
            progress=progress,
        )
    report = Report(found, chosen)
    if pair is not None:
        draw_pictures(found, pair, pictures)
    if wide is not None:
        output.put(as_csv(tables.wide_table(found.results, report.rule)), wide)
    saving.keep(found.records(rule=report.rule), *inputs)
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
                self.found.headline,
                force=self.chosen["force"],
                level=1 - how.level,
                resamples=how.resamples,
                seed=how.seed,
            )
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
            "experiment": found.experiment.to_dict(),
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


def _show(report: Report, layout: str, file: str | None) -> None:
    if layout == "json":
        output.put(output.as_json(report.to_dict()), file)
    elif layout in ("csv", "tsv"):
        for line in report.remarks:
            output.narrate(line)
        table = tables.category_data(report.summaries)
        output.show([table], layout=layout, file=file, signature=report.signature)
    elif layout == "text" and file is None and output.on_terminal():
        from assay.report.terminal import print_page

        print_page(report.page())
    else:
        output.put((markdown_page if layout == "markdown" else text_page)(report.page()), file)
