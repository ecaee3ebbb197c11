"""Read a bench from a config file or options."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.bench import plan as plans
from assay.bench.evaluate import run_bench
from assay.bench.filters import Filter, parse_filters, read_fields
from assay.bench.plan import (
    BenchPlan,
    Folds,
    Fusion,
    Model,
    Rerank,
    Retriever,
    split_stages,
    split_systems,
)
from assay.bench.settings import MEASURES, RERANK_SCHEMA, SCHEMA
from assay.bench.spans import SpanJudgments, read_spans
from assay.bench.sweep import Sweep
from assay.bench.systems import allow_system, is_system
from assay.core.specs import Consent
from assay.core.text import parse_number
from assay.errors import UsageError
from assay.io.collections import ANSWER_MEASURES, Collection, find_layout, load_collection
from assay.io.plain_data import check_against, parse_toml, read_config_text
from assay.io.texts import ChunkRule, TextFolder, allow_ir, is_ir
from assay.measures import parse_many
from assay.models.settings import EncoderSettings
from assay.models.specs import allow_model, allow_reranker, check_model, code_settings, find_kind
from assay.search.indexes.base import allow_index, parse_spec

if TYPE_CHECKING:
    from assay.bench.result import BenchResult
    from assay.bench.search import BenchProgress
    from assay.models import EmbeddingCache


Params = Mapping[str, Any]
_PATHS: Final = ("corpus", "queries", "qrels", "answers")


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read and check a bench.toml; paths in it become absolute.

    Args:
        path: The file.

    Returns:
        Its keys and values, for `make_request`.

    Raises:
        UsageError: It is no .toml file, or does not follow the schema.

    Example:
        request = make_request(read_config("bench.toml"))
    """
    name = os.fspath(path)
    if Path(path).suffix.lower() != ".toml":
        advice = "'assay schema bench' prints its schema"
        raise UsageError(f"{name}: not a .toml file. {advice}.")
    data: dict[str, Any] = parse_toml(read_config_text(path), name)
    check_against(data, SCHEMA, name)
    home = Path(path).resolve().parent
    files = {key: data[key] for key in _PATHS if key in data and not is_ir(data[key])}
    data |= {key: str(home / value) for key, value in files.items()}
    for table in (data, *data.get("system", ())):
        run = table.get("spec", "").removeprefix("run:")
        if f"run:{run}" == table.get("spec") and (home / run).exists():
            table["spec"], table["name"] = f"run:{home / run}", table.get("name", f"run:{run}")
        if (home / table.get("doc_of", "?")).is_file():
            table["doc_of"] = str(home / table["doc_of"])
    return data


_ENCODER: Final = tuple(setting.name for setting in fields(EncoderSettings))
_CONFIG: Final = "The config file"
_ASKED: Final = ("concurrency", "timeout", "retries", "failed", "doc_of")
_SHARED: Final = ("metric", "depth", "conventions", "device", "fold", *_ASKED)


@dataclass(frozen=True)
class BenchRequest:
    """Files, models and options, checked as far as they can be before anything is read."""

    corpus: str
    queries: str | None
    qrels: str | None
    split: str
    name: str
    judged: str
    plan: BenchPlan
    measures: tuple[str, ...]
    chunk: ChunkRule | None
    options: Mapping[str, Any] = field(default_factory=dict)
    answers: str | None = None
    extensions: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    sweep: Sweep | None = None
    curves: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def folder(self) -> TextFolder | None:
        """The documents, where they are the texts in a folder."""
        alone = self.queries is None and self.qrels is None
        if not alone and os.path.isdir(self.corpus):
            return TextFolder(self.corpus, self.extensions)
        if self.extensions:
            raise UsageError("extensions require a folder of texts, with queries or judgments.")
        return None

    @cached_property
    def spans(self) -> SpanJudgments | None:
        """The relevant passages, where the judgments have offsets."""
        spans = None if self.qrels is None else read_spans(self.qrels)
        if spans is not None and self.judged == "chunks":
            raise UsageError("judged = chunks and offsets exclude each other. Remove one.")
        return spans

    @property
    def files(self) -> list[str]:
        """Input files; for a folder in BEIR's layout, its three files."""
        answers = [self.answers] if self.answers else []
        if is_ir(self.corpus):
            return answers
        if self.queries is None and self.qrels is None:
            return [*map(str, find_layout(self.corpus, self.split)), *answers]
        return [*(path for path in (self.corpus, self.queries, self.qrels) if path), *answers]

    @property
    def usual_measures(self) -> tuple[str, ...]:
        """Measures where none is named: those of DPR where answers alone judge."""
        by_answers = self.answers and self.qrels is None and self.queries is not None
        return ANSWER_MEASURES if by_answers else MEASURES

    def load(self) -> Collection:
        """Read the collection."""
        how: Any = {"split": self.split, "name": self.name, "answers": self.answers}
        how["chunks"] = self.chunk if self.judged == "chunks" else None
        qrels = self.qrels if self.spans is None else self.spans.pairs()
        return load_collection(self.folder or self.corpus, self.queries, qrels, **how)

    def _read_fields(self, filters: Sequence[Filter]) -> dict[str, Any]:
        """Read the columns of the filters from the files of queries and documents."""
        if is_ir(self.corpus) or self.folder is not None or (self.qrels and not self.queries):
            raise UsageError("A filter needs its columns in documents and queries. Add them.")
        corpus, queries = self.files[:2]
        return {
            "query_fields": read_fields(queries, [rule.query for rule in filters], "query"),
            "doc_fields": read_fields(corpus, [rule.doc for rule in filters], "doc"),
        }

    def run(
        self,
        collection: Collection,
        *,
        cache: EmbeddingCache | None = None,
        threads: int | None = None,
        progress: BenchProgress | None = None,
        **changes: Any,
    ) -> BenchResult:
        """Run it on the collection; with a cache, an interrupted bench resumes."""
        filters = parse_filters(self.filters)
        if filters:
            changes |= {"filters": self.filters, **self._read_fields(filters)}
        if self.sweep is not None:
            self.sweep.check(len(collection.query_ids))
        result = run_bench(
            collection,
            self.plan.models,
            systems=self.plan.systems,
            fusions=self.plan.fusions,
            indexes=self.plan.indexes,
            reranks=self.plan.reranks,
            measures=self.measures or self.usual_measures,
            chunk=None if self.judged == "chunks" else self.chunk,
            spans=self.spans,
            cache=cache,
            checkpoint=None if cache is None else cache.folder,
            threads=threads,
            progress=progress,
            **{**self.options, **changes},
        )
        return replace(result, chunk=self.chunk, judged=self.judged, folder=self.folder)


def make_request(
    config: Mapping[str, Any],
    *,
    allow_code: bool = False,
    allow_endpoints: Iterable[str] = (),
    **overrides: Any,
) -> BenchRequest:
    """Make a request of a config file and the options that override it.

    Options are your own; what the config names runs code or reaches an endpoint only if that is
    allowed.

    Args:
        config: What `read_config` returns, or {}.
        allow_code: Whether models of the config may run code.
        allow_endpoints: Endpoints that models of the config may reach.
        **overrides: Options; None does not override. Settings of encoders hold for all models that
            have vectors.

    Returns:
        The request, which loads its collection and runs.

    Raises:
        UsageError: Documents or models are not named, or something does not apply.

    Example:
        request = make_request(read_config("bench.toml"), depth=100)
        result = request.run(request.load())
    """
    consent = Consent.of(allow_code, allow_endpoints)
    said = {key: value for key, value in overrides.items() if value not in (None, ())}
    if "model" in said:
        specs, foreign = split_systems(said["model"])
        said["model"], stages = split_stages(specs)
        said |= {"rerank": (*stages, *said.get("rerank", ()))} if stages else {}
        said |= {"system": (*foreign, *said.get("system", ()))} if foreign else {}
    config = _with_stages(config)
    both = {**config, **said}
    if not both.get("corpus"):
        raise UsageError("No documents. Pass --corpus or a config file.")
    if "corpus" not in said:
        allow_ir(both["corpus"], consent, _CONFIG)
    models = _models(config, said, consent)
    fused = said["fusion"] if "fusion" in said else map(_fusion, config.get("fusion", ()))
    fusions = plans.parse_systems(Fusion, fused)
    allow = partial(_rerank, consent=consent)
    staged = said["rerank"] if "rerank" in said else map(allow, config.get("rerank", ()))
    reranks = plans.parse_systems(Rerank, staged)
    admit = partial(_system, consent=consent)
    outside = said["system"] if "system" in said else map(admit, config.get("system", ()))
    systems = plans.parse_systems(Retriever, outside)
    if not systems and (odd := [key for key in _ASKED if key in both]):
        raise UsageError(f"{odd[0]} requires a system. Add one.")
    plan = BenchPlan.of(models, fusions, both.get("index", ()), reranks, systems)
    plan = plan.with_prices(_prices(said.get("price", ())))
    sweep = Sweep.parse(both["sweep"]) if "sweep" in both else None
    plan, curves = (plan, {}) if sweep is None else sweep.expand(plan)
    chunk, judged = both.get("chunk"), both.get("judged", "documents")
    cut = [model for model in plan.models if model.chunk is not None]
    if cut and judged == "chunks":
        raise UsageError(
            f"The model {cut[0].name!r} cuts documents, judgments name chunks. Omit @."
        )
    folds = (
        "fold" in both
        and not cut
        and "doc_of" not in both
        and all("doc_of" not in system.settings for system in systems)
    )
    if chunk is None and (judged == "chunks" or folds):
        what = "fold" if folds else "judged = chunks"
        raise UsageError(f"{what} needs chunks. Set chunk.")
    for index in plan.indexes:
        parse_spec(index)
        if "index" not in said:
            allow_index(index, consent, _CONFIG)
    measures = parse_many(both["measures"]) if both.get("measures") else ()
    return BenchRequest(
        both["corpus"],
        both.get("queries"),
        both.get("qrels"),
        both.get("split", "test"),
        both.get("name", ""),
        judged,
        plan,
        tuple(map(str, measures)),
        None if chunk is None else ChunkRule.parse(chunk),
        {key: both[key] for key in _SHARED if key in both},
        both.get("answers"),
        tuple(both.get("extensions", ())),
        tuple(both.get("filter", ())),
        sweep,
        curves,
    )


def _with_stages(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config whose models of two stages, rerank:A>RERANKER, stand among its rerankers."""
    models, stages = [], []
    for entry in config.get("model", ()):
        if split_stages([entry["spec"]])[1]:
            two = Rerank.parse(entry["spec"])
            depth = {} if two.depth is None else {"depth": two.depth, "count": two.count}
            stages.append({**entry, "of": two.first, "spec": two.reranker, **depth})
        else:
            models.append(entry)
    if not stages:
        return {**config}
    for entry in stages:
        check_against(entry, RERANK_SCHEMA, f"{_CONFIG}: model {entry['of']}>{entry['spec']}")
    return {**config, "model": models, "rerank": [*stages, *config.get("rerank", ())]}


def _prices(texts: Iterable[str]) -> dict[str, float]:
    """Return NAME=AMOUNT by name; a name may hold an equals sign, an amount does not."""
    prices = {}
    for text in texts:
        name, _, amount = text.rpartition("=")
        number = parse_number(amount)
        if not name or number is None or number < 0:
            form = "NAME=AMOUNT, of a million tokens"
            raise UsageError(f"Cannot read the price {text!r:.60}. Write {form}.")
        prices[name] = number
    return prices


def _models(config: Params, said: Params, consent: Consent) -> tuple[Model, ...]:
    shared = {key: said[key] for key in _ENCODER if key in said}
    entries = (_model(entry) for entry in config.get("model", ()))
    models = plans.parse_systems(Model, said["model"] if "model" in said else list(entries))
    for model in models:
        find_kind(model.spec)
    if shared and models and all(model.is_lexical for model in models):
        raise UsageError(f"All models are lexical. Omit {next(iter(shared))!r}.")
    # A typed endpoint replaces that of a config, together with the key that it names.
    gone = ("base_url", "key_env") if "base_url" in shared else ()
    allowed = []
    for model in models:
        settings = dict(model.settings)
        if "model" not in said:
            settings = {key: value for key, value in settings.items() if key not in gone}
            settings = allow_model(model.spec, settings, consent, _CONFIG)
        more = {} if model.is_lexical else shared
        allowed.append(replace(model, settings={**settings, **more}))
    return tuple(allowed)


def _model(entry: Mapping[str, Any]) -> Model:
    spec = entry["spec"]
    if is_system(spec):
        raise UsageError(f"{spec!r} is a system, not a model. Move it to [[system]].")
    settings = {key: entry[key] for key in _ENCODER if key in entry}
    lexical = dict(entry.get("settings", {}))
    parsed = Model.parse(spec)
    model = Model(
        entry.get("name", spec),
        parsed.spec,
        {**settings, **lexical},
        entry.get("metric"),
        entry.get("codes", parsed.codes),
        entry.get("price"),
        ChunkRule.parse(entry["chunk"]) if "chunk" in entry else parsed.chunk,
    )
    odd = settings if model.is_lexical else lexical
    if odd:
        words = "is lexical" if model.is_lexical else "is not a lexical model"
        key = next(iter(odd))
        raise UsageError(f"The model {model.name!r} {words}. Omit {key!r}.")
    return model


def _fusion(entry: Mapping[str, Any]) -> Fusion:
    method = entry.get("method", "rrf")
    return Fusion(
        entry.get("name") or ("tuned " * ("tune" in entry)) + f"{method}({'+'.join(entry['of'])})",
        tuple(entry["of"]),
        method,
        entry.get("normalize", "minmax"),
        tuple(map(float, entry["weights"])) if "weights" in entry else None,
        entry.get("rrf_k", 60),
        Folds(entry["tune"], entry.get("seed", 0)) if "tune" in entry else None,
    )


def _rerank(entry: Mapping[str, Any], consent: Consent) -> Rerank:
    """Return two stages of a config, whose reranker needs the consent that a model needs."""
    settings = {key: entry[key] for key in _ENCODER if key in entry}
    name = entry.get("name") or f"{entry['of']}>{entry['spec']}"
    more = {key: entry[key] for key in ("depth", "price", "count") if key in entry}
    stages = Rerank(name, entry["of"], entry["spec"], settings=settings, **more)
    allow_reranker(stages.reranker, settings, consent, _CONFIG)
    return stages


def _system(entry: Mapping[str, Any], consent: Consent) -> Retriever:
    """Return a system of a config; what runs code or reaches a host needs consent."""
    spec = entry["spec"]
    settings = {key: value for key, value in entry.items() if key not in ("name", "spec")}
    allow_system(spec, settings, consent, _CONFIG)
    return Retriever(entry.get("name", spec), spec, settings)


def allow_systems(specs: list[str], params: Params, consent: Consent, place: str) -> None:
    """Refuse systems of a stored command without consent."""
    for spec in specs:
        allow_system(Retriever.parse(spec).spec, {}, consent, place)


def allow_models(specs: list[str], params: Mapping[str, Any], consent: Consent, place: str) -> None:
    """Refuse models, with or without a second stage, without consent."""
    models, systems = split_systems(specs)
    allow_systems(systems, params, consent, place)
    models, stages = split_stages(models)
    for spec in models:
        check_model(Model.parse(spec).spec, params, consent, place)
    allow_reranks(list(stages), params, consent, place)


def allow_reranks(specs: list[str], params: Params, consent: Consent, place: str) -> None:
    """Refuse rerankers without consent."""
    for spec in specs:
        allow_reranker(Rerank.parse(spec).reranker, code_settings(params), consent, place)


def allow_indexes(specs: list[str], params: Params, consent: Consent, place: str) -> None:
    """Refuse index engines without consent."""
    for spec in specs:
        allow_index(spec, consent, place)
