"""A bench as it is asked for, by a config file or by options: what to load and what to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from assay.chunking import ChunkRule
from assay.errors import UsageError
from assay.indexes.specs import parse_spec
from assay.io.beir import find_layout
from assay.io.collections import Collection, load_collection
from assay.measures import parse_many
from assay.tasks.bench_plan import (
    Fusion,
    Model,
    as_fusions,
    as_models,
    check_names,
    indexed_name,
)

if TYPE_CHECKING:
    from assay.encoders import EmbeddingCache
    from assay.tasks.bench_result import BenchResult
    from assay.tasks.bench_search import Watch

__all__ = ["BenchRequest", "request_of"]

_ENCODER: Final = (
    "query_prefix", "doc_prefix", "max_length", "normalize", "dimensions", "base_url",
)  # fmt: skip
_SHARED: Final = ("metric", "depth", "conventions", "device", "fold")


@dataclass(frozen=True)
class BenchRequest:
    """Files, models and choices, checked as far as they can be before anything is read."""

    corpus: str
    queries: str | None
    qrels: str | None
    split: str
    name: str
    judged: str
    models: tuple[Model, ...]
    fusions: tuple[Fusion, ...]
    indexes: tuple[str, ...]
    measures: tuple[str, ...]
    chunk: ChunkRule | None
    choices: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> list[str]:
        """What is read; of a folder in BEIR's layout, the three files."""
        if self.queries is None and self.qrels is None:
            return list(map(str, find_layout(self.corpus, self.split)))
        return [path for path in (self.corpus, self.queries, self.qrels) if path]

    @property
    def names(self) -> list[str]:
        """What the contestants will be called; those behind an index only if they have vectors."""
        indexed = [indexed_name(one.name, index) for one in self.models for index in self.indexes]
        return [*(one.name for one in self.models), *indexed, *(one.name for one in self.fusions)]

    @property
    def encodes(self) -> bool:
        """Whether some model makes vectors of texts; lexical ones and those of files do not."""
        return any(not (_is_lexical(one) or one.spec.startswith("npy:")) for one in self.models)

    def load(self) -> Collection:
        """Read the collection."""
        return load_collection(
            self.corpus, self.queries, self.qrels, split=self.split, name=self.name,
            chunks=self.chunk if self.judged == "chunks" else None,
        )  # fmt: skip

    def run(
        self,
        collection: Collection,
        *,
        cache: EmbeddingCache | None = None,
        threads: int | None = None,
        watch: Watch | None = None,
        **changes: Any,
    ) -> BenchResult:
        """Run it on the collection; with a cache, what was interrupted goes on."""
        from assay.tasks.bench import MEASURES, run_bench

        result = run_bench(
            collection,
            self.models,
            fusions=self.fusions,
            indexes=self.indexes,
            measures=self.measures or MEASURES,
            chunk=None if self.judged == "chunks" else self.chunk,
            cache=cache,
            parts=None if cache is None else cache.folder,
            threads=threads,
            watch=watch,
            **{**self.choices, **changes},
        )
        return replace(result, chunk=self.chunk, judged=self.judged)


def request_of(config: Mapping[str, Any], **given: Any) -> BenchRequest:
    """What a config file says, and options say otherwise; options that are None say nothing.

    Settings of encoders that come as options hold for all models that have vectors.
    """
    said = {key: value for key, value in given.items() if value not in (None, ())}
    both = {**config, **said}
    if not both.get("corpus"):
        raise UsageError("There are no documents: name them with --corpus, or in a config file.")
    models = _models(config, said)
    fusions = (
        as_fusions(said["fusion"]) if "fusion" in said
        else tuple(_fusion(one) for one in config.get("fusion", ()))
    )  # fmt: skip
    check_names(models, fusions)
    chunk = both.get("chunk")
    judged = both.get("judged", "documents")
    if chunk is None and (judged == "chunks" or "fold" in both):
        what = "fold" if "fold" in both else "judged = chunks"
        raise UsageError(f"{what} goes with chunks: say how documents are cut, with chunk.")
    for index in both.get("index", ()):
        parse_spec(index)
    measures = parse_many(both["measures"]) if both.get("measures") else ()
    return BenchRequest(
        both["corpus"], both.get("queries"), both.get("qrels"), both.get("split", "test"),
        both.get("name", ""), judged, models, fusions, tuple(dict.fromkeys(both.get("index", ()))),
        tuple(map(str, measures)), None if chunk is None else ChunkRule.parse(chunk),
        {key: both[key] for key in _SHARED if key in both},
    )  # fmt: skip


def _models(config: Mapping[str, Any], said: Mapping[str, Any]) -> tuple[Model, ...]:
    shared = {key: said[key] for key in _ENCODER if key in said}
    if "model" in said:
        models = as_models(said["model"])
    else:
        models = as_models([_model(one) for one in config.get("model", ())])
    for model in models:
        _check_kind(model)
    return tuple(
        one if _is_lexical(one) else Model(one.name, one.spec, {**one.settings, **shared})
        for one in models
    )


def _model(entry: Mapping[str, Any]) -> Model:
    spec = entry["spec"]
    settings = {key: entry[key] for key in _ENCODER if key in entry}
    own = dict(entry.get("settings", {}))
    model = Model(entry.get("name", spec), spec, {**settings, **own})
    odd = settings if _is_lexical(model) else own
    if odd:
        words = "has no vectors, so that" if odd is settings else "is no lexical model, so that"
        raise UsageError(f"The model {model.name!r} {words} {next(iter(odd))!r} does not apply.")
    return model


def _fusion(entry: Mapping[str, Any]) -> Fusion:
    method = entry.get("method", "rrf")
    return Fusion(
        entry.get("name") or f"{method}({'+'.join(entry['of'])})",
        tuple(entry["of"]),
        method,
        entry.get("normalize", "minmax"),
        tuple(map(float, entry["weights"])) if "weights" in entry else None,
        entry.get("rrf_k", 60),
    )


def _is_lexical(model: Model) -> bool:
    from assay.lexical.specs import is_lexical

    return is_lexical(model.spec)


def _check_kind(model: Model) -> None:
    """Refuse a spec that no adapter knows, before anything is read."""
    from assay.encoders.specs import KINDS as ENCODERS
    from assay.lexical.specs import KINDS as LEXICAL

    kind = model.spec.partition(":")[0]
    known: Sequence[str] = [*LEXICAL, *ENCODERS]
    if kind in known or model.spec.endswith((".pt", ".pth", ".safetensors")):
        return
    forms = [form for _, form in (*LEXICAL.values(), *ENCODERS.values())]
    near = get_close_matches(kind, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UsageError(f"Unknown model {model.spec!r}.{hint} A model is one of: {', '.join(forms)}.")
