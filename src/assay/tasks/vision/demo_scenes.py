"""Scenes made from pictures that ship inside scikit-image: no download, and exact homographies."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.errors import MissingPackageError, UsageError
from assay.io.atomic import atomic_write
from assay.native.random_words import stream_key, words
from assay.stats.samples import check_seed
from assay.tasks.vision.images import Image, opencv, read_image, steady
from assay.tasks.vision.keypoints import Keypoints, inside_border, project, strongest
from assay.tasks.vision.opencv_features import detect
from assay.tasks.vision.patch_networks import cut_patches
from assay.tasks.vision.scenes import Scene

__all__ = ["DEMO_PICTURES", "make_demo_patches", "make_demo_scenes", "write_scenes"]

DEMO_PICTURES: Final = {
    "i_camera": "camera.png",
    "i_chelsea": "chelsea.png",
    "i_rocket": "rocket.jpg",
    "v_astronaut": "astronaut.png",
    "v_brick": "brick.png",
    "v_coffee": "coffee.png",
}
_PATCH: Final = 65  # pixels of a side, as in HPatches
_HARDEST: Final = 0.22  # share of a side by which a corner moves in the last image


def make_demo_scenes(
    names: Iterable[str] | None = None, *, seed: int = 0, n_images: int = 6
) -> list[Scene]:
    """Six small scenes in the manner of HPatches, the same for the same seed.

    In `v_…` a plane is seen from elsewhere, ever farther from image 1; in `i_…` the light changes.
    """
    chosen = list(DEMO_PICTURES) if names is None else list(names)
    unknown = [name for name in chosen if name not in DEMO_PICTURES]
    if unknown:
        raise UsageError(f"There is no demo scene {unknown[0]!r}; there are {list(DEMO_PICTURES)}.")
    if not isinstance(n_images, int) or n_images < 2:
        raise UsageError(f"A scene has at least 2 images, found n_images={n_images!r}.")
    key = stream_key(check_seed(seed), "demo scenes")
    numbers = {name: at for at, name in enumerate(DEMO_PICTURES)}
    return [_scene(name, key + (numbers[name] << 40), n_images) for name in chosen]


def make_demo_patches(*, seed: int = 0, patches: int = 24) -> dict[str, dict[str, Image]]:
    """Patches of the demo scenes as HPatches has them, by scene and file: ref, e1, …, h1, …, t5.

    Around keypoints of image 1, and around their projections into the other images, moved, turned
    and scaled: a little in easy ones, more in hard and tough ones.
    """
    key = stream_key(check_seed(seed), "demo scenes") + (1 << 39)
    return {
        scene.name: _patches_of(scene, key + (number << 40), patches)
        for number, scene in enumerate(make_demo_scenes(seed=seed))
    }


def _patches_of(scene: Scene, key: int, n: int) -> dict[str, Image]:
    # Not SIFT, which finds some places twice: their patches would be the same.
    first = inside_border(detect(scene.image(1), "akaze"), scene.image(1).shape)
    ahead = {k: project(first, scene.homographies[k], scene.image(k).shape) for k in scene.pairs}
    seen = [first.ids.match(points.ids) >= 0 for points in ahead.values()]
    chosen = strongest(first.take(np.all(seen, axis=0)), n)
    found = {"ref": cut_patches(scene.image(1), chosen, side=_PATCH, upright=True)}
    for number, letter in enumerate("eht", start=1):
        for k, points in ahead.items():
            own = points.take(chosen.ids.match(points.ids))
            draw = _uniform(key + (number << 30) + (k << 20), 4 * len(own))
            moved = _moved(own, draw, 0.15 * number)
            found[f"{letter}{k - 1}"] = cut_patches(scene.image(k), moved, side=_PATCH)
    return found


def _moved(keypoints: Keypoints, draw: Floats, most: float) -> Keypoints:
    """Keypoints by up to `most` of their scale and an octave elsewhere, and 60° · `most` turned."""
    x, y, turn, grow = most * (2 * draw.reshape(4, -1) - 1)
    places = keypoints.xy + (keypoints.size / 2 * np.stack([x, y])).T
    size = keypoints.size * 2.0**grow
    return Keypoints.of(places, keypoints.ids, size=size, angle=60 * turn % 360)


def write_scenes(scenes: Iterable[Scene], folder: str | os.PathLike[str]) -> None:
    """Write scenes as folders in the layout of HPatches: 1.png …, and H_1_2 … as text."""
    cv2 = opencv()
    for scene in scenes:
        home = Path(folder) / scene.name
        home.mkdir(parents=True, exist_ok=True)
        for k in range(1, len(scene.images) + 1):
            with atomic_write(home / f"{k}.png") as file:
                file.write(cv2.imencode(".png", scene.image(k))[1].tobytes())
        for k, H in scene.homographies.items():
            lines = "".join(f"{a!r} {b!r} {c!r}\n" for a, b, c in H.tolist())
            with atomic_write(home / f"H_1_{k}") as file:
                file.write(lines.encode())


def _scene(name: str, key: int, n_images: int) -> Scene:
    picture = _picture(DEMO_PICTURES[name])
    viewpoint = name.startswith("v_")
    images: list[Path | NDArray[Any]] = [picture]
    homographies: dict[int, Floats] = {}
    for k in range(2, n_images + 1):
        strength = (k - 1) / (n_images - 1)
        draw = _uniform(key + (k << 20), 64)
        H = _view(picture.shape, draw, strength) if viewpoint else np.eye(3)
        images.append(_seen(picture, H) if viewpoint else _lit(picture, draw, strength, key + k))
        homographies[k] = H
    return Scene(name, "viewpoint" if viewpoint else "illumination", tuple(images), homographies)


def _picture(file: str) -> Image:
    package = find_spec("skimage")
    if package is None or package.origin is None:
        raise MissingPackageError("skimage", "the demo scenes", "vision-demo")
    return read_image(Path(package.origin).parent / "data" / file)


def _uniform(key: int, n: int) -> Floats:
    """Numbers from 0 to 1, the same for the same key on any machine."""
    return (words(key, 0, n) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _view(shape: tuple[int, ...], draw: Floats, strength: float) -> Floats:
    """The map of a four-sided part of the picture onto the whole frame.

    The part lies inside, so that every pixel of the new image shows the picture.
    """
    height, width = shape[:2]
    corners = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], float)
    inward = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]], float)
    moved = inward * draw[:8].reshape(4, 2) * [width, height] * (_HARDEST * strength)
    H = _four_points(np.rint(corners + moved), corners)
    return np.array([[float(f"{cell:.12g}") for cell in row] for row in H])


def _four_points(source: Floats, target: Floats) -> Floats:
    """The homography that maps four points to four others."""
    rows, right = [], []
    for (x, y), (u, v) in zip(source, target, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        right += [u, v]
    solved = np.linalg.solve(np.array(rows), np.array(right))
    return np.append(solved, 1.0).astype(np.float64).reshape(3, 3)


def _seen(picture: Image, H: Floats) -> Image:
    with steady() as cv2:
        view: Image = cv2.warpPerspective(
            picture, H, picture.shape[1::-1], flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT
        )
    return view


def _lit(picture: Image, draw: Floats, strength: float, key: int) -> Image:
    """Another exposure: gamma, gain, light from one side, and noise."""
    gamma = 2.0 ** (strength * (2.0 * draw[0] - 0.7))
    gain = 1.0 - 0.5 * strength * draw[1]
    curve = 255.0 * gain * (np.arange(256) / 255.0) ** gamma
    side = 1.0 + strength * (draw[2] - 0.5) * np.linspace(-1.0, 1.0, picture.shape[1])
    noise = (_uniform(key, picture.size).reshape(picture.shape) - 0.5) * 24.0 * strength
    light = curve[picture] * side[:, None] + noise
    result: Image = np.clip(np.rint(light), 0, 255).astype(np.uint8)
    return result
