"""Experiment files, YAML or TOML: unknown keys and wrong types are refused where they stand."""

from __future__ import annotations

import os
import types
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from assay.core import checks
from assay.core.consent import Consent
from assay.core.conventions import Conventions
from assay.core.text import did_you_mean
from assay.errors import AssayError, FormatError, UsageError
from assay.io.config_text import parse_toml, parse_yaml, read_config_text
from assay.models.adapters.python_function import own_callable
from assay.stats.samples import check_level, check_seed
from assay.tasks.descriptors.result import default_conventions
from assay.tasks.vision.describe import is_file
from assay.tasks.vision.ground_truth import check_taus
from assay.tasks.vision.keypoint_sources import KeypointSettings
from assay.tasks.vision.patch_networks import network_file

__all__ = [
    "DEMO",
    "DatasetSettings",
    "DescriptorSettings",
    "DistractorSettings",
    "EvaluationSettings",
    "Experiment",
    "ImageRetrievalSettings",
    "allow_descriptor",
    "experiment_from",
    "read_experiment",
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

    Without a `metric`, floats are compared by L2 and bits by Hamming distance. `keypoints`
    replaces the experiment's own; then its results are not comparable with others.
    """

    name: str
    type: str
    options: Mapping[str, Any] = field(default_factory=dict)
    metric: Literal["l2", "cosine", "hamming"] | None = None
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
    def resampling(self) -> dict[str, Any]:
        """How intervals are drawn."""
        return {"level": self.level, "resamples": self.resamples, "seed": self.seed}

    @property
    def conventions(self) -> Conventions:
        """The preset of keypoints, with the chosen ties."""
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

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; a limit that is not there is None."""
        found: dict[str, Any] = _as_data(asdict(self))
        return found


def _as_data(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _as_data(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_data(one) for one in value]
    return None if value == float("inf") else value


def read_experiment(path: str | os.PathLike[str], *, allow_code: bool = False) -> Experiment:
    """An experiment from a .yaml, .yml or .toml file; paths in it are relative to the file.

    Without `allow_code` it may not name a function.
    """
    name = os.fspath(path)
    ending = Path(name).suffix.lower()
    if ending not in (".yaml", ".yml", ".toml"):
        raise FormatError(f"{name}: an experiment file ends in .yaml, .yml or .toml.")
    parse = parse_toml if ending == ".toml" else parse_yaml
    data = parse(read_config_text(path), name)
    made = experiment_from(data, name)
    for one in made.descriptors:
        allow_descriptor(one.type, Consent.of(allow_code), name)
    return _resolve_paths(made, Path(name).resolve().parent)


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
    """An experiment from plain data such as a file holds; `place` is for messages."""
    if isinstance(data, Mapping) and isinstance(data.get("descriptors"), list):
        data = {**data, "descriptors": [_as_settings(one) for one in data["descriptors"]]}
    made: Experiment = _fill(Experiment, data, place)
    return made


def _as_settings(descriptor: Any) -> Any:
    """A descriptor may be given by its type alone, which is then its name."""
    if isinstance(descriptor, str):
        return {"name": descriptor, "type": descriptor}
    if isinstance(descriptor, Mapping) and "type" in descriptor:
        return {"name": descriptor["type"], **descriptor}
    return descriptor


def _fill(kind: Any, data: Any, place: str) -> Any:
    """A dataclass from a mapping, every key and type checked."""
    if not isinstance(data, Mapping):
        raise FormatError(f"{place}: expected keys and values, found {_excerpt(data)}.")
    known = {item.name: item for item in fields(kind)}
    for key in data:
        if key not in known:
            hint = did_you_mean(str(key), known, cutoff=0.5)
            raise FormatError(f"{place}: unknown key {key!r}.{hint} Known: {', '.join(known)}.")
    for name, item in known.items():
        if item.default is MISSING and item.default_factory is MISSING and name not in data:
            raise FormatError(f"{place}: the key {name} is missing.")
    hints = get_type_hints(kind)
    values = {key: _value(hints[key], value, f"{place}, {key}") for key, value in data.items()}
    try:
        return kind(**values)
    except FormatError:
        raise
    except AssayError as error:
        raise FormatError(f"{place}: {error}") from None


def _value(kind: Any, value: Any, place: str) -> Any:
    """The value as this type of setting; a list may be given by its only element."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _optional(inner, value, place)
    if is_dataclass(kind):
        return _fill(kind, value, place)
    if origin is Literal:
        if value not in inner:
            raise FormatError(f"{place}: must be {_either(inner)}, found {_excerpt(value)}.")
        return value
    if origin is tuple:
        items = value if isinstance(value, list) else [value]
        return tuple(_value(inner[0], one, f"{place} {i + 1}") for i, one in enumerate(items))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise FormatError(f"{place}: expected keys and values, found {_excerpt(value)}.")
        return dict(value)
    return _plain(kind, value, place)


def _optional(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    """One of several types; a group of settings may be switched on by true."""
    if value is None and type(None) in kinds:
        return None
    group = next((kind for kind in kinds if is_dataclass(kind)), None)
    if group is not None and isinstance(value, bool):
        return _fill(group, {}, place) if value else None
    if isinstance(value, Mapping) and any(get_origin(kind) is not None for kind in kinds):
        kinds = tuple(kind for kind in kinds if get_origin(kind) is not None)
    simple = next((kind for kind in kinds if kind is not type(None)), None)
    if isinstance(value, str) and str in kinds:
        return value
    return _value(simple, value, place)


def _plain(kind: Any, value: Any, place: str) -> Any:
    right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not right:
        names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
        raise FormatError(f"{place}: must be {names[kind]}, found {_excerpt(value)}.")
    return value


def _either(choices: tuple[Any, ...]) -> str:
    *most, last = map(str, choices)
    return f"{', '.join(most)} or {last}" if most else last


def _excerpt(value: Any) -> str:
    return repr(value)[:60]


def _resolve_paths(experiment: Experiment, folder: Path) -> Experiment:
    """The same with paths that do not depend on where the command is called."""
    dataset = experiment.dataset
    path = dataset.path if dataset.path == DEMO else str(folder / dataset.path)
    categories = dataset.categories
    if isinstance(categories, str):
        categories = str(folder / categories)
    descriptors = tuple(
        replace(
            one,
            type=_resolve_type(one.type, folder),
            keypoints=_resolve_keypoints(one.keypoints, folder),
        )
        for one in experiment.descriptors
    )
    return replace(
        experiment,
        dataset=replace(dataset, path=path, categories=categories),
        descriptors=descriptors,
        keypoints=_resolve_keypoints(experiment.keypoints, folder),
    )


def _resolve_type(spec: str, folder: Path) -> str:
    file = network_file(spec)
    if file is not None:
        return f"{spec.partition(':')[0]}:{folder / file}"
    return str(folder / spec) if is_file(spec) else spec


def _resolve_keypoints(keypoints: Any, folder: Path) -> Any:
    return (
        keypoints
        if keypoints is None or keypoints.path is None
        else replace(keypoints, path=str(folder / keypoints.path))
    )
