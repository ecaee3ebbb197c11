"""Evaluate image descriptors on scenes with known homographies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay import vision
from assay.cli import options, output
from assay.cli.commands import CommandGroup
from assay.cli.output import Saving, repeated_batch
from assay.cli.progress import progress_bar, reserve_stdout
from assay.cli.settings import argument, option, settings_of
from assay.core.on_demand import OnDemand
from assay.errors import UsageError
from assay.tables.table import as_csv
from assay.vision.settings import (
    ESTIMATOR,
    INLIER,
    REPEATS,
    DatasetSettings,
    DescriptorSettings,
    KeypointSettings,
)

if TYPE_CHECKING:
    from assay.vision.drawing import find_pair
    from assay.vision.ranks import choose_metric
    from assay.vision.report import wide_table
    from assay.vision.run import load_scenes
else:
    choose_metric = OnDemand("assay.vision.ranks").choose_metric
    find_pair = OnDemand("assay.vision.drawing").find_pair
    load_scenes = OnDemand("assay.vision.run").load_scenes
    wide_table = OnDemand("assay.vision.report").wide_table

_DEMO_DESCRIPTORS = ("SIFT", "RootSIFT", "ORB")
_DEMO_PATCHES = ("SIFT", "ORB")


@click.group("descriptors", cls=CommandGroup)
def command() -> None:
    """Evaluate image descriptors on scenes with known homographies.

    \b
    Examples:
      assay descriptors demo
      assay descriptors run experiment.yaml
      assay descriptors patches descriptors/sift descriptors/orb
    """


_switch = partial(option, is_flag=True)
_result_file = partial(
    option, type=options.output_file, metavar="FILE", section="Result", writes=True
)
_folder = partial(option, type=options.output_folder, metavar="FOLDER", writes=True)
_repeated = partial(option, multiple=True, metavar="NAME")

_chart_option = _result_file("--chart", help="Precision over recall (SVG).")
_scenes_option = _switch("--scenes", "per_scene", help="One row per scene.", section="Result")
_code_option = _switch("--allow-code", help="Run functions named by EXPERIMENT.", section="Trust")


def _check_chart(chart: str | None, file: str | None) -> None:
    if chart is not None and not chart.lower().endswith(".svg"):
        raise click.UsageError(f"--chart writes SVG. Rename {chart} to .svg.")
    output.refuse_same_file(file, chart)


def _put_chart(curves: Sequence[vision.PRCurve], chart: str | None) -> None:
    if chart is not None:
        output.write(vision.draw_curves(curves), chart)


# What is shown, and how.
_report_options = options.add_options(
    _scenes_option,
    _switch("--ranks", help="Histogram of the ranks of true matches.", section="Result"),
    _switch("--timings", help="Seconds of each stage.", section="Machines"),
    _switch("--force", help="Compare despite different keypoints.", section="Search"),
    options.in_result(
        "--show SCENE/1-K", help="Pair whose best and worst matches are drawn.", writes=True
    ),
    _folder("--show-to", help="Folder of the pictures. [current]", section="Result"),
    _result_file("--csv", "wide", help="Wide rows with metadata (CSV)."),
    _chart_option,
    options.threads_option,
    options.result_options(),
)


@command.command("run")
@argument("experiment", metavar="EXPERIMENT", reads=True)
@_folder(
    "--work", help="Folder of finished scenes. [EXPERIMENT.parts]", section="Search", folder=True
)
@_switch(
    "--fresh",
    help="Ignore finished scenes; evaluate all again.",
    section="Search",
)
@_code_option
@_report_options
@options.save_options("descriptors")
def run(
    *,
    saving: Saving,
    experiment: str,
    work: str | None,
    fresh: bool,
    allow_code: bool,
    **report_options: Any,
) -> int:
    """Run an experiment file (.yaml or .toml).

    Finished scenes are stored, so an interrupted run resumes; a scene is evaluated again when its
    settings or images changed. The exit code is 1 if a pair of images could not be
    evaluated; single keypoints that could not be described count as failed queries.

    \b
    dataset: {path: hpatches-sequences}
    keypoints: {source: detect, detector: sift, strongest: 1000}
    descriptors: [SIFT, RootSIFT, {name: mine, type: "my_module:describe"}]
    evaluation: {tau: [3, 1], verification: true}

    \b
    Examples:
      assay descriptors run experiment.yaml --csv wide.csv
      assay descriptors run experiment.yaml --show v_wall/1-3 --save
    """
    if fresh and work:
        raise click.UsageError("--fresh and --work exclude each other.")
    read = _read_experiment(experiment, allow_code)
    # What is repeated to see whether the same numbers come out is computed again.
    folder = None if fresh or repeated_batch.get() else work or f"{experiment}.parts"
    return _evaluate(read, folder, saving, inputs=[experiment], **report_options)


def _read_experiment(path: str, allow_code: bool) -> vision.Experiment:
    repeated = options.repeated_consent.get()
    with reserve_stdout():
        return vision.read_experiment(path, allow_code=repeated.code if repeated else allow_code)


def _demo(descriptors: Sequence[str], strongest: int, **evaluation: Any) -> vision.Experiment:
    settings = {"keypoints": {"strongest": strongest}, "evaluation": evaluation}
    data = {"dataset": {"path": "demo"}, "descriptors": list(descriptors), **settings}
    return vision.experiment_from({"name": "demo", **data}, "--descriptor")


@command.command("demo")
@_repeated(
    "--descriptor",
    "descriptors",
    allow="assay.vision.settings:allow_descriptors",
    shown=_DEMO_DESCRIPTORS,
    help="Name of a descriptor. May be repeated.",
    section="Models",
)
@settings_of(KeypointSettings)["strongest"].declare(default=300)
@_folder("--write", "folder", help="Folder for copies of the scenes.", section="Input", folder=True)
@_report_options
@options.save_options("descriptors")
def demo(
    *,
    saving: Saving,
    descriptors: tuple[str, ...],
    strongest: int,
    folder: str | None,
    **report_options: Any,
) -> int:
    """Evaluate descriptors on small generated scenes; downloads nothing.

    \b
    Examples:
      assay descriptors demo
      assay descriptors demo --descriptor SIFT --descriptor ORB --scenes --write scenes-here
    """
    tasks = {"verification": {"scenes": 3}, "image_retrieval": {"keypoints": 100}}
    read = _demo(descriptors, strongest, **tasks)
    if folder is not None:
        vision.write_scenes(vision.make_demo_scenes(), folder)
    return _evaluate(read, None, saving, inputs=[], **report_options)


@command.command("match")
@argument("experiment", metavar="[EXPERIMENT]", required=False, reads=True)
@_repeated(
    "--matcher",
    "matchers",
    shown=("nn", "mutual", "ratio"),
    help="Matcher: nn, mutual, ratio[:0.9] or mutual-ratio. May be repeated.",
    section="Models",
)
@ESTIMATOR.declare()
@INLIER.declare()
@REPEATS.declare()
@settings_of(DatasetSettings)["resize"].declare()
@_scenes_option
@_code_option
@options.threads_option
@_chart_option
@options.result_options()
@options.save_options("matching")
def match(
    *,
    saving: Saving,
    experiment: str | None,
    allow_code: bool,
    chart: str | None,
    layout: str,
    file: str | None,
    resize: int | None,
    **how: Any,
) -> int:
    """Match images by descriptors and matchers: repeatability, MMA, homographies.

    EXPERIMENT is a file as for `run`; without it, small scenes are generated. Prints
    repeatability, matching score and mean matching accuracy (MMA), and how well the homography
    is estimated from the matches. The exit code is 1 if a pair of images could not be matched.

    \b
    Examples:
      assay descriptors match experiment.yaml --matcher mutual --matcher ratio
      assay descriptors match experiment.yaml --resize 480
    """
    inputs = [experiment] if experiment else []
    output.refuse_input(file, *inputs)
    _check_chart(chart, file)
    read = _read_experiment(experiment, allow_code) if experiment else _demo(_DEMO_PATCHES, 200)
    if resize is not None:
        read = replace(read, dataset=replace(read.dataset, resize=resize))
    with progress_bar(f"{read.name}: scenes", saving.listener) as progress:
        names = ESTIMATOR.name, INLIER.name, REPEATS.name
        estimator = vision.Estimator(*(how.pop(name) for name in names))
        report = vision.match_images(read, estimator=estimator, progress=progress, **how)
    if saving.wanted:
        saving.save(report.records(), *inputs)
    _put_chart(report.curves, chart)
    output.emit(report, layout, file, command="descriptors")
    return 1 if report.failures else 0


@command.command("patches", verified=True)
@argument("folders", metavar="[FOLDER]...", nargs=-1)
@_repeated(
    "--name",
    "names",
    help="Name of a descriptor, once each. [folder name]",
    section="Input",
    offers="assay.cli.completion:offer_measures",
)
@_repeated(
    "--describe",
    "descriptors",
    allow="assay.vision.settings:allow_descriptors",
    help="Descriptor of patch pictures: SIFT, onnx:FILE, … May be repeated.",
    section="Models",
)
@options.in_input(
    "--split",
    choices=["a", "b", "c", "view", "illum", "full"],
    help="HPatches split of the tasks.",
)
@options.in_input(
    "--tasks FOLDER",
    help="HPatches task files (splits.json, …). [drawn by --seed]",
)
@settings_of(DescriptorSettings)["metric"].declare()
@options.seed_option_for("Seed of drawn pairs and queries.")
@_switch("--timings", help="Time and bytes per descriptor.", section="Machines")
@_chart_option
@options.result_options()
@options.save_options("descriptors")
def patches(
    *,
    saving: Saving,
    folders: tuple[str, ...],
    names: tuple[str, ...],
    descriptors: tuple[str, ...],
    metric: str | None,
    timings: bool,
    chart: str | None,
    layout: str,
    file: str | None,
    **task_options: Any,
) -> None:
    """Evaluate descriptors of patches whose row is their identity, as HPatches has them.

    FOLDER holds a folder for each scene with ref.csv, e1.csv, h1.csv, t1.csv, … (or .npy): row i
    of each is the same point. With --describe they are .png, each a strip of square patches, as
    HPatches ships them. Without FOLDER, small patches are generated. Several folders, or several
    --describe, are compared. Prints patch mAP, matching mAP and FPR@95, and with --split
    verification, matching and retrieval as HPatches' own benchmark computes them.

    \b
    Examples:
      assay descriptors patches descriptors/sift descriptors/orb --split full
      assay descriptors patches hpatches --describe SIFT --describe ORB
    """
    _check_chart(chart, file)
    split = task_options.pop("split") or (None if folders else "full")
    if chart and not split:
        raise click.UsageError("--chart requires --split.")
    results = [
        vision.evaluate_patches(
            scenes,
            name=name,
            metric=_patch_metric(metric, scenes, descriptor),
            split=split,
            **task_options,
        )
        for name, scenes, descriptor in _patch_contestants(
            folders, descriptors, names, task_options
        )
    ]
    report = vision.PatchReport(tuple(results), timings)
    _put_chart(report.curves, chart)
    if saving.wanted:
        saving.save(report.records())
    output.note_inputs(*folders, task_options.get("tasks"))
    output.emit(report, layout, file, command="descriptors patches")


def _patch_contestants(
    folders: tuple[str, ...],
    descriptors: tuple[str, ...],
    names: tuple[str, ...],
    task_options: Mapping[str, Any],
) -> Iterator[tuple[str, list[vision.PatchScene], str | None]]:
    """Yield each descriptor's name, its scenes, and what described them here."""
    if descriptors and len(folders) > 1:
        raise click.UsageError("--describe takes one FOLDER. Remove the others.")
    described = descriptors or (() if folders else _DEMO_PATCHES)
    usual = list(described or (Path(folder).resolve().name for folder in folders))
    called = list(names or usual)
    if len(called) != len(usual) or len(set(called)) < len(called):
        raise click.UsageError(
            f"{len(usual)} descriptors have {len(set(called))} names: {', '.join(called)}. "
            "Pass --name once each."
        )
    for name, source in zip(called, described or folders, strict=True):
        if not described:
            yield name, vision.read_patch_scenes(source), None
        elif folders:
            yield name, vision.describe_patch_scenes(folders[0], source), source
        else:
            yield name, vision.demo_patch_scenes(source, seed=task_options["seed"]), source


def _patch_metric(
    metric: str | None, scenes: Sequence[vision.PatchScene], descriptor: str | None
) -> str:
    """Return the metric.

    uint8 in files may be numbers, and then --metric says so.
    """
    bits = scenes[0].vectors["ref"].dtype == "uint8"
    if descriptor:
        return choose_metric(metric, "binary" if bits else "float", descriptor)
    return metric or ("hamming" if bits else "l2")


def _evaluate(
    experiment: vision.Experiment,
    folder: str | None,
    saving: Saving,
    *,
    inputs: Sequence[str],
    layout: str,
    file: str | None,
    wide: str | None,
    show: str | None,
    show_to: str | None,
    chart: str | None,
    threads: int | None,
    **more: bool,
) -> int:
    """Run the experiment and print its report; 1 if a pair could not be evaluated."""
    for written in (file, wide, chart):
        output.refuse_input(written, *inputs)
    output.refuse_same_file(file, wide, chart)
    _check_chart(chart, None)
    scenes = load_scenes(experiment.dataset)
    pictures = show_to or "."
    if show is not None:  # a mistake is refused before hours of work
        try:
            find_pair(scenes, show)
        except UsageError as error:
            raise click.UsageError(str(error)) from None
    with progress_bar(f"{experiment.name}: scenes", saving.listener) as progress:
        result = vision.run_experiment(
            experiment, work_folder=folder, scenes=scenes, threads=threads, progress=progress
        )
    report = vision.ExperimentReport(result, **more)
    if show is not None:
        output.narrate_all(vision.draw_matches(result, show, pictures))
    if wide is not None:
        output.write(as_csv(wide_table(result.results, report.rule)), wide)
    _put_chart(report.curves, chart)
    if saving.wanted:
        saving.save(report.records(), *inputs)
    output.emit(report, layout, file, command="descriptors")
    return 1 if result.failures else 0
