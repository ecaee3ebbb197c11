"""`assay descriptors`: Evaluate image descriptors on scenes with known homographies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from assay.cli import options, output
from assay.cli.descriptors_show import evaluate_and_show, show_import, show_patches
from assay.cli.saving import Saving, repeated_batch
from assay.tasks.descriptors.experiment import experiment_from, read_experiment
from assay.tasks.descriptors.patches import (
    describe_patch_scenes,
    evaluate_patches,
    read_patch_scenes,
)
from assay.tasks.vision import make_demo_scenes, write_scenes

__all__ = ["command"]

Command = TypeVar("Command", bound=Callable[..., Any])

_FORMATS = ("text", "markdown", "csv", "tsv", "json")
_DEMO_DESCRIPTORS = ("SIFT", "RootSIFT", "ORB")


@click.group("descriptors")
def command() -> None:
    """Evaluate image descriptors on scenes with known homographies.

    \b
    Examples:
      assay descriptors demo
      assay descriptors run experiment.yaml
      assay descriptors run experiment.yaml --show v_wall/1-4 --save
      assay descriptors patches hpatches-descriptors/sift
      assay descriptors import experiments.db --unit fraction
    """


def _report_options(command: Command) -> Command:
    """What is shown, and how."""
    for option in reversed(
        [
            click.option("--scenes", "per_scene", is_flag=True, help="A row for each scene."),
            click.option("--ranks", is_flag=True, help="How many true matches at which ranks."),
            click.option("--timings", is_flag=True, help="Seconds of each stage."),
            click.option(
                "--force",
                is_flag=True,
                help="Compare descriptors on different keypoints, scene by scene.",
            ),
            click.option(
                "--show",
                metavar="SCENE/1-K",
                help="Draw the best and worst matches of a pair, a PNG for each descriptor.",
            ),
            click.option("--show-to", metavar="FOLDER", help="Where pictures go. [this folder]"),
            click.option(
                "--csv",
                "wide",
                metavar="FILE",
                help="Also write the wide rows, with their metadata, as CSV.",
            ),
            click.option("--threads", type=click.IntRange(min=1), metavar="N", help="[all cores]"),
            click.option(
                "--format", "named", type=click.Choice(_FORMATS), help="Layout of the result."
            ),
            options.json_option,
            options.output_option,
        ]
    ):
        command = option(command)
    return command


@command.command("run")
@click.argument("experiment", metavar="EXPERIMENT")
@click.option("--work", metavar="FOLDER", help="Where finished scenes are kept. [EXPERIMENT.parts]")
@click.option("--fresh", is_flag=True, help="Keep and use nothing: evaluate every scene again.")
@_report_options
@options.save_options("descriptors")
def run(*, saving: Saving, experiment: str, work: str | None, fresh: bool, **chosen: Any) -> int:
    """Run an experiment file (.yaml or .toml).

    Scenes that are done are kept, so that a run that was stopped goes on where it was; a scene is
    done again if its settings or images have changed. The exit code is 1 if anything failed.

    \b
    dataset: {path: hpatches-sequences}
    keypoints: {source: detect, detector: sift, strongest: 1000}
    descriptors: [SIFT, RootSIFT, {name: mine, type: "my_module:describe"}]
    evaluation: {tau: [3, 1], verification: true}
    """
    if fresh and work:
        raise click.UsageError("--fresh keeps nothing, so --work changes nothing.")
    read = read_experiment(experiment)
    # What is repeated to see whether the same numbers come out is computed again.
    folder = None if fresh or repeated_batch.get() else work or f"{experiment}.parts"
    return evaluate_and_show(read, folder, saving, chosen, inputs=[experiment])


@command.command("demo")
@click.option(
    "--descriptor",
    "descriptors",
    multiple=True,
    default=_DEMO_DESCRIPTORS,
    show_default=True,
    metavar="NAME",
    help="May be repeated.",
)
@click.option(
    "--strongest",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    metavar="N",
    help="Keypoints of each image.",
)
@click.option("--write", "folder", metavar="FOLDER", help="Also write the scenes as folders.")
@_report_options
@options.save_options("descriptors")
def demo(
    *,
    saving: Saving,
    descriptors: tuple[str, ...],
    strongest: int,
    folder: str | None,
    **chosen: Any,
) -> int:
    """Evaluate descriptors on small scenes that are made on the spot; nothing is downloaded."""
    read = experiment_from(
        {
            "name": "demo",
            "dataset": {"path": "demo"},
            "keypoints": {"strongest": strongest},
            "descriptors": list(descriptors),
            "evaluation": {"verification": {"scenes": 3}, "image_retrieval": {"keypoints": 100}},
        },
        "--descriptor",
    )
    if folder is not None:
        write_scenes(make_demo_scenes(), folder)
    return evaluate_and_show(read, None, saving, chosen, inputs=[])


@command.command("patches")
@click.argument("folder")
@click.option("--name", metavar="NAME", help="What the descriptor is called. [the folder's name]")
@click.option(
    "--describe",
    "descriptor",
    metavar="NAME",
    help="FOLDER holds pictures of patches: describe them by SIFT, ORB, …",
)
@click.option(
    "--metric",
    type=click.Choice(["l2", "cosine", "hamming"]),
    help="What descriptors are compared by. [l2; hamming for bits]",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="For the wrong pairs of verification.",
)
@click.option("--format", "named", type=click.Choice(_FORMATS), help="Layout of the result.")
@options.json_option
@options.output_option
def patches(
    *,
    folder: str,
    name: str | None,
    descriptor: str | None,
    metric: str | None,
    seed: int,
    named: str | None,
    json_wanted: bool,
    file: str | None,
) -> None:
    """Evaluate descriptors of patches whose row is their identity, as HPatches has them.

    FOLDER holds a folder for each scene with ref.csv, e1.csv, h1.csv, t1.csv, … (or .npy): row i
    of each is the same point. With --describe they are .png, each a strip of square patches, as
    HPatches ships them. Prints patch mAP, matching mAP and FPR@95.
    """
    from pathlib import Path

    layout = output.choose_format(named, json_wanted, file)
    scenes = describe_patch_scenes(folder, descriptor) if descriptor else read_patch_scenes(folder)
    bits = scenes[0].vectors["ref"].dtype == "uint8"
    found = evaluate_patches(
        scenes,
        name=name or descriptor or Path(folder).resolve().name,
        metric=metric or ("hamming" if bits else "l2"),
        seed=seed,
    )
    show_patches(found, layout, file)


@command.command("import")
@click.argument("file", metavar="FILE")
@click.option(
    "--unit",
    type=click.Choice(["fraction", "percent"]),
    required=True,
    help="What the numbers in FILE are in; it is never guessed.",
)
@click.option(
    "--against", metavar="FILE", help="Wide rows of your own (--csv), to be shown beside."
)
@click.option("--format", "named", type=click.Choice(_FORMATS), help="Layout of the result.")
@options.json_option
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    help="Write the result to FILE, whole or not at all.",
)
def import_(
    *,
    file: str,
    unit: str,
    against: str | None,
    named: str | None,
    json_wanted: bool,
    target: str | None,
) -> int:
    """Read results of the descriptor workbench: its SQLite database, or a CSV export.

    What contradicts the unit, the ranges or itself is reported; the exit code is then 1.
    """
    layout = output.choose_format(named, json_wanted, target)
    output.refuse_input(target, file, against)
    return show_import(file, unit, against, layout, target)
