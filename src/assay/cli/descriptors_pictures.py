"""What `--show` does: the best and worst matches of a pair, a picture for each descriptor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from assay.cli import output
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.tasks.descriptors_run import ExperimentResult
    from assay.tasks.descriptors_settings import DescriptorSettings
    from assay.vision.scenes import Scene

__all__ = ["check_pictures", "draw_pictures", "shown_pair"]


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
    from assay.vision.drawing import draw_pair
    from assay.vision.pair import make_pair

    how = found.experiment.evaluation
    data = make_pair(
        scene, k, keypoints=descriptor.keypoints or found.experiment.keypoints,
        descriptor=descriptor.type, options=descriptor.options, taus=how.tau,
        one_to_one=how.one_to_one, symmetric=how.symmetric,
    )  # fmt: skip
    ranks, nearest = _ranks_of(data, descriptor.metric)
    draw_pair(scene, data, path, ranks=ranks, found=nearest)


def _ranks_of(data: Any, metric: Any) -> tuple[Any, Any]:
    """The rank of each true match, and which target is the nearest."""
    from assay.engine import Codes, rank, target_ranks
    from assay.tasks.descriptors_hamming import hamming_nearest, hamming_target_ranks

    left, right, target = data.query_vectors, data.target_vectors, data.truth.target
    has = np.flatnonzero(target >= 0)
    ranks = np.zeros(len(target), np.int64)
    if isinstance(left, Codes):
        nearest = hamming_nearest(left.packed, right.packed)[0]
        ranks[has] = hamming_target_ranks(left.packed[has], right.packed, target[has]).rank
        return ranks, nearest
    ranks = target_ranks(left, right, target, metric=metric).rank
    return ranks, rank(left, right, 1, metric=metric).docs
