"""What the path of a result file says: its model, seed and split; and which runs are repetitions.

A run's name often holds its seed or the moment it began. Runs of one name are seeds of one model
unless the configurations beside them differ in more than the seed: then they are other models.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from assay.core.text import did_you_mean
from assay.errors import AssayError, UsageError
from assay.io.streams import read_text

__all__ = [
    "SPLITS",
    "Configurations",
    "PathPattern",
    "ResultName",
    "known_split",
    "name_result",
    "tell_models_apart",
]

SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}
_RESULTS = {"result", "results", "metrics", "scores", "performance"}
_SPLIT = re.compile(rf"(?<![A-Za-z])(?i:{'|'.join(SPLITS)})(?![a-z])")
_DATE = r"(?:19|20)\d\d[-_.]?(?:0[1-9]|1[0-2])[-_.]?(?:0[1-9]|[12]\d|3[01])"
_CLOCK = r"(?:[01]\d|2[0-3])[-_.:h]?[0-5]\d(?:[-_.:m]?[0-5]\d)?(?:[.,]\d+)?[sZ]?"
_STAMP = re.compile(rf"(?<!\d){_DATE}(?:[-_T. ]+{_CLOCK})?(?!\d)")
_TIME = re.compile(rf"(?=.*\D){_CLOCK}")  # Hydra's folders: 2023-05-01/12-30-11
_SEED_WORD = re.compile(r"(?:seed|run)[-_=. ]?(\d{1,10})(?![A-Za-z\d])", re.IGNORECASE)
_SEED_AT_END = re.compile(
    r"(?<!fold)(?:^|[-_. ]+)(?:s|r|rep|trial)?[-_. ]*(\d{1,5})$", re.IGNORECASE
)
_EDGES = "-_. ="


def known_split(text: str) -> str:
    """Train, validation or test by any of their names; another word as it is."""
    return SPLITS.get(text.lower(), text)


@dataclass(frozen=True)
class ResultName:
    """A result by its path and keys; `run` is the model with its seeds and time stamps."""

    model: str
    seed: str = ""
    stamp: str = ""
    split: str = ""
    run: str = ""
    dataset: str = ""


def name_result(inside: str, keys: Sequence[str], base: str) -> ResultName:
    """The name by a path inside the folder `base`, without .json, and by the keys in the file.

    >>> found = name_result("a/mhsa_2023-05-01_12-30-11/mhsa_seed0_test", (), "outputs")
    >>> found.model, found.seed, found.stamp, found.split
    ('a/mhsa/mhsa', '0', '2023-05-01_12-30-11', 'test')
    """
    *folders, stem = inside.split("/")
    words = [match.group() for name in (*folders, stem) for match in _SPLIT.finditer(name)]
    words += [key for key in keys if key.lower() in SPLITS]
    places = [_read_folder(name) for name in folders if name.lower() not in SPLITS]
    plain = _SPLIT.sub("", stem).strip(_EDGES)
    places += [_read_file(plain)] if plain else []
    places += [_Place(key).cut(_SEED_WORD) for key in keys if key.lower() not in SPLITS]
    return _join(places, words[-1] if words else "", base)


@dataclass(frozen=True)
class _Place:
    """One part of a path, and what remains of its name without its seeds and time stamps."""

    text: str
    rest: str | None = None
    seeds: tuple[str, ...] = ()
    stamps: tuple[str, ...] = ()
    is_file: bool = False

    @property
    def name(self) -> str:
        return self.text if self.rest is None else self.rest

    def cut(self, seed: re.Pattern[str]) -> _Place:
        """Without its seeds."""
        found = tuple(seed.findall(self.name))
        return replace(self, rest=_cut(seed, self.name), seeds=found) if found else self

    def cut_stamps(self) -> _Place:
        """Without its time stamps."""
        found = tuple(_STAMP.findall(self.name))
        return replace(self, rest=_cut(_STAMP, self.name), stamps=found) if found else self


def _cut(pattern: re.Pattern[str], name: str) -> str:
    """A name without what matches, and without the separators that this leaves over."""
    parts = (part.strip(_EDGES) for part in pattern.sub("\0", name).split("\0"))
    return "_".join(filter(None, parts))


def _read_folder(text: str) -> _Place:
    """A number at the end is a seed only if it is the whole name, or called seed or run."""
    if _TIME.fullmatch(text):
        return _Place(text, "", stamps=(text,))
    if _SEED_AT_END.match(text):
        return _Place(text).cut(_SEED_AT_END)
    return _Place(text).cut_stamps().cut(_SEED_WORD)


def _read_file(text: str) -> _Place:
    """A number at the end is a seed, too; not the last one of a time stamp."""
    place = _Place(text, is_file=True).cut_stamps().cut(_SEED_WORD)
    place = place if place.seeds or place.stamps else place.cut(_SEED_AT_END)
    return replace(place, rest="") if place.name.lower() in _RESULTS else place


def _join(places: Sequence[_Place], split: str, base: str) -> ResultName:
    """Without time stamps where a seed is known, or where folders have a name beside them.

    The time stamp of a file alone makes it no repetition: it may be a report.
    """
    seeds = "/".join(seed for place in places for seed in place.seeds)
    bare = not any(place.name for place in places)
    kept = [not seeds and bool(one.stamps) and (one.is_file or bare) for one in places]
    names = [one.text if keep else one.name for one, keep in zip(places, kept, strict=True)]
    stamps = [one.stamps for one, keep in zip(places, kept, strict=True) if not keep]
    run = "/".join(place.text for place in places if place.text.lower() not in _RESULTS) or base
    model = "/".join(filter(None, names)) or base
    return ResultName(model, seeds, "/".join(chain(*stamps)), known_split(split), run)


class PathPattern:
    """Which files are read: wild cards, and {model}, {seed}, {split}, {dataset} for what is what.

    It is compared with the end of a path, folder by folder; ** stands for any folders.

    >>> PathPattern("{model}_{seed}/{split}.json").match("out/mhsa_3/test.json")["model"]
    'mhsa'
    """

    _FIELDS = ("model", "seed", "split", "dataset")
    _PARTS = re.compile(r"\*\*/|\*|\?|\{(\w*)\}")

    def __init__(self, text: str) -> None:
        self._seen: set[str] = set()
        made, end = "(?:.*/)?", 0
        for part in self._PARTS.finditer(text):
            made += re.escape(text[end : part.start()]) + self._expression(part, text)
            end = part.end()
        self._compiled = re.compile(made + re.escape(text[end:]))

    def _expression(self, part: re.Match[str], text: str) -> str:
        name = part.group(1)
        if name is None:
            return {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}[part.group()]
        if name not in self._FIELDS:
            raise UsageError(
                f"The pattern {text!r} has {{{name}}}.{did_you_mean(name, self._FIELDS)} Known are "
                f"{', '.join(f'{{{one}}}' for one in self._FIELDS)}."
            )
        if name in self._seen:
            return f"(?P={name})"
        self._seen.add(name)
        return f"(?P<{name}>[^/]+?)"

    def match(self, inside: str) -> dict[str, str] | None:
        """What the fields stand for in a path; None where it does not match."""
        found = self._compiled.fullmatch(inside)
        return None if found is None else found.groupdict()


_CONFIGURATION = re.compile(
    r"(?:config|configuration|hparams|hyperparameters|params|args|settings)\.(?:ya?ml|json|toml|txt)"
)
_STATED_SEED = re.compile(
    r"(?<![\w-])[\"']?(?:seed|random_seed|rng_seed|manual_seed|random_state)[\"']?\s*[:=]\s*"
    r"([^\s,)}\]#]*)",
    re.IGNORECASE,
)


@dataclass
class Configurations:
    """The configuration beside each result, or in the nearest folder above; by text, unparsed."""

    paths: dict[str, str] = field(default_factory=dict)
    _read: dict[str, tuple[str, str]] = field(default_factory=dict)

    def note(self, folder: str, names: Iterable[str]) -> None:
        """Remember the configuration of a folder, or that of the folder above it."""
        own = next((name for name in sorted(names) if _CONFIGURATION.fullmatch(name)), None)
        above = self.paths.get(os.path.dirname(folder), "")
        self.paths[folder] = above if own is None else os.path.join(folder, own)

    def of(self, folder: str) -> tuple[str, str]:
        """The text without seed and time stamps, and the seed it states; empty where there is none.

        A file that cannot be read is like no other one.
        """
        path = self.paths.get(folder, "")
        if path and path not in self._read:
            try:
                text = read_text(path)
            except AssayError:
                text = path
            stated = _STATED_SEED.search(text)
            plain = _STAMP.sub("", _STATED_SEED.sub("", text))
            self._read[path] = plain, stated.group(1).strip("\"'") if stated else ""
        return self._read.get(path, ("", ""))


def tell_models_apart(
    names: Sequence[ResultName], folders: Sequence[str], configurations: Configurations
) -> list[ResultName]:
    """Names under which only runs of one configuration share a model.

    Where the runs of one name have several configurations, each takes the name of its first run.
    """
    kinds: dict[str, dict[str, str]] = {}
    told = [configurations.of(folder) for folder in folders]
    for name, (text, _) in zip(names, told, strict=True):
        kinds.setdefault(name.model, {}).setdefault(text, name.run)
    return [
        replace(
            name,
            model=kinds[name.model][text] if len(kinds[name.model]) > 1 else name.model,
            seed=name.seed or stated or name.stamp,
        )
        for name, (text, stated) in zip(names, told, strict=True)
    ]
