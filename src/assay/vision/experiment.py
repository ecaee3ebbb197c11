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
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from assay import __version__
from assay.cli.settings import fill
from assay.core.callables import named_callable, own_callable
from assay.core.consent import Consent
from assay.errors import FormatError, StorageError
from assay.io.checkpoint import Checkpoint, file_label
from assay.io.config_text import parse_toml, parse_yaml, read_config_text
from assay.io.fingerprints import digest_of_file
from assay.vision.descriptors import is_file, network_file
from assay.vision.keypoints import fill_path
from assay.vision.opencv_features import opencv
from assay.vision.ranks import PairRanks
from assay.vision.result import Failure, ScenePart
from assay.vision.scenes import Scene
from assay.vision.settings import DEMO, Experiment
from assay.vision.verification import CandidateCounts

if TYPE_CHECKING:
    from assay.vision.run import SceneContext


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
    # Distractors come from all scenes.
    pooled = context.evaluation.verification or context.evaluation.retrieval
    for name in sorted(context.scenes) if pooled else [scene.name]:
        needed = context.scenes[name]
        print_ = context.prints.get(name, partial(_scene_print, needed))
        digest.update(f"{name}\0{print_}\0".encode())
        for spec in (context.keypoints.path, context.descriptor.type):
            if spec is not None and spec.lower().endswith((".npy", ".npz", ".csv")):
                for k in range(1, len(needed.images) + 1):
                    file = fill_path(spec, {"scene": name, "image": k})
                    digest.update(f"{file}\0{_file_print(file)}\0".encode())
    code = _code_file(context.descriptor.type)
    digest.update(f"{code}\0{_file_print(code)}\0".encode() if code else b"")
    return digest.hexdigest()


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


def _code_file(spec: str) -> str | None:
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
