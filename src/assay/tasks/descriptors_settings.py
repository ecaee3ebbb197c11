"""What an experiment with descriptors is made of: data, keypoints, descriptors, evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from assay import checks
from assay.conventions import Conventions
from assay.errors import UsageError
from assay.stats.samples import check_level, check_seed
from assay.tasks.descriptors_result import default_conventions
from assay.vision.ground_truth import check_taus
from assay.vision.keypoint_sets import KeypointSettings

__all__ = [
    "DEMO",
    "DatasetSettings",
    "DescriptorSettings",
    "DistractorSettings",
    "EvaluationSettings",
    "Experiment",
    "ImageRetrievalSettings",
]

DEMO: Final = "demo"  # the path of scenes that are made on the spot


@dataclass(frozen=True)
class DatasetSettings:
    """Where the scenes are: a folder, or `path: demo` for scenes that are made on the spot.

    `scenes` names those that are used, without it all; `categories` is a mapping from scene to
    category or a file that holds one.
    """

    path: str
    layout: Literal["auto", "hpatches", "oxford"] = "auto"
    scenes: tuple[str, ...] = ()
    categories: Mapping[str, str] | str | None = None


@dataclass(frozen=True)
class DescriptorSettings:
    """One descriptor: what it is called, its type, file or function, and its options.

    `keypoints` replaces the experiment's own; then its results are not comparable with others.
    """

    name: str
    type: str
    options: Mapping[str, Any] = field(default_factory=dict)
    metric: Literal["l2", "cosine"] = "l2"
    keypoints: KeypointSettings | None = None


@dataclass(frozen=True)
class DistractorSettings:
    """Distractors: so many `keypoints` of each of so many other `scenes`, chosen by `seed`."""

    scenes: int = 10
    keypoints: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        checks.check_cutoff(self.scenes, "scenes")
        checks.check_cutoff(self.keypoints, "keypoints")
        check_seed(self.seed)


@dataclass(frozen=True)
class ImageRetrievalSettings:
    """Image retrieval by so many `keypoints` of each image, chosen by `seed`."""

    keypoints: int = 200
    ratio: float = 0.8
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        checks.check_cutoff(self.keypoints, "keypoints")
        if not 0 < self.ratio <= 1:
            raise UsageError(f"ratio must lie above 0 and not above 1, found {self.ratio!r}.")
        check_seed(self.seed)


@dataclass(frozen=True)
class EvaluationSettings:
    """What is measured. `tau` are tolerances in pixels, the first is the headline's.

    `pairs` are the images that image 1 is compared with, all without it. `matching` adds image
    matching; `verification`, `retrieval` and `image_retrieval` are left out unless asked for.
    """

    tau: tuple[float, ...] = (3.0,)
    pairs: tuple[int, ...] = ()
    ties: Literal["order", "expected", "best", "worst", "midrank-up"] = "expected"
    one_to_one: bool = False
    symmetric: bool = False
    matching: bool = True
    rule: Literal["paper", "program"] = "paper"
    verification: DistractorSettings | None = None
    retrieval: DistractorSettings | None = None
    image_retrieval: ImageRetrievalSettings | None = None
    level: float = 0.95
    resamples: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        check_taus(self.tau)
        check_level(self.level)
        check_seed(self.seed)
        for pair in self.pairs:
            if pair < 2:
                raise UsageError(f"pairs are numbers of images from 2 on, found {pair}.")

    @property
    def conventions(self) -> Conventions:
        """Document 003's, with the ties that are asked for."""
        return default_conventions().but(ties=self.ties)


@dataclass(frozen=True)
class Experiment:
    """Everything that an experiment file says."""

    dataset: DatasetSettings
    descriptors: tuple[DescriptorSettings, ...]
    name: str = "experiment"
    keypoints: KeypointSettings = field(default_factory=KeypointSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)

    def __post_init__(self) -> None:
        """Refuse an experiment without descriptors, or with two of one name."""
        names = [one.name for one in self.descriptors]
        if not names:
            raise UsageError("An experiment needs at least one descriptor.")
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"Two descriptors are called {name!r}. Give each its own name.")
