"""Experiment files, YAML or TOML: unknown keys and wrong types are refused where they stand."""

from __future__ import annotations

import os
import tomllib
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from assay.errors import AssayError, FormatError
from assay.io.packages import need
from assay.io.text_lines import read_text
from assay.tasks.descriptors_settings import DEMO, Experiment

__all__ = ["experiment_from", "read_experiment"]


def read_experiment(path: str | os.PathLike[str]) -> Experiment:
    """An experiment from a .yaml, .yml or .toml file; paths in it are relative to the file."""
    name = os.fspath(path)
    ending = Path(name).suffix.lower()
    if ending not in (".yaml", ".yml", ".toml"):
        raise FormatError(f"{name}: an experiment file ends in .yaml, .yml or .toml.")
    text = read_text(path)
    data = _toml(text, name) if ending == ".toml" else _yaml(text, name)
    made = experiment_from(data, name)
    return _rooted(made, Path(name).resolve().parent)


def experiment_from(data: Any, place: str = "experiment") -> Experiment:
    """An experiment from plain data such as a file holds; `place` is for messages."""
    if isinstance(data, Mapping) and isinstance(data.get("descriptors"), list):
        data = {**data, "descriptors": [_named(one) for one in data["descriptors"]]}
    made: Experiment = _filled(Experiment, data, place)
    return made


def _named(descriptor: Any) -> Any:
    """A descriptor may be given by its type alone, which is then its name."""
    if isinstance(descriptor, str):
        return {"name": descriptor, "type": descriptor}
    if isinstance(descriptor, Mapping) and "type" in descriptor:
        return {"name": descriptor["type"], **descriptor}
    return descriptor


def _toml(text: str, name: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{name} is not TOML: {error}.") from None


def _yaml(text: str, name: str) -> Any:
    yaml = need("yaml", "an experiment file in YAML", "vision")

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        """Plain data only: no tags, no repeated keys, no references that could grow."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                mark = self.peek_event().start_mark
                raise FormatError(f"{name}, line {mark.line + 1}: write the value out, without *.")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: set[Any] = set()
            for key, _ in node.value:
                if key.value in seen:
                    line = key.start_mark.line + 1
                    raise FormatError(f"{name}, line {line}: the key {key.value!r} stands twice.")
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise FormatError(f"{name} is not YAML: {' '.join(str(error).split())}.") from None
    except RecursionError:
        raise FormatError(f"{name} is nested too deeply to be an experiment.") from None


def _filled(kind: Any, data: Any, place: str) -> Any:
    """A dataclass from a mapping, every key and type checked."""
    if not isinstance(data, Mapping):
        raise FormatError(f"{place}: expected keys and values, found {_shown(data)}.")
    known = {item.name: item for item in fields(kind)}
    for key in data:
        if key not in known:
            near = get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]}?" if near else ""
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
        return _filled(kind, value, place)
    if origin is Literal:
        if value not in inner:
            raise FormatError(f"{place}: must be {_either(inner)}, found {_shown(value)}.")
        return value
    if origin is tuple:
        items = value if isinstance(value, list) else [value]
        return tuple(_value(inner[0], one, f"{place} {i + 1}") for i, one in enumerate(items))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise FormatError(f"{place}: expected keys and values, found {_shown(value)}.")
        return dict(value)
    return _plain(kind, value, place)


def _optional(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    """One of several types; a group of settings may be switched on by true."""
    if value is None and type(None) in kinds:
        return None
    group = next((kind for kind in kinds if is_dataclass(kind)), None)
    if group is not None and isinstance(value, bool):
        return _filled(group, {}, place) if value else None
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
        raise FormatError(f"{place}: must be {names[kind]}, found {_shown(value)}.")
    return value


def _either(choices: tuple[Any, ...]) -> str:
    *most, last = map(str, choices)
    return f"{', '.join(most)} or {last}" if most else last


def _shown(value: Any) -> str:
    return repr(value)[:60]


def _rooted(experiment: Experiment, folder: Path) -> Experiment:
    """The same with paths that do not depend on where the command is called."""
    dataset = experiment.dataset
    path = dataset.path if dataset.path == DEMO else str(folder / dataset.path)
    categories = dataset.categories
    if isinstance(categories, str):
        categories = str(folder / categories)
    descriptors = tuple(
        replace(one, type=str(folder / one.type)) if _is_file(one.type) else one
        for one in experiment.descriptors
    )
    return replace(
        experiment,
        dataset=replace(dataset, path=path, categories=categories),
        descriptors=descriptors,
        keypoints=_rooted_keypoints(experiment.keypoints, folder),
    )


def _is_file(spec: str) -> bool:
    return Path(spec).suffix.lower() in (".npy", ".npz")


def _rooted_keypoints(keypoints: Any, folder: Path) -> Any:
    return keypoints if keypoints.path is None else replace(
        keypoints, path=str(folder / keypoints.path)
    )  # fmt: skip
