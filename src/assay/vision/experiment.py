"""Experiment files, YAML or TOML, and the finished scenes of an experiment.

Unknown keys and wrong types are refused where they stand. Finished scenes are stored in a folder,
one part for each descriptor and scene. A part is used again only if its fingerprint fits: settings,
images, homographies, the code of the user's own function, and versions. A damaged part counts as
absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from assay import __version__
from assay.core import checks
from assay.core.conventions import Conventions
from assay.core.specs import Consent, named_callable, own_callable
from assay.core.text import did_you_mean
from assay.errors import AssayError, FormatError, StorageError, UsageError
from assay.io.checkpoint import Checkpoint, file_label
from assay.io.fingerprints import digest_of_file
from assay.io.plain_data import parse_toml, parse_yaml, read_config_text
from assay.stats.samples import check_level, check_seed
from assay.vision.descriptors import is_file, network_file
from assay.vision.ground_truth import check_taus
from assay.vision.keypoints import fill_path
from assay.vision.opencv_features import opencv
from assay.vision.pairs import KeypointSettings
from assay.vision.ranks import PairRanks
from assay.vision.result import Failure, ScenePart, default_conventions
from assay.vision.scenes import Scene
from assay.vision.verification import CandidateCounts

if TYPE_CHECKING:
    from assay.vision.run import SceneContext

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
        names = [descriptor.name for descriptor in self.descriptors]
        if not names:
            raise UsageError("An experiment needs at least one descriptor.")
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"Two descriptors are called {name!r}. Give each its own name.")

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
    """
    name = os.fspath(path)
    ending = Path(name).suffix.lower()
    if ending not in (".yaml", ".yml", ".toml"):
        raise FormatError(f"{name}: an experiment file ends in .yaml, .yml or .toml.")
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
        data = {
            **data,
            "descriptors": [_as_settings(descriptor) for descriptor in data["descriptors"]],
        }
    experiment: Experiment = _fill(Experiment, data, place)
    return experiment


def _as_settings(descriptor: Any) -> Any:
    """Return a descriptor's settings; a type alone is its name, too."""
    if isinstance(descriptor, str):
        return {"name": descriptor, "type": descriptor}
    if isinstance(descriptor, Mapping) and "type" in descriptor:
        return {"name": descriptor["type"], **descriptor}
    return descriptor


def _fill(kind: Any, data: Any, place: str) -> Any:
    """Build a dataclass from a mapping, every key and type checked."""
    if not isinstance(data, Mapping):
        raise FormatError(f"{place}: expected keys and values, found {_excerpt(data)}.")
    settings = {item.name: item for item in fields(kind)}
    for key in data:
        if key not in settings:
            hint = did_you_mean(str(key), settings, cutoff=0.5)
            raise FormatError(f"{place}: unknown key {key!r}.{hint} Known: {', '.join(settings)}.")
    for name, item in settings.items():
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
    """Check and convert one setting; a single element stands for a list."""
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
        return tuple(
            _value(inner[0], element, f"{place} {i + 1}") for i, element in enumerate(items)
        )
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise FormatError(f"{place}: expected keys and values, found {_excerpt(value)}.")
        return dict(value)
    return _plain(kind, value, place)


def _optional(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    """Convert a setting of several types; true switches a group on."""
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
    """Resolve relative paths against the folder of the file."""
    dataset = experiment.dataset
    path = dataset.path if dataset.path == DEMO else str(folder / dataset.path)
    categories = dataset.categories
    if isinstance(categories, str):
        categories = str(folder / categories)
    descriptors = tuple(
        replace(
            descriptor,
            type=_resolve_type(descriptor.type, folder),
            keypoints=_resolve_keypoints(descriptor.keypoints, folder),
        )
        for descriptor in experiment.descriptors
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


def allow_descriptors(
    specs: list[str], params: Mapping[str, Any], consent: Consent, place: str
) -> None:
    """Refuse descriptors of a stored command without consent."""
    for spec in specs:
        allow_descriptor(spec, consent, place)


_LAYOUT: Final = 3  # of these files; a new number makes all old ones useless
_IN_JSON: Final = (str, int, float, tuple)


class SceneCheckpoint:
    """The folder; without one nothing is stored and nothing found."""

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self.folder = None if folder is None else Path(folder)

    def path(self, descriptor: str, scene: str) -> Path | None:
        """Return the file of a scene, without names used as paths."""
        return Checkpoint(self.folder).path(_name_of(descriptor, scene))

    def load(self, descriptor: str, scene: str, fingerprint: str) -> ScenePart | None:
        """Load the part with this fingerprint, if it exists and is sound."""
        part = Checkpoint(self.folder, fingerprint).load(_name_of(descriptor, scene))
        return None if part is None else _from_part(part.notes, part.arrays)

    def save(self, part: ScenePart, descriptor: str, fingerprint: str) -> None:
        """Write a part, whole or not at all."""
        arrays: dict[str, Any] = {}
        notes = _notes_of(part, arrays)
        Checkpoint(self.folder, fingerprint).save(_name_of(descriptor, part.scene), arrays, notes)


def _name_of(descriptor: str, scene: str) -> str:
    return f"{file_label(descriptor)}--{file_label(scene)}.part"


def _notes_of(part: ScenePart, arrays: dict[str, Any]) -> dict[str, Any]:
    """Return what JSON can hold; arrays go to `arrays` by name."""
    return {
        "scene": part.scene,
        "metric": part.metric,
        "seconds": dict(part.seconds),
        "cost": [part.described, part.row_bytes],
        "notes": list(part.notes),
        "failures": [asdict(failure) for failure in part.failures],
        "ranks": [
            [tau, [_split(pair, f"rank{i}x{j}", arrays) for j, pair in enumerate(pairs)]]
            for i, (tau, pairs) in enumerate(part.ranks.items())
        ],
        "pooled": [_split(counts, f"pool{i}", arrays) for i, counts in enumerate(part.pooled)],
        "samples": [_store(rows, f"sample{i}", arrays) for i, rows in enumerate(part.samples)],
    }


def _split(value: Any, name: str, arrays: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for item in fields(value):
        content = getattr(value, item.name)
        key = f"{name}_{item.name}"
        plain[item.name] = (
            _store(content, key, arrays) if isinstance(content, np.ndarray) else content
        )
    return plain


def _store(content: NDArray[Any], key: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """Store an array and return its place; empty ones are only described."""
    if content.size:
        arrays[key] = content
        return {"array": key}
    return {"empty": content.shape, "dtype": content.dtype.str}


def _from_part(notes: Mapping[str, Any], arrays: Mapping[str, Any]) -> ScenePart:
    return ScenePart(
        notes["scene"],
        {
            float(tau): tuple(_build(PairRanks, plain, arrays) for plain in pairs)
            for tau, pairs in notes["ranks"]
        },
        tuple(_build(CandidateCounts, plain, arrays) for plain in notes["pooled"]),
        tuple(Failure(**plain) for plain in notes["failures"]),
        tuple(notes["notes"]),
        tuple(_content(plain, arrays) for plain in notes["samples"]),
        notes["metric"],
        notes["seconds"],
        *notes["cost"],
    )


def _build(kind: Any, plain: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
    return kind(**{key: _content(value, arrays) for key, value in plain.items()})


def _content(value: Any, arrays: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        if "array" in value:
            return arrays[value["array"]]
        return np.empty(value["empty"], value["dtype"])
    return tuple(value) if isinstance(value, list) else value


def fingerprint(scene: Scene, context: SceneContext) -> str:
    """Return a digest of all that the part of a scene depends on."""
    digest = hashlib.sha256()
    evaluation = asdict(context.evaluation)
    for key in ("ties", "rule", "level", "resamples", "seed"):
        del evaluation[key]  # these only read what is stored
    settings = {
        "layout": _LAYOUT,
        "assay": __version__,
        "opencv": opencv().__version__,
        "scene": scene.name,
        "category": scene.category,
        "evaluation": evaluation,
        "descriptor": asdict(context.descriptor),
        "keypoints": asdict(context.keypoints),
    }
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    for name in _needed(scene, context):
        print_ = context.prints.get(name, partial(_scene_print, context.scenes[name]))
        digest.update(f"{name}\0{print_}\0".encode())
        for file in _given_files(context.scenes[name], context):
            digest.update(f"{file}\0{_file_print(file)}\0".encode())
    code = _own_code(context.descriptor.type)
    digest.update(f"{code}\0{_file_print(code)}\0".encode() if code else b"")
    return digest.hexdigest()


def _needed(scene: Scene, context: SceneContext) -> list[str]:
    """Return the scene, and all others where distractors come from them."""
    pooled = context.evaluation.verification or context.evaluation.retrieval
    return sorted(context.scenes) if pooled else [scene.name]


def _scene_print(scene: Scene) -> str:
    digest = hashlib.sha256()
    for image in scene.images:
        digest.update(
            _file_print(image).encode()
            if isinstance(image, Path)
            else np.ascontiguousarray(image).tobytes()
        )
    for k, matrix in scene.homographies.items():
        digest.update(f"{k}".encode() + np.ascontiguousarray(matrix).tobytes())
    return digest.hexdigest()


def _given_files(scene: Scene, context: SceneContext) -> Iterator[str]:
    """Yield the files of keypoints and descriptors of a scene."""
    for spec in (context.keypoints.path, context.descriptor.type):
        if spec is None or not spec.lower().endswith((".npy", ".npz", ".csv")):
            continue
        for k in range(1, len(scene.images) + 1):
            yield fill_path(spec, {"scene": scene.name, "image": k})


def _own_code(spec: str) -> str | None:
    """Return the file of a network or of the user's function."""
    module, colon, _ = spec.partition(":")
    if not colon or is_file(spec):
        return None
    if network_file(spec) is not None:
        return network_file(spec)
    named_callable(spec, "module:function")
    return getattr(sys.modules[module], "__file__", None)


def _file_print(file: str | Path) -> str:
    """Return a digest of a file; "absent" if it does not exist."""
    try:
        return digest_of_file(file)
    except StorageError:
        return "absent"
