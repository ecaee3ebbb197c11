"""What the subcommands of `assay descriptors` print."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from assay.cli import output
from assay.cli.progress import progress_bar
from assay.cli.saving import Saving
from assay.errors import UsageError
from assay.tables.page import markdown_page, text_page
from assay.tables.table import as_csv
from assay.tasks.descriptors.experiment import Experiment
from assay.tasks.descriptors.report import ExperimentReport, draw_matches, find_pair, report_import
from assay.tasks.descriptors.run import load_scenes, run_experiment
from assay.tasks.descriptors.tables import wide_table

if TYPE_CHECKING:
    from assay.tasks.descriptors.patches import PatchResult
    from assay.tasks.vision.scenes import Scene

__all__ = ["evaluate_and_show", "show_import", "show_patches"]


def show_import(file: str, unit: str, against: str | None, layout: str, target: str | None) -> int:
    """Print the results of a file; 1 if something in it contradicts something."""
    report = report_import(file, unit=unit, against=against)
    if report.not_compared:
        output.narrate(f"not compared: {report.not_compared}")
    if layout == "json":
        data = {"command": "descriptors import", **report.to_dict()}
        output.put(output.as_json(data), target)
        return 1 if report.contradictions else 0
    for line in report.contradictions:
        output.narrate(line)
    wide = layout in ("csv", "tsv")
    if report.comparison is not None and not wide:
        output.narrate("compared on the means of scenes; their keypoints may differ")
    tables = [report.table()] if wide else report.tables()
    output.show(tables, layout=layout, file=target, signature=report.signature)
    return 1 if report.contradictions else 0


def show_patches(found: PatchResult, layout: str, file: str | None) -> None:
    """Print patch mAP by category, matching mAP and FPR@95."""
    if layout == "json":
        data = {"command": "descriptors patches", **found.to_dict()}
        output.put(output.as_json(data), file)
        return
    tables = [found.table()] if layout in ("csv", "tsv") else found.tables()
    output.show(tables, layout=layout, file=file, signature=found.signature)


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
    layout = output.choose_format(chosen["named"], chosen["json_wanted"], file)
    for written in (file, wide):
        output.refuse_input(written, *inputs)
    output.refuse_same_file(file, wide)
    scenes = load_scenes(experiment.dataset)
    pair, pictures = chosen["show"], chosen["show_to"] or "."
    if pair is not None:
        _check_pictures(scenes, pair, pictures)
    with progress_bar(f"{experiment.name}: scenes") as progress:
        found = run_experiment(
            experiment,
            work_folder=folder,
            scenes=scenes,
            threads=chosen["threads"],
            progress=progress,
        )
    more = {name: chosen[name] for name in ("force", "per_scene", "ranks", "timings")}
    report = ExperimentReport(found, **more)
    if pair is not None:
        for line in draw_matches(found, pair, pictures):
            output.narrate(line)
    if wide is not None:
        output.put(as_csv(wide_table(found.results, report.rule)), wide)
    saving.keep(report.records(), *inputs)
    _show(report, layout, file)
    return 1 if found.n_failed else 0


def _check_pictures(scenes: Sequence[Scene], pair: str, folder: str) -> None:
    """Refuse a pair that does not exist, and a missing folder, before hours of work."""
    try:
        find_pair(scenes, pair)
    except UsageError as error:
        raise click.UsageError(str(error)) from None
    if not os.path.isdir(folder):
        raise click.UsageError(f"--show-to {folder} is not a folder. Make it first.")


def _show(report: ExperimentReport, layout: str, file: str | None) -> None:
    if layout == "json":
        output.put(output.as_json({"command": "descriptors", **report.to_dict()}), file)
    elif layout in ("csv", "tsv"):
        for line in report.remarks:
            output.narrate(line)
        output.show([report.table()], layout=layout, file=file, signature=report.signature)
    elif layout == "text" and file is None and output.on_terminal():
        from assay.report.terminal import print_page

        print_page(report.page())
    else:
        output.put((markdown_page if layout == "markdown" else text_page)(report.page()), file)
