"""Settings of experiments, each declared once: keys of experiment files, checks, and options.

Experiment files are YAML or TOML; unknown keys and wrong types are refused where they stand.
Nothing here needs numpy, so that `assay descriptors --help` is quick.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

from assay.cli.settings import POSITIVE, WHOLE, About, Setting, fill, one_of
from assay.core.conventions import Conventions, preset
from assay.core.on_demand import OnDemand
from assay.core.specs import Consent, own_callable
from assay.errors import FormatError, UsageError, need
from assay.io.plain_data import parse_toml, parse_yaml, read_config_text

if TYPE_CHECKING:
    from assay.scoring.scores import Scores
    from assay.stats import samples
    from assay.vision import ground_truth
else:  # which need numpy
    samples = OnDemand("assay.stats.samples")
    ground_truth = OnDemand("assay.vision.ground_truth")

DEMO: Final = "demo"  # the path of scenes that are made on the spot
BORDER: Final = 40.0  # pixels from the edge within which keypoints are dropped
ESTIMATORS: Final = {"ransac": "RANSAC", "magsac": "USAC_MAGSAC"}  # as OpenCV calls them
Source = Literal["detect", "project", "file"]
Metric = Literal["l2", "cosine", "hamming"]
METRICS: Final = get_args(Metric)
SHARE: Final = "SetP"  # MMA of a pair of images is the precision of its matches


def default_conventions() -> Conventions:
    """Return the preset with expected ties.

    With optimistic ones a constant descriptor would look good.
    """
    return preset("keypoints").replace(ties="expected")


@dataclass(frozen=True)
class KeypointSettings:
    """Selection of keypoints.

    The source "detect" finds them in each image, "project" takes those of image 1 through the
    homography, "file" reads `path`, in which {scene} and {image} stand for names. Keypoints near
    the border go first, then those of other sizes; `shared_with` keeps what a second detector
    detected, too; then the `strongest` and a `random` choice of so many stay.

    Example:
        >>> KeypointSettings(strongest=200).detector
        'sift'
    """

    source: Annotated[Source, "Source of keypoints: detect, project or file."] = "detect"
    detector: Annotated[str, "Detector, such as sift or orb."] = "sift"
    options: Annotated[Mapping[str, Any], "Options of the detector."] = field(default_factory=dict)
    path: Annotated[str | None, "File with placeholders {scene} and {image}."] = None
    border: Annotated[float, "Border without keypoints, in pixels."] = BORDER
    least_size: Annotated[float, "Smallest size."] = 0.0
    most_size: Annotated[float, "Largest size."] = float("inf")
    shared_with: Annotated[str | None, "Second detector; only shared keypoints are kept."] = None
    shared_side: Annotated[
        Literal["left", "right"], "Detector whose sizes and angles are used."
    ] = "left"
    tolerance: Annotated[float, "Tolerance of shared keypoints, in pixels."] = 3.0
    strongest: Annotated[
        int | None,
        About(
            "Number of strongest keypoints per image.",
            {"minimum": 1},
            option={"section": "Input", "metavar": "N", "show_default": True},
        ),
    ] = None
    random: Annotated[int | None, "Number of keypoints to draw at random."] = None
    seed: Annotated[int, "Seed of that draw."] = 0

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        if self.source not in get_args(Source):
            raise UsageError(f"source must be detect, project or file; found {self.source!r}.")
        if self.shared_side not in ("left", "right"):
            raise UsageError(f"shared_side must be left or right; found {self.shared_side!r}.")
        if self.source == "file" and self.path is None:
            raise UsageError("Keypoints from files need a path. Set keypoints/{scene}/{image}.csv.")
        if self.source == "detect" and self.path is not None:
            raise UsageError("A keypoint path excludes source detect. Use file or project.")


@dataclass(frozen=True)
class DatasetSettings:
    """Where the scenes are."""

    path: Annotated[str, "Folder of scenes; demo: generated scenes."]
    layout: Annotated[Literal["auto", "hpatches", "oxford"], "Layout of the folder."] = "auto"
    scenes: Annotated[tuple[str, ...], "Names of the scenes. [all]"] = ()
    categories: Annotated[Mapping[str, str] | str | None, "Categories by scene, or their file."] = (
        None
    )
    resize: Annotated[
        int | None,
        About(
            "Shorter side of images in pixels (papers: 480).",
            {"minimum": 16},
            option={"section": "Input", "metavar": "PIXELS"},
        ),
    ] = None

    def __post_init__(self) -> None:
        """Refuse categories that are neither a file nor a table, and tiny images."""
        if self.resize is not None and self.resize < 16:
            raise UsageError(f"resize must be at least 16 pixels, found {self.resize!r}.")
        if not isinstance(self.categories, Mapping | str | None):
            raise UsageError(
                f"categories: expected keys and values, or a file, found {self.categories!r:.60}."
            )


@dataclass(frozen=True)
class DescriptorSettings:
    """A descriptor; separate keypoints make its results incomparable with others."""

    name: Annotated[str, "Name in results. [type]"]
    type: Annotated[str, "A name such as SIFT, a file, a network or module:function."]
    options: Annotated[Mapping[str, Any], "Options of the descriptor."] = field(
        default_factory=dict
    )
    metric: Annotated[
        Metric | None,
        About("Distance of descriptors. [l2; hamming for bits]", option={"section": "Search"}),
    ] = None
    keypoints: Annotated[KeypointSettings | None, "Keypoints, overriding the experiment's."] = None


@dataclass(frozen=True)
class DistractorSettings:
    """Distractors from other scenes."""

    scenes: Annotated[int, About("Number of other scenes.", {"minimum": 1})] = 10
    keypoints: Annotated[int, About("Number of keypoints of each.", {"minimum": 1})] = 20
    seed: Annotated[int, About("Seed of the draw.", {"minimum": 0})] = 0


@dataclass(frozen=True)
class ImageRetrievalSettings:
    """Image retrieval by some keypoints of each image."""

    keypoints: Annotated[int, About("Number of keypoints of each image.", {"minimum": 1})] = 200
    ratio: Annotated[float, "Limit of the ratio test."] = 0.8
    seed: Annotated[int, About("Seed of the draw.", {"minimum": 0})] = 0

    def __post_init__(self) -> None:
        """Reject invalid ratios."""
        if not 0 < self.ratio <= 1:
            raise UsageError(f"ratio must lie above 0 and not above 1, found {self.ratio!r}.")


@dataclass(frozen=True)
class EvaluationSettings:
    """Measures and tasks of an experiment."""

    tau: Annotated[tuple[float, ...], "Tolerances in pixels; the first is the headline."] = (3.0,)
    pairs: Annotated[tuple[int, ...], "Images to compare with image 1. [all]"] = ()
    ties: Annotated[
        Literal["order", "expected", "best", "worst", "midrank-up"], "Tie rule of distances."
    ] = "expected"
    one_to_one: Annotated[bool, "One-to-one matching, nearest pairs first."] = False
    symmetric: Annotated[bool, "Require matches in both directions."] = False
    matching: Annotated[bool, "Image matching."] = True
    rule: Annotated[
        Literal["authors", "paper", "program"], "Rule of verification and retrieval in wide rows."
    ] = "authors"
    verification: Annotated[DistractorSettings | None, "Verification among distractors."] = None
    retrieval: Annotated[DistractorSettings | None, "Retrieval among distractors."] = None
    image_retrieval: Annotated[ImageRetrievalSettings | None, "Image retrieval."] = None
    level: Annotated[float, "Level of the intervals."] = 0.95
    resamples: Annotated[int, "Number of resamples."] = 10_000
    seed: Annotated[int, About("Seed of the resamples.", {"minimum": 0})] = 0

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        ground_truth.check_taus(self.tau)
        samples.check_level(self.level)
        for pair in self.pairs:
            if pair < 2:
                raise UsageError(f"pairs are numbers of images from 2 on, found {pair}.")

    @property
    def resampling(self) -> dict[str, Any]:
        """Resampling settings of intervals."""
        return {"level": self.level, "resamples": self.resamples, "seed": self.seed}

    @property
    def truth(self) -> dict[str, Any]:
        """Settings of true matches."""
        return {"taus": self.tau, "one_to_one": self.one_to_one, "symmetric": self.symmetric}

    @property
    def comparing(self) -> dict[str, Any]:
        """Comparison settings; `level` is the significance level."""
        return {**self.resampling, "level": round(1 - self.level, 12)}  # 0.05, not 0.0500000…4

    @property
    def conventions(self) -> Conventions:
        """The preset of keypoints, with the chosen ties."""
        return default_conventions().replace(ties=self.ties)


@dataclass(frozen=True)
class Experiment:
    """Everything that an experiment file says."""

    dataset: Annotated[DatasetSettings, "Scenes."]
    descriptors: Annotated[tuple[DescriptorSettings, ...], "Descriptors, by type or as tables."]
    name: Annotated[str, "Name in results."] = "experiment"
    keypoints: Annotated[KeypointSettings, "Selection of keypoints."] = field(
        default_factory=KeypointSettings
    )
    evaluation: Annotated[EvaluationSettings, "Measures and tasks."] = field(
        default_factory=EvaluationSettings
    )

    def __post_init__(self) -> None:
        """Refuse an experiment without descriptors, or with two of one name."""
        names = [descriptor.name for descriptor in self.descriptors]
        sources = [self.keypoints, *(each.keypoints for each in self.descriptors)]
        if self.dataset.resize and any(each and each.source == "file" for each in sources):
            raise UsageError(
                "Keypoints from files exclude resize. Remove resize, or detect keypoints."
            )
        if not names:
            raise UsageError("No descriptors. Add at least one.")
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"Two descriptors are called {name!r}. Rename one.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; a missing limit is None."""
        data: dict[str, Any] = _as_data(asdict(self))
        return data


def _as_data(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _as_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_data(item) for item in value]
    return None if value == float("inf") else value


def network_file(spec: str) -> str | None:
    """Return the file of `onnx:FILE` or `torch:FILE`; else None.

    >>> network_file("onnx:hardnet.onnx"), network_file("SIFT")
    ('hardnet.onnx', None)
    """
    kind, colon, file = spec.partition(":")
    return file if colon and kind in ("onnx", "torch") else None


def is_file(spec: str) -> bool:
    """Return whether a spec names an array file."""
    return Path(spec).suffix.lower() in (".npy", ".npz")


def read_experiment(path: str | os.PathLike[str], *, allow_code: bool = False) -> Experiment:
    """Read an experiment from a .yaml, .yml or .toml file.

    Args:
        path: The file; paths in it are relative to it.
        allow_code: Whether it may name functions, which are run.

    Returns:
        The experiment, checked.

    Raises:
        FormatError: If a key is unknown or missing, or a value has the wrong type.
        UsageError: If it names code that is not allowed.

    Example:
        experiment = read_experiment("experiment.yaml")
        experiment.evaluation.tau
    """
    name = os.fspath(path)
    ending = Path(name).suffix.lower()
    if ending not in (".yaml", ".yml", ".toml"):
        raise FormatError(f"{name}: unknown ending. Use .yaml, .yml or .toml.")
    if ending != ".toml":  # by the extra that describes images, too: one installation, not two
        need("yaml", "An experiment in YAML", "vision")
    parse = parse_toml if ending == ".toml" else parse_yaml
    data = parse(read_config_text(path), name)
    experiment = experiment_from(data, name)
    for descriptor in experiment.descriptors:
        allow_descriptor(descriptor.type, Consent.of(allow_code), name)
    return _resolve_paths(experiment, Path(name).resolve().parent)


def allow_descriptor(spec: str, consent: Consent, place: str) -> None:
    """Refuse code that a file names, unless code is allowed; a function must be the user's own.

    A script of torch is code; a graph of ONNX is not.
    """
    if ":" not in spec or is_file(spec) or spec.startswith("onnx:"):
        return
    consent.check_code(f"the descriptor {spec!r}", place)
    if network_file(spec) is None:
        own_callable(spec, "module:function")


def experiment_from(data: Any, place: str = "experiment") -> Experiment:
    """Build an experiment from plain data.

    Args:
        data: What an experiment file holds: dataset, descriptors, keypoints, evaluation.
        place: Where it stands, for messages.

    Returns:
        The experiment, checked.

    Raises:
        FormatError: If a key is unknown or missing, or a value has the wrong type.

    >>> experiment_from({"dataset": {"path": "demo"}, "descriptors": ["SIFT"]}).evaluation.tau
    (3.0,)
    """
    if isinstance(data, Mapping) and isinstance(data.get("descriptors"), list):
        # A type alone is a descriptor, and its name is the type.
        listed = [{"type": item} if isinstance(item, str) else item for item in data["descriptors"]]
        named = [
            {"name": item["type"], **item} if isinstance(item, Mapping) and "type" in item else item
            for item in listed
        ]
        data = {**data, "descriptors": named}
    return fill(Experiment, data, place)


def _resolve_paths(experiment: Experiment, folder: Path) -> Experiment:
    """Resolve relative paths against the folder of the file."""

    def resolve(path: str) -> str:
        kind, colon, file = path.partition(":") if network_file(path) else ("", "", path)
        return f"{kind}{colon}{folder / file}"

    def resolve_keypoints(keypoints: Any) -> Any:
        stated = keypoints is not None and keypoints.path is not None
        return replace(keypoints, path=resolve(keypoints.path)) if stated else keypoints

    dataset, categories = experiment.dataset, experiment.dataset.categories
    return replace(
        experiment,
        dataset=replace(
            dataset,
            path=dataset.path if dataset.path == DEMO else resolve(dataset.path),
            categories=resolve(categories) if isinstance(categories, str) else categories,
        ),
        descriptors=tuple(
            replace(
                item,
                type=resolve(item.type) if _names_file(item.type) else item.type,
                keypoints=resolve_keypoints(item.keypoints),
            )
            for item in experiment.descriptors
        ),
        keypoints=resolve_keypoints(experiment.keypoints),
    )


def _names_file(spec: str) -> bool:
    return is_file(spec) or network_file(spec) is not None


def allow_descriptors(
    specs: list[str], params: Mapping[str, Any], consent: Consent, place: str
) -> None:
    """Refuse descriptors of a stored command without consent."""
    for spec in specs:
        allow_descriptor(spec, consent, place)


_MODELS, _SEARCH = {"section": "Models"}, {"section": "Search"}
# Options of `assay descriptors match` that are no keys of an experiment file.
ESTIMATOR, INLIER, REPEATS = (
    Setting(name, words, schema, default, {"show_default": True, **more})
    for name, words, schema, default, more in (
        ("estimator", "OpenCV estimator of homographies.", one_of(ESTIMATORS), "ransac", _MODELS),
        ("inlier", "Largest error of an inlier.", POSITIVE, 3.0, {**_SEARCH, "metavar": "PIXELS"}),
        ("repeats", "Number of estimates per homography.", WHOLE, 5, {**_SEARCH, "metavar": "N"}),
    )
)


def name_measures(task: str, scores: Sequence[Scores]) -> dict[str, str]:
    """Return the names of the measures of stored image matches: MMA with the pixels of its rule."""
    if task != "matching":
        return {}
    pixels = {system.settings.get("pixels") for system in scores}
    return {SHARE: f"MMA@{pixels.pop()}"} if len(pixels) == 1 else {}
