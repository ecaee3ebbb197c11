"""What a bench runs: models, models behind an index, and fusions of models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from assay.core.text import did_you_mean, mask_secrets
from assay.errors import UsageError
from assay.models.specs import is_lexical

__all__ = ["BenchPlan", "Fusion", "Model", "as_fusions", "as_models", "indexed_name"]

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
        name, spec = _split_name(text)
        return cls(name or spec, spec, dict(settings or {}))

    @property
    def is_lexical(self) -> bool:
        """Whether it is fitted to the documents and searches by words."""
        return is_lexical(self.spec)


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
                f"The fusion {self.name!r} has the method {self.method!r} and the normalisation "
                f"{self.normalize!r}. Methods: "
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
        name, rest = _split_name(text)
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

    @property
    def spec(self) -> str:
        """Method, normalisation and members with their weights.

        >>> Fusion.parse("hybrid=combsum:0.3*bm25+mini").spec
        'combsum/minmax:0.3*bm25+1*mini'
        """
        weights = self.weights or (None,) * len(self.members)
        parts = [
            name if weight is None else f"{weight:g}*{name}"
            for name, weight in zip(self.members, weights, strict=True)
        ]
        how = self.method if self.method == "rrf" else f"{self.method}/{self.normalize}"
        return f"{how}:{'+'.join(parts)}"


def _split_name(text: str) -> tuple[str, str]:
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
    return f"{name} @ {mask_secrets(index)}"


def as_models(models: Iterable[str | Model]) -> tuple[Model, ...]:
    """Models from specs, at least one."""
    if isinstance(models, str | Model):
        models = [models]
    found = tuple(one if isinstance(one, Model) else Model.parse(one) for one in models)
    if not found:
        raise UsageError("No model given. Name at least one (on the command line --model).")
    return found


def as_fusions(fusions: Iterable[str | Fusion]) -> tuple[Fusion, ...]:
    """Fusions from texts."""
    if isinstance(fusions, str | Fusion):
        fusions = [fusions]
    return tuple(one if isinstance(one, Fusion) else Fusion.parse(one) for one in fusions)


@dataclass(frozen=True)
class BenchPlan:
    """The systems of a bench; no two have one name, and fusions are of models that are there."""

    models: tuple[Model, ...]
    fusions: tuple[Fusion, ...] = ()
    indexes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        models: Iterable[str | Model],
        fusions: Iterable[str | Fusion] = (),
        indexes: Iterable[str] = (),
    ) -> BenchPlan:
        """From models and fusions or their specs; an index that is named twice is taken once."""
        return cls(as_models(models), as_fusions(fusions), tuple(dict.fromkeys(indexes)))

    def __post_init__(self) -> None:
        """Refuse names that do not tell systems apart, and fusions of unknown models."""
        names = [*(one.name for one in self.models), *(one.name for one in self.fusions)]
        twice = [name for name, number in Counter(names).items() if number > 1]
        if twice:
            raise UsageError(
                f"Two systems are called {twice[0]!r}. Give one another name: NAME={twice[0]}."
            )
        for fusion in self.fusions:
            self._check_members(fusion)

    def _check_members(self, fusion: Fusion) -> None:
        known = [one.name for one in self.models]
        for member in fusion.members:
            if member not in known:
                raise UsageError(
                    f"The fusion {fusion.name!r} is of {member!r}, which is none of the models."
                    + did_you_mean(member, known, fallback=len(known))
                )

    @property
    def rivals(self) -> list[str]:
        """Names of the models and fusions, which are compared with each other."""
        return [*(one.name for one in self.models), *(one.name for one in self.fusions)]

    @property
    def names(self) -> list[str]:
        """Names of the systems; those behind an index exist only for models with vectors."""
        indexed = [indexed_name(one.name, index) for one in self.models for index in self.indexes]
        return [*(one.name for one in self.models), *indexed, *(one.name for one in self.fusions)]

    @property
    def encodes(self) -> bool:
        """Whether some model encodes texts; lexical ones and ready vectors do not."""
        return any(not (one.is_lexical or one.spec.startswith("npy:")) for one in self.models)
