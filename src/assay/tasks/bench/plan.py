"""What a bench runs: models, fusions of them, and the choices that all of them share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from assay.core.text import did_you_mean
from assay.errors import UsageError
from assay.search.indexes.specs import without_secrets

__all__ = ["Fusion", "Model", "as_fusions", "as_models", "check_names", "indexed_name"]

_NAME: Final = re.compile(r"([\w.-]+)=(.+)", re.S)
_WEIGHTED: Final = re.compile(r"(?:(\d+(?:\.\d+)?)\*)?(.+)")
METHODS: Final = ("rrf", "combsum", "combmnz")
NORMALIZATIONS: Final = ("minmax", "zscore")


@dataclass(frozen=True)
class Model:
    """One model under a name; `settings` are those of its adapter: prefixes, lengths, k1, …

    >>> Model.parse("mini=st:all-MiniLM-L6-v2")
    Model(name='mini', spec='st:all-MiniLM-L6-v2', settings={})
    """

    name: str
    spec: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, settings: Mapping[str, Any] | None = None) -> Model:
        """From SPEC or NAME=SPEC."""
        name, spec = _named(text)
        return cls(name or spec, spec, dict(settings or {}))


@dataclass(frozen=True)
class Fusion:
    """Several models' rankings made into one.

    >>> Fusion.parse("hybrid=combsum/zscore:0.3*bm25+0.7*mini")
    Fusion(name='hybrid', members=('bm25', 'mini'), method='combsum', normalize='zscore',
        weights=(0.3, 0.7), rrf_k=60)
    """

    name: str
    members: tuple[str, ...]
    method: str = "rrf"
    normalize: str = "minmax"
    weights: tuple[float, ...] | None = None
    rrf_k: int = 60

    def __post_init__(self) -> None:
        """Refuse what no fusion can be."""
        if self.method not in METHODS or self.normalize not in NORMALIZATIONS:
            raise UsageError(
                f"The fusion {self.name!r} is by {self.method!r} with {self.normalize!r}. Methods: "
                f"{', '.join(METHODS)}; normalisations: {', '.join(NORMALIZATIONS)}."
            )
        if len(self.members) < 2 or len(set(self.members)) < len(self.members):
            raise UsageError(
                f"The fusion {self.name!r} is of {', '.join(self.members) or 'nothing'}; it takes "
                "two different models or more."
            )
        if self.weights is not None and len(self.weights) != len(self.members):
            raise UsageError(
                f"The fusion {self.name!r} has {len(self.members)} models and "
                f"{len(self.weights)} weights."
            )

    @classmethod
    def parse(cls, text: str) -> Fusion:
        """From [NAME=]METHOD[/NORMALIZATION]:[W*]A+[W*]B."""
        name, rest = _named(text)
        how, colon, members = rest.partition(":")
        if not colon:
            raise UsageError(
                f"A fusion is written METHOD:A+B, such as rrf:bm25+wordllama or "
                f"combsum/zscore:0.3*bm25+0.7*mini; found {text!r}."
            )
        method, _, normalize = how.partition("/")
        parts = [_WEIGHTED.fullmatch(part.strip()) for part in members.split("+")]
        found = [(one.group(1), one.group(2)) for one in parts if one is not None]
        weighted = any(weight for weight, _ in found)
        weights = tuple(float(weight or 1) for weight, _ in found) if weighted else None
        label = name or f"{how}({'+'.join(part.strip() for part in members.split('+'))})"
        of = tuple(member for _, member in found)
        return cls(label, of, method, normalize or "minmax", weights)


def _named(text: str) -> tuple[str, str]:
    """NAME=REST in two; a name holds no colon, so that `py:a=b` is none."""
    if not isinstance(text, str) or not text.strip():
        raise UsageError(
            f"Expected a text such as 'wordllama' or 'NAME=wordllama', found {text!r}."
        )
    found = _NAME.fullmatch(text.strip())
    return (found.group(1), found.group(2)) if found else ("", text.strip())


def indexed_name(name: str, index: str) -> str:
    """What a model behind an index is called; a password in an address is not shown.

    >>> indexed_name("mini", "usearch")
    'mini @ usearch'
    """
    return f"{name} @ {without_secrets(index)}"


def as_models(models: Iterable[str | Model]) -> tuple[Model, ...]:
    """Models from specs; two of one name get numbers."""
    if isinstance(models, str | Model):
        models = [models]
    found = tuple(one if isinstance(one, Model) else Model.parse(one) for one in models)
    if not found:
        raise UsageError("There is no model. Name at least one (on the command line --model).")
    return found


def as_fusions(fusions: Iterable[str | Fusion]) -> tuple[Fusion, ...]:
    """Fusions from texts."""
    if isinstance(fusions, str | Fusion):
        fusions = [fusions]
    return tuple(one if isinstance(one, Fusion) else Fusion.parse(one) for one in fusions)


def check_names(models: Sequence[Model], fusions: Sequence[Fusion]) -> None:
    """Refuse two contestants of one name, and fusions of models that are not there."""
    names = [one.name for one in models] + [one.name for one in fusions]
    twice = [name for name, number in Counter(names).items() if number > 1]
    if twice:
        raise UsageError(
            f"Two contestants are called {twice[0]!r}. Give one another name: NAME={twice[0]}."
        )
    known = [one.name for one in models]
    for fusion in fusions:
        for member in fusion.members:
            if member not in known:
                raise UsageError(
                    f"The fusion {fusion.name!r} is of {member!r}, which is none of the models."
                    + did_you_mean(member, known, fallback=len(known))
                )
