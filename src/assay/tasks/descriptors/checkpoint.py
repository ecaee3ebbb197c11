"""Scenes that are done, kept in a folder: one file for each descriptor and scene.

A file is used again only if its fingerprint fits: settings, images, homographies, the code of a
function of one's own, and versions. A file that is damaged counts as none.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay import __version__
from assay.errors import AssayError, StorageError
from assay.io.arrays import load_npz, npz_keys
from assay.io.atomic import atomic_write
from assay.models.adapters.python_function import named_callable
from assay.tasks.descriptors.pooled_hits import CandidateCounts
from assay.tasks.descriptors.ranks import PairRanks
from assay.tasks.descriptors.result import Failure
from assay.tasks.descriptors.scene import ScenePart, Work
from assay.tasks.vision.describe import is_file
from assay.tasks.vision.images import opencv
from assay.tasks.vision.keypoint_sources import filled_path
from assay.tasks.vision.scenes import Scene

__all__ = ["Parts", "fingerprint"]

_LAYOUT: Final = 1  # of these files; a new number makes all old ones useless
_IN_JSON: Final = (str, int, float, tuple)


class Parts:
    """The folder; without one nothing is kept and nothing found."""

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self.folder = None if folder is None else Path(folder)

    def path(self, descriptor: str, scene: str) -> Path | None:
        """The file of a scene; names never become paths as they are."""
        if self.folder is None:
            return None
        return self.folder / f"{_slug(descriptor)}--{_slug(scene)}.npz"

    def find(self, descriptor: str, scene: str, print_: str) -> ScenePart | None:
        """A part with this fingerprint, if it is there and whole."""
        path = self.path(descriptor, scene)
        if path is None or not path.is_file():
            return None
        try:
            arrays = load_npz(path, tuple(npz_keys(path)))
            head = json.loads(arrays["head"].tobytes())
            return _unpacked(head, arrays) if head["fingerprint"] == print_ else None
        except StorageError:
            raise
        except (AssayError, ValueError, KeyError, TypeError, IndexError):
            return None

    def keep(self, part: ScenePart, descriptor: str, print_: str) -> None:
        """Write a part, whole or not at all."""
        path = self.path(descriptor, part.scene)
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{path.parent} cannot be made: {error.strerror}.") from None
        arrays: dict[str, Any] = {}
        head = {"fingerprint": print_, **_packed(part, arrays)}
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
        with atomic_write(path) as file:
            np.savez(file, **arrays)


def _slug(name: str) -> str:
    """Part of a file name: readable, and different for different names."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)[:40]
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _packed(part: ScenePart, arrays: dict[str, Any]) -> dict[str, Any]:
    """What JSON can hold; arrays go under names of their own."""
    return {
        "scene": part.scene,
        "metric": part.metric,
        "seconds": dict(part.seconds),
        "notes": list(part.notes),
        "failures": [asdict(one) for one in part.failures],
        "ranks": [
            [tau, [_split(one, f"rank{i}x{j}", arrays) for j, one in enumerate(found)]]
            for i, (tau, found) in enumerate(part.ranks.items())
        ],
        "pooled": [_split(one, f"pool{i}", arrays) for i, one in enumerate(part.pooled)],
        "samples": [_stored(rows, f"sample{i}", arrays) for i, rows in enumerate(part.samples)],
    }


def _split(value: Any, name: str, arrays: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for item in fields(value):
        content = getattr(value, item.name)
        key = f"{name}_{item.name}"
        plain[item.name] = (
            _stored(content, key, arrays) if isinstance(content, np.ndarray) else (content)
        )
    return plain


def _stored(content: NDArray[Any], key: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """A place for an array; one without elements is only described."""
    if content.size:
        arrays[key] = content
        return {"array": key}
    return {"empty": content.shape, "dtype": content.dtype.str}


def _unpacked(head: Mapping[str, Any], arrays: Mapping[str, Any]) -> ScenePart:
    return ScenePart(
        head["scene"],
        {
            float(tau): tuple(_joined(PairRanks, one, arrays) for one in found)
            for tau, found in head["ranks"]
        },
        tuple(_joined(CandidateCounts, one, arrays) for one in head["pooled"]),
        tuple(Failure(**one) for one in head["failures"]),
        tuple(head["notes"]),
        tuple(_content(one, arrays) for one in head["samples"]),
        head["metric"],
        head["seconds"],
    )


def _joined(kind: Any, plain: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
    return kind(**{key: _content(value, arrays) for key, value in plain.items()})


def _content(value: Any, arrays: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        if "array" in value:
            return arrays[value["array"]]
        return np.empty(value["empty"], value["dtype"])
    return tuple(value) if isinstance(value, list) else value


def fingerprint(scene: Scene, work: Work) -> str:
    """All that the part of a scene depends on."""
    digest = hashlib.sha256()
    evaluation = asdict(work.evaluation)
    for key in ("ties", "rule", "level", "resamples", "seed"):
        del evaluation[key]  # these only read what is kept
    settings = {
        "layout": _LAYOUT,
        "assay": __version__,
        "opencv": opencv().__version__,
        "scene": scene.name,
        "category": scene.category,
        "evaluation": evaluation,
        "descriptor": asdict(work.descriptor),
        "keypoints": asdict(work.keypoints),
    }
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    for name in _needed(scene, work):
        if name not in work.prints:
            work.prints[name] = _scene_print(work.scenes[name])
        digest.update(f"{name}\0{work.prints[name]}\0".encode())
        for file in _given_files(work.scenes[name], work):
            digest.update(f"{file}\0{_file_print(file)}\0".encode())
    code = _own_code(work.descriptor.type)
    digest.update(f"{code}\0{_file_print(code)}\0".encode() if code else b"")
    return digest.hexdigest()


def _needed(scene: Scene, work: Work) -> list[str]:
    """The scene, and all others where distractors are drawn from them."""
    pooled = work.evaluation.verification or work.evaluation.retrieval
    return sorted(work.scenes) if pooled else [scene.name]


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


def _given_files(scene: Scene, work: Work) -> Iterator[str]:
    """Files of keypoints and descriptors that belong to the scene."""
    for spec in (work.keypoints.path, work.descriptor.type):
        if spec is None or not spec.lower().endswith((".npy", ".npz", ".csv")):
            continue
        for k in range(1, len(scene.images) + 1):
            yield filled_path(spec, {"scene": scene.name, "image": k})


def _own_code(spec: str) -> str | None:
    """The file of a descriptor that is a function of one's own: it is likely to change."""
    module, colon, _ = spec.partition(":")
    if not colon or is_file(spec):
        return None
    named_callable(spec, "module:function")
    return getattr(sys.modules[module], "__file__", None)


def _file_print(file: str | Path) -> str:
    """A digest of what is in a file; a file that is absent is noticed when it is read."""
    try:
        with open(file, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return "absent"
