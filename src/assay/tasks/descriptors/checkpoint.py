"""Finished scenes in a folder: one part for each descriptor and scene.

A part is used again only if its fingerprint fits: settings, images, homographies, the code of the
user's own function, and versions. A damaged part counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay import __version__
from assay.errors import StorageError
from assay.io.checkpoint import Checkpoint, file_label
from assay.io.fingerprints import digest_of_file
from assay.models.adapters.python_function import named_callable
from assay.tasks.descriptors.pooled_hits import CandidateCounts
from assay.tasks.descriptors.ranks import PairRanks
from assay.tasks.descriptors.result import Failure
from assay.tasks.descriptors.scene import SceneContext, ScenePart
from assay.tasks.vision.describe import is_file
from assay.tasks.vision.images import opencv
from assay.tasks.vision.keypoint_sources import fill_path
from assay.tasks.vision.patch_networks import network_file
from assay.tasks.vision.scenes import Scene

__all__ = ["SceneCheckpoint", "fingerprint"]

_LAYOUT: Final = 3  # of these files; a new number makes all old ones useless
_IN_JSON: Final = (str, int, float, tuple)


class SceneCheckpoint:
    """The folder; without one nothing is stored and nothing found."""

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self.folder = None if folder is None else Path(folder)

    def path(self, descriptor: str, scene: str) -> Path | None:
        """The file of a scene; names never become paths as they are."""
        return Checkpoint(self.folder).path(_name_of(descriptor, scene))

    def load(self, descriptor: str, scene: str, fingerprint: str) -> ScenePart | None:
        """A part with this fingerprint, if it is there and sound."""
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
    """What JSON can hold; arrays go under names of their own."""
    return {
        "scene": part.scene,
        "metric": part.metric,
        "seconds": dict(part.seconds),
        "cost": [part.described, part.row_bytes],
        "notes": list(part.notes),
        "failures": [asdict(one) for one in part.failures],
        "ranks": [
            [tau, [_split(one, f"rank{i}x{j}", arrays) for j, one in enumerate(found)]]
            for i, (tau, found) in enumerate(part.ranks.items())
        ],
        "pooled": [_split(one, f"pool{i}", arrays) for i, one in enumerate(part.pooled)],
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
    """A place for an array; one without elements is only described."""
    if content.size:
        arrays[key] = content
        return {"array": key}
    return {"empty": content.shape, "dtype": content.dtype.str}


def _from_part(notes: Mapping[str, Any], arrays: Mapping[str, Any]) -> ScenePart:
    return ScenePart(
        notes["scene"],
        {
            float(tau): tuple(_build(PairRanks, one, arrays) for one in found)
            for tau, found in notes["ranks"]
        },
        tuple(_build(CandidateCounts, one, arrays) for one in notes["pooled"]),
        tuple(Failure(**one) for one in notes["failures"]),
        tuple(notes["notes"]),
        tuple(_content(one, arrays) for one in notes["samples"]),
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
    """A digest of all that the part of a scene depends on."""
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
    """The scene, and all others where distractors are drawn from them."""
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
    """Files of keypoints and descriptors that belong to the scene."""
    for spec in (context.keypoints.path, context.descriptor.type):
        if spec is None or not spec.lower().endswith((".npy", ".npz", ".csv")):
            continue
        for k in range(1, len(scene.images) + 1):
            yield fill_path(spec, {"scene": scene.name, "image": k})


def _own_code(spec: str) -> str | None:
    """The file of a network, or of the user's own function: it is likely to change."""
    module, colon, _ = spec.partition(":")
    if not colon or is_file(spec):
        return None
    if network_file(spec) is not None:
        return network_file(spec)
    named_callable(spec, "module:function")
    return getattr(sys.modules[module], "__file__", None)


def _file_print(file: str | Path) -> str:
    """A digest of the content of a file; an absent file is noticed when it is read."""
    try:
        return digest_of_file(file)
    except StorageError:
        return "absent"
