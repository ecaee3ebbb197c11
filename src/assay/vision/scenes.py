"""Scenes: images of one plane, the homographies from the first to the others, and keypoints.

Demo scenes are made from pictures that ship inside scikit-image: no download, and exact
homographies. `write_files` makes scenes and patches for the commands of the documentation.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, stream_key, words
from assay.core import checks
from assay.core.mismatches import describe_near
from assay.errors import FormatError, InputError, MismatchError, MissingPackageError, UsageError
from assay.io.columns import numbered_rows
from assay.io.plain_data import parse_json
from assay.io.streams import atomic_write, list_folder, read_text
from assay.stats.samples import check_seed
from assay.vision.ground_truth import as_homography, read_homography
from assay.vision.keypoints import (
    Keypoints,
    by_size,
    fill_path,
    inside_border,
    project,
    random_subset,
    read_keypoints,
    shared,
    strongest,
)
from assay.vision.opencv_features import Image, cut_patches, detect, opencv, read_image, steady
from assay.vision.settings import BORDER, KeypointSettings

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Categories = Mapping[str, str] | Callable[[str], str] | str | os.PathLike[str] | None
UNKNOWN: Final = "uncategorised"
_PREFIXES: Final = {"i_": "illumination", "v_": "viewpoint"}
# What changes in the scenes of Mikolajczyk et al., IJCV 65 (2005).
_OXFORD: Final = {
    **dict.fromkeys(("bark", "boat"), "zoom"),
    **dict.fromkeys(("bikes", "trees"), "blur"),
    **dict.fromkeys(("graf", "wall"), "viewpoint"),
    **{"leuven": "illumination", "ubc": "compression"},
}


def category_of(name: str) -> str:
    """Return the category of a scene by its name.

    Names are `i_…`, `v_…` or one of the Oxford scenes.

    >>> category_of("v_wall"), category_of("leuven"), category_of("kitchen")
    ('viewpoint', 'illumination', 'uncategorised')
    """
    return _PREFIXES.get(name[:2]) or _OXFORD.get(name, UNKNOWN)


def name_categories(names: list[str], categories: Categories) -> dict[str, str]:
    """Return the category of every scene; gaps are refused."""
    if categories is None:
        return {name: category_of(name) for name in names}
    if callable(categories):
        kinds = {name: (categories(name), f"the rule, for scene {name!r}") for name in names}
    else:
        source, mapping = "The mapping of categories", categories
        if isinstance(categories, str | os.PathLike):
            source, mapping = os.fspath(categories), _read_mapping(categories)
        if not isinstance(mapping, Mapping):
            raise UsageError(
                "categories must be a mapping of scenes to categories, a file that holds one, or a "
                f"function of the name; found {type(categories).__name__}."
            )
        missing = [name for name in names if name not in mapping]
        if missing:
            raise MismatchError(
                f"{source} gives no category for {checks.name_few(missing)}."
                f"{describe_near(missing, mapping)} Add {'it' if len(missing) == 1 else 'them'}."
            )
        kinds = {name: (mapping[name], f"{source}, scene {name!r}") for name in names}
    for kind, place in kinds.values():
        if not isinstance(kind, str) or not kind.strip():
            raise FormatError(f"{place}: categories must be non-empty text. Found {kind!r}.")
    return {name: kind for name, (kind, _) in kinds.items()}


def _read_mapping(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a JSON object, or CSV with scene and category."""
    name = os.fspath(path)
    if Path(name).suffix.lower() == ".json":
        mapping = parse_json(read_text(path), name)
        if not isinstance(mapping, dict):
            raise FormatError(f"{name}: expected an object such as {{'v_wall': 'viewpoint'}}.")
        return mapping
    rows = numbered_rows(path)
    if next(rows, (0, []))[1] != ["scene", "category"]:
        raise FormatError(f"{name}: the first line must be: scene,category.")
    mapping = {}
    for line, row in rows:
        if len(row) != 2:
            raise FormatError(
                f"{name}, line {line}: expected 2 columns, found {len(row)}. Write two."
            )
        if row[0] in mapping:
            raise FormatError(f"{name}, line {line}: scene {row[0]!r} appears twice. Keep one.")
        mapping[row[0]] = row[1]
    return mapping


_ENDINGS: Final = r"\.(?:png|ppm|pgm|jpe?g|tiff?|bmp|webp)"


class _Layout(NamedTuple):
    image: re.Pattern[str]
    homography: re.Pattern[str]
    form: str


LAYOUTS: Final = {
    "hpatches": _Layout(
        re.compile(rf"(\d+){_ENDINGS}", re.I),
        re.compile(r"H_1_(\d+)(?:\.txt|\.xml)?", re.I),
        "1.ppm … 6.ppm with H_1_2 … H_1_6",
    ),
    "oxford": _Layout(
        re.compile(rf"img(\d+){_ENDINGS}", re.I),
        re.compile(r"H1to(\d+)p?(?:\.txt|\.xml)?", re.I),
        "img1.png … img6.png with H1to2p … H1to6p",
    ),
}
# Images and homographies by number.
Parts = tuple[dict[int, Path], dict[int, Path]]


@dataclass(frozen=True, eq=False)
class Scene:
    """Images 1, 2, … of a scene; `homographies[k]` maps points of image 1 into image k.

    An image is the path of a file, or an array (rows × columns × blue, green, red). With a `side`,
    images are read with that length of their shorter side, which homographies already have.
    """

    name: str
    category: str
    images: tuple[Path | NDArray[Any], ...]
    homographies: Mapping[int, Floats] = field(repr=False)
    side: int | None = None

    def __post_init__(self) -> None:
        """Check that each image after the first has its homography."""
        expected = list(range(2, len(self.images) + 1))
        if sorted(self.homographies) != expected or not expected:
            raise InputError(
                f"Scene {self.name!r} has {len(self.images)} images: homographies "
                f"{sorted(self.homographies)}, needed {expected or 'at least one'}."
            )
        checked = {
            k: as_homography(H, what=f"The homography of scene {self.name!r} to image {k}")
            for k, H in sorted(self.homographies.items())
        }
        object.__setattr__(self, "homographies", MappingProxyType(checked))

    @property
    def pairs(self) -> tuple[int, ...]:
        """The images that image 1 is compared with: 2, 3, …"""
        return tuple(self.homographies)

    def image(self, k: int) -> Image:
        """Read image k; the first is 1."""
        whole = isinstance(k, int | np.integer) and not isinstance(k, bool)
        if not whole or not 1 <= k <= len(self.images):
            raise UsageError(
                f"Scene {self.name!r} has the images 1 to {len(self.images)}; there is no {k!r}."
            )
        image = read_image(self.images[k - 1])
        if self.side is None:
            return image
        cv2, size = opencv(), _resized(image, self.side)
        return cast(Image, cv2.resize(image, size, interpolation=cv2.INTER_AREA))

    def resize(self, side: int) -> Scene:
        """Return the scene with images whose shorter side has this many pixels.

        Homographies follow: the centre of pixel x moves to (x + ½)·factor − ½, as in OpenCV.
        """
        maps = []
        for source in self.images:
            image = read_image(source)
            factors = np.divide(_resized(image, side), image.shape[1::-1])
            maps.append(np.diag([*factors, 1.0]))
            maps[-1][:2, 2] = (factors - 1) / 2
        back = np.linalg.inv(maps[0])
        moved = {k: maps[k - 1] @ H @ back for k, H in self.homographies.items()}
        return replace(self, homographies=moved, side=side)


def _resized(image: Image, side: int) -> tuple[int, int]:
    """Return width and height with this length of the shorter side."""
    height, width = image.shape[:2]
    factor = side / min(height, width)
    return max(round(width * factor), 1), max(round(height * factor), 1)


def find_scenes(
    folder: str | os.PathLike[str], *, layout: str = "auto", categories: Categories = None
) -> list[Scene]:
    """Find the scenes in a folder, one a sub-folder, by name.

    The folder itself may be a scene, too. Folders that hold neither images nor homographies are
    passed over.

    Args:
        folder: The folder.
        layout: "hpatches", "oxford" or "auto", which knows them by their file names.
        categories: Mapping from scene to category, a file that holds one, or a function of names.
            Without it the prefixes `i_` and `v_` and the names of the Oxford scenes decide.

    Returns:
        The scenes.

    Raises:
        InputError: If there are no scenes.
        FormatError: If a scene lacks images or homographies.
        MismatchError: If `categories` leave a scene out.

    Example:
        scenes = find_scenes("hpatches-sequences-release")
    """
    if layout not in ("auto", *LAYOUTS):
        raise UsageError(f"layout must be auto, {' or '.join(LAYOUTS)}; found {layout!r}.")
    layouts = tuple(LAYOUTS) if layout == "auto" else (layout,)
    root = Path(folder)
    inner = [path for path in list_folder(root) if path.is_dir() and path.name[0] != "."]
    scenes = _find_parts([root.resolve()], layouts) or _find_parts(inner, layouts)
    if not scenes:
        forms = "; or ".join(LAYOUTS[name].form for name in layouts)
        raise InputError(f"{root} holds no scenes: no folder holds {forms}. Check the path.")
    kinds = name_categories(list(scenes), categories)
    return [
        Scene(
            name,
            kinds[name],
            tuple(images[k] for k in sorted(images)),
            {k: read_homography(path) for k, path in sorted(homographies.items())},
        )
        for name, (images, homographies) in scenes.items()
    ]


def _find_parts(folders: Iterable[Path], layouts: tuple[str, ...]) -> dict[str, Parts]:
    """Return the images and homographies of each folder that is a scene."""
    scenes = {}
    for folder in folders:
        by_layout = [_number_files(folder, LAYOUTS[name]) for name in layouts]
        usable = [parts for parts in by_layout if any(parts)]
        whole = [parts for parts in usable if all(parts)]
        if len(whole) > 1:
            raise FormatError(f"{folder} holds files of two layouts. Pass layout.")
        images, homographies = next(iter(whole or usable), ({}, {}))
        if homographies:  # numbered pictures alone are no scene
            _refuse_gaps(folder, images, homographies)
            scenes[folder.name] = images, homographies
    return scenes


def _number_files(folder: Path, layout: _Layout) -> Parts:
    parts: Parts = {}, {}
    for path in list_folder(folder):
        for pattern, files in zip((layout.image, layout.homography), parts, strict=True):
            match = pattern.fullmatch(path.name)
            number = int(match[1]) if match else -1
            if number in files:
                raise FormatError(
                    f"{path} and {files[number].name} are both number {number}. Remove one."
                )
            if match:
                files[number] = path
    return parts


def _refuse_gaps(folder: Path, images: dict[int, Path], homographies: dict[int, Path]) -> None:
    needed = set(range(1, max([*images, *homographies]) + 1))
    lost = sorted(needed - set(images))
    if lost:
        raise FormatError(f"{folder} lacks the image {checks.name_few(lost)}. Add it.")
    unmapped = sorted(needed - {1} - set(homographies))
    if unmapped:
        raise FormatError(
            f"{folder} lacks the homography from image 1 to {checks.name_few(unmapped)}. Add it."
        )
    if 1 in homographies:
        raise FormatError(f"{homographies[1]} maps image 1 to itself. Remove it.")


class Once(Generic[K, V]):
    """A value for each key, computed by the first who asks; others wait for that one key only.

    >>> squares = Once()
    >>> squares.get(3, lambda: 9), squares.get(3, lambda: 1 / 0)
    (9, 9)
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._locks: dict[K, Lock] = {}
        self._values: dict[K, V] = {}

    def get(self, key: K, compute: Callable[[], V]) -> V:
        """Return the value; what `compute` raises is not kept, so that the next one tries again."""
        with self._lock:
            lock = self._locks.setdefault(key, Lock())
        with lock:
            with self._lock:  # others may be forgetting, which walks over all values
                if key in self._values:
                    return self._values[key]
            value = compute()
            with self._lock:
                self._values[key] = value
            return value

    def forget(self, which: Callable[[K], bool]) -> None:
        """Drop values that nobody will ask for any more."""
        with self._lock:
            for key in [key for key in self._values if which(key)]:
                del self._values[key]
                self._locks.pop(key, None)  # one that waited for the lock may have come after


class Detections:
    """Cache of detected keypoints, so that each detector runs once per image."""

    def __init__(self) -> None:
        self._found: Once[tuple[str, int, str], Keypoints] = Once()

    def detect(
        self, scene: Scene, k: int, image: Image, detector: str, options: Mapping[str, Any]
    ) -> Keypoints:
        """Detect all keypoints of image k of a scene, once."""
        key = scene.name, k, f"{detector.lower()} {sorted(options.items())!r}"
        return self._found.get(key, lambda: detect(image, detector, options=options))

    def forget(self, scene: Scene) -> None:
        """Forget a scene but its first image, a distractor in others."""
        self._found.forget(lambda key: key[0] == scene.name and key[1] > 1)


def keypoints_of(
    scene: Scene,
    k: int,
    image: Image,
    settings: KeypointSettings,
    detections: Detections | None = None,
) -> Keypoints:
    """Return the keypoints of image k; refuse an image without any."""
    ask = partial((detections or Detections()).detect, scene, k, image)
    if settings.path is None:
        candidates = ask(settings.detector, settings.options)
    else:
        candidates = read_keypoints(fill_path(settings.path, {"scene": scene.name, "image": k}))
    selected = _limit(candidates, image, settings)
    if settings.shared_with is None:
        selected = _subset(selected, settings)
    else:
        second = _limit(ask(settings.shared_with, {}), image, settings)
        left, right = shared(selected, second, tolerance=settings.tolerance)
        selected = _subset(left, settings)
        if settings.shared_side == "right":
            selected = right.take(selected.ids.match(right.ids))
    if not len(selected):
        raise InputError(
            f"Image {k} of scene {scene.name!r} has no keypoints left: {len(candidates)} "
            f"found, none of which is {settings.border:g} pixels from the border of its "
            f"{image.shape[1]} × {image.shape[0]} pixels and within the limits. Change the "
            "limits, or omit the image."
        )
    return selected


def project_keypoints(
    scene: Scene, k: int, reference: Keypoints, shape: tuple[int, ...], *, border: float = BORDER
) -> Keypoints:
    """Project the keypoints of image 1 into image k, with ids."""
    ahead = inside_border(project(reference, scene.homographies[k], shape), shape, border=border)
    if not len(ahead):
        raise InputError(
            f"None of the {len(reference)} keypoints of scene {scene.name!r} lies in image {k}, "
            f"{border:g} pixels from its border."
        )
    return ahead


def _limit(keypoints: Keypoints, image: Image, settings: KeypointSettings) -> Keypoints:
    inner = inside_border(keypoints, image.shape, border=settings.border)
    return by_size(inner, least=settings.least_size, most=settings.most_size)


def _subset(keypoints: Keypoints, settings: KeypointSettings) -> Keypoints:
    if settings.strongest is not None:
        keypoints = strongest(keypoints, settings.strongest)
    if settings.random is not None:
        keypoints = random_subset(keypoints, settings.random, seed=settings.seed)
    return keypoints


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
    """Make six small scenes in the manner of HPatches.

    In `v_…` a plane is seen from elsewhere, ever farther from image 1; in `i_…` the light changes.

    Args:
        names: Some of the scenes; all without.
        seed: Another seed makes other views and lights.
        n_images: Images of each scene, 2 or more.

    Returns:
        The scenes, the same for the same seed.

    Raises:
        UsageError: If there is no such scene, or n_images is below 2.
        MissingPackageError: If scikit-image is not installed.

    Example:
        first, *others = make_demo_scenes(["v_brick", "i_camera"], n_images=3)
    """
    selected = list(DEMO_PICTURES) if names is None else list(names)
    unknown = [name for name in selected if name not in DEMO_PICTURES]
    if unknown:
        raise UsageError(f"Unknown demo scene {unknown[0]!r}. Known: {list(DEMO_PICTURES)}.")
    if not isinstance(n_images, int) or n_images < 2:
        raise UsageError(f"n_images is {n_images!r}. Pass at least 2.")
    key = stream_key(check_seed(seed), "demo scenes")
    numbers = {name: at for at, name in enumerate(DEMO_PICTURES)}
    return [make_demo_scene(name, key + (numbers[name] << 40), n_images) for name in selected]


def make_demo_patches(*, seed: int = 0, patches: int = 24) -> dict[str, dict[str, Image]]:
    """Cut patches of the demo scenes, by scene and file.

    Files are as HPatches has them: ref, e1, …, h1, …, t5. Around keypoints of image 1, and around
    their projections into the other images, moved, turned and scaled: a little in easy ones, more
    in hard and tough ones.
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
    selected = strongest(first.take(np.all(seen, axis=0)), n)
    patches = {"ref": cut_patches(scene.image(1), selected, side=_PATCH, upright=True)}
    for number, letter in enumerate("eht", start=1):
        for k, points in ahead.items():
            matched = points.take(selected.ids.match(points.ids))
            draw = _uniform(key + (number << 30) + (k << 20), 4 * len(matched))
            moved = _moved(matched, draw, 0.15 * number)
            patches[f"{letter}{k - 1}"] = cut_patches(scene.image(k), moved, side=_PATCH)
    return patches


def _moved(keypoints: Keypoints, draw: Floats, most: float) -> Keypoints:
    """Move keypoints by up to `most` of their scale.

    They are scaled by `most` octaves and turned by 60° · `most`, too.
    """
    x, y, turn, grow = most * (2 * draw.reshape(4, -1) - 1)
    places = keypoints.xy + (keypoints.size / 2 * np.stack([x, y])).T
    size = keypoints.size * 2.0**grow
    return Keypoints.of(places, keypoints.ids, size=size, angle=60 * turn % 360)


def write_scenes(scenes: Iterable[Scene], folder: str | os.PathLike[str]) -> None:
    """Write scenes in the layout of HPatches: 1.png …, H_1_2 ….

    Args:
        scenes: The scenes.
        folder: Where a folder for each scene is made.

    Example:
        write_scenes(make_demo_scenes(), "scenes")
    """
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


def make_demo_scene(name: str, key: int, n_images: int) -> Scene:
    """Make a demo scene of so many images from random numbers by a key."""
    package = find_spec("skimage")
    if package is None or package.origin is None:
        raise MissingPackageError("skimage", "the demo scenes", "vision-demo")
    picture = read_image(Path(package.origin).parent / "data" / DEMO_PICTURES[name])
    viewpoint = name.startswith("v_")
    images: list[Path | NDArray[Any]] = [picture]
    homographies: dict[int, Floats] = {}
    for k in range(2, n_images + 1):
        strength = (k - 1) / (n_images - 1)
        draw = _uniform(key + (k << 20), 64)
        homographies[k] = _view(picture.shape, draw, strength) if viewpoint else np.eye(3)
        if not viewpoint:
            images.append(_lit(picture, draw, strength, key + k))
            continue
        with steady() as cv2:
            how = {"flags": cv2.INTER_LINEAR, "borderMode": cv2.BORDER_REFLECT}
            images.append(
                cv2.warpPerspective(picture, homographies[k], picture.shape[1::-1], **how)
            )
    return Scene(name, "viewpoint" if viewpoint else "illumination", tuple(images), homographies)


def _uniform(key: int, n: int) -> Floats:
    """Return numbers from 0 to 1, equal on any machine."""
    return (words(key, 0, n) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _view(shape: tuple[int, ...], draw: Floats, strength: float) -> Floats:
    """Return the map of a part of the picture onto the frame.

    The part lies inside, so that every pixel of the new image shows the picture.
    """
    height, width = shape[:2]
    corners = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], float)
    inward = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]], float)
    moved = inward * draw[:8].reshape(4, 2) * [width, height] * (_HARDEST * strength)
    ahead, back = (points.astype(np.float32) for points in (np.rint(corners + moved), corners))
    solved = opencv().getPerspectiveTransform(ahead, back)
    return np.array([float(f"{cell:.12g}") for cell in solved.flat]).reshape(3, 3)


def _lit(picture: Image, draw: Floats, strength: float, key: int) -> Image:
    """Re-expose a picture: gamma, gain, light and noise."""
    gamma = 2.0 ** (strength * (2.0 * draw[0] - 0.7))
    gain = 1.0 - 0.5 * strength * draw[1]
    curve = 255.0 * gain * (np.arange(256) / 255.0) ** gamma
    side = 1.0 + strength * (draw[2] - 0.5) * np.linspace(-1.0, 1.0, picture.shape[1])
    noise = (_uniform(key, picture.size).reshape(picture.shape) - 0.5) * 24.0 * strength
    light = curve[picture] * side[:, None] + noise
    result: Image = np.clip(np.rint(light), 0, 255).astype(np.uint8)
    return result


_SCENES: Final = ("i_lamp", "v_graf", "v_wall")
_EXPERIMENT: Final = """\
name: experiment
dataset: {path: scenes}
keypoints: {detector: orb, border: 20, strongest: 60}
descriptors: [SIFT, ORB]
evaluation: {tau: [3, 1]}
"""


def write_files(folder: Path, rng: np.random.Generator) -> None:
    """Write scenes and patches for the commands of the documentation.

    Planes are seen from beside (`v_…`) or in other light (`i_…`).
    """
    for name in _SCENES:
        plane, home = _texture(rng), folder / "scenes" / name
        home.mkdir(parents=True, exist_ok=True)
        for image in (1, 2, 3):
            light, aside = (1 - 0.2 * image, 0) if name[0] == "i" else (1.0, 9 * (image - 1))
            _write_png(home / f"{image}.png", light * plane[:, aside : aside + 280])
            if image > 1:
                np.savetxt(home / f"H_1_{image}", [[1, 0, -aside], [0, 1, 0], [0, 0, 1]], "%g")
        _write_patches(folder, name, plane, rng)
    (folder / "experiment.yaml").write_text(_EXPERIMENT, "utf-8")


def _write_patches(
    folder: Path, scene: str, plane: Floats, rng: np.random.Generator, side: int = 65, n: int = 12
) -> None:
    """Write strips of patches, and two descriptors of them.

    e1, h1 and t1 are ever farther from `ref`.
    """
    strip = plane[: n // 4 * side, : 4 * side].reshape(n // 4, side, 4, side).swapaxes(1, 2)
    points = rng.normal(size=(n, 16))
    for level, name in enumerate(("ref", "e1", "h1", "t1")):
        (folder / "hpatches" / scene).mkdir(parents=True, exist_ok=True)
        noise = 25 * level * rng.normal(size=(n * side, side))
        _write_png(folder / "hpatches" / scene / f"{name}.png", strip.reshape(-1, side) + noise)
        for descriptor, blur in (("sift", 0.8), ("orb", 1.2)):
            home = folder / "descriptors" / descriptor / scene
            home.mkdir(parents=True, exist_ok=True)
            rows = points + blur * level * rng.normal(size=points.shape)
            np.savetxt(home / f"{name}.csv", rows, "%.4f", delimiter=",")


def _texture(rng: np.random.Generator, height: int = 200, width: int = 300) -> Floats:
    """Return squares of random grey on four scales."""
    layers = [
        np.kron(rng.random((-(-height // size), -(-width // size))), np.ones((size, size)))
        for size in (5, 10, 20, 50)
    ]
    grey: Floats = 64.0 * np.sum([layer[:height, :width] for layer in layers], axis=0)
    return grey


def _write_png(path: Path, grey: NDArray[Any]) -> None:
    """Write an 8-bit image without the packages that read it."""
    pixels = np.clip(np.rint(grey), 0, 255).astype(np.uint8)
    height, width = pixels.shape
    lines = np.pad(pixels, ((0, 0), (1, 0))).tobytes()  # each after a 0: no filter
    chunks = {
        b"IHDR": struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0),
        b"IDAT": zlib.compress(lines),
        b"IEND": b"",
    }
    framed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks.items()
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(framed))
