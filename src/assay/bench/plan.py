"""What a bench runs, and on what: models, those behind an index, fusions of models, and reranked
ones; a collection without empty or unjudged queries and documents, in tie order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints
from assay.bench.filters import AllowedDocs
from assay.bench.settings import METHODS, METRICS, NORMALIZATIONS, SCORE_DIRECTIONS, Metric
from assay.bench.systems import check_system, is_system
from assay.codes.settings import HELD_OUT
from assay.core.checks import check_choice
from assay.core.conventions import Conventions, as_settings
from assay.core.ids import Ids
from assay.core.on_demand import OnDemand
from assay.core.text import did_you_mean, mask_secrets
from assay.errors import InputError, UsageError
from assay.io.collections import Collection
from assay.io.fingerprints import digest_of_arrays
from assay.io.texts import UNITS, ChunkRule, chunk_docs
from assay.models.rerankers import check_reranker
from assay.models.specs import find_kind, is_lexical, lexical_model
from assay.models.token_codes import is_pooled, parse_code

if TYPE_CHECKING:
    from assay.codes import encoders
    from assay.codes.encoders import FittedCode
else:
    encoders = OnDemand("assay.codes.encoders")


_NAME: Final = re.compile(r"([\w.-]+)=(.+)", re.S)
_RERANK: Final = re.compile(r"(?:rerank(?:/([1-9][0-9]{0,8})(chunks)?)?:)?([^>]+)>(.+)", re.S)
_CODES: Final = re.compile(r"(.+)[?&]codes=([\w:+]+(?:&train=[0-9]*\.?[0-9]+)?)", re.S)
_CHUNKING: Final = re.compile(r"(.+)@([^@/\\]*)", re.S)
_LIKE_CHUNKING: Final = re.compile(rf"(?:{'|'.join(UNITS)})\b.*|[A-Za-z]+(?::-?[0-9]+)+", re.S)
_TUNE: Final = re.compile(r"(.+)\?tune(?:=([1-9][0-9]{0,3}))?(?:&seed=([0-9]{1,9}))?", re.S)
_WEIGHTED: Final = re.compile(r"(?:(\d+(?:\.\d+)?)\*)?(.+)")
Rule = ChunkRule | None
S = TypeVar("S", "Model", "Fusion", "Rerank", "Retriever")


@dataclass(frozen=True)
class Model:
    """One model under a name; `settings` are those of its adapter: prefixes, lengths, k1, …

    `metric` is that of its vectors, where it is not the one of the bench. `codes` is what becomes
    of its vectors before they are searched: `int8`, `binary` or another code. `price` is that of a
    million tokens, and `chunk` the rule by which documents are cut, if not that of the bench.

    >>> Model.parse("mini=st:all-MiniLM-L6-v2?codes=int8").codes
    'int8'
    >>> Model.parse("bm25@sentences:5:1").chunk
    ChunkRule(unit='sentences', size=5, overlap=1)
    """

    name: str
    spec: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    metric: Metric | None = None
    codes: str | None = None
    price: float | None = None
    chunk: ChunkRule | None = None

    def __post_init__(self) -> None:
        """Reject an unknown or inapplicable metric or code."""
        named = f"The model {self.name!r}"
        if self.metric not in (None, *METRICS):
            metrics = ", ".join(METRICS)
            raise UsageError(f"{named} has unknown metric {self.metric!r}. Known: {metrics}.")
        if self.is_lexical:
            lexical_model(self.spec, **self.settings)
            if self.metric is not None:
                raise UsageError(f"{named} is lexical. Omit its metric.")
        if self.codes is not None:
            check_code(self.codes)
            if self.is_lexical and not self.spec.startswith("lsa"):
                raise UsageError(f"{named} has no vectors. Omit its codes.")

    @classmethod
    def parse(cls, text: str, settings: Mapping[str, Any] | None = None) -> Model:
        """Parse SPEC or NAME=SPEC; @UNIT:SIZE[:OVERLAP] and ?codes=CODE may follow."""
        name, spec = _split_name(text)
        coded = _CODES.fullmatch(spec)
        base, codes = coded.groups() if coded else (spec, None)
        base, chunk = split_chunking(base)
        return cls(name or spec, base, dict(settings or {}), codes=codes, chunk=chunk)

    @property
    def system(self) -> str:
        """The spec, the rule that cuts documents for it, and the code of its vectors."""
        cut = "" if self.chunk is None else f"@{self.chunk}"
        return f"{self.spec}{cut}" + ("" if self.codes is None else f"?codes={self.codes}")

    @property
    def is_lexical(self) -> bool:
        """Whether it is fitted to the documents and searches by words."""
        return is_lexical(self.spec)


def split_chunking(spec: str) -> tuple[str, ChunkRule | None]:
    """Split SPEC@UNIT:SIZE[:OVERLAP]; another '@', as in a path, is part of the spec.

    >>> split_chunking("bm25@tokens:200:50")
    ('bm25', ChunkRule(unit='tokens', size=200, overlap=50))
    """
    match = _CHUNKING.fullmatch(spec)
    if match is None or not (is_lexical(match[1]) or _LIKE_CHUNKING.fullmatch(match[2])):
        return spec, None
    return match[1], ChunkRule.parse(match[2])


@dataclass(frozen=True)
class Retriever:
    """A search system that is asked query by query, or a run that it wrote before.

    `spec` names it (`run:FILE`, `retrieve:MODULE:FUNCTION`), or `target` is the function, the
    retriever object or the run itself. `settings` say how its answers are read: `id`, the path of
    the id in a hit; `scores`, which are "high" or "low" where they are best, or count by their
    "order" alone; `doc_of`, which names the document of each returned id. `fingerprint` tells all
    that the answers of a `target` depend on; without it an interrupted bench asks again.

    >>> Retriever.parse("old=run:last-night.run").name
    'old'
    """

    name: str
    spec: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    target: Any = None
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        """Refuse a spec that names no system, and scores of another kind."""
        check_choice(self.settings.get("scores", "high"), SCORE_DIRECTIONS, "scores")
        if self.target is None:
            check_system(self.spec, self.settings)

    @classmethod
    def parse(cls, text: Any) -> Retriever:
        """Parse SPEC or NAME=SPEC, or take a function, an object or a run."""
        if isinstance(text, str):
            name, spec = _split_name(text)
            return cls(name or spec, spec)
        name = str(getattr(text, "__name__", type(text).__name__))
        return cls(name, f"python:{name}", target=text, fingerprint=_fingerprint_of(text))


def _fingerprint_of(target: Any) -> str | None:
    mark = getattr(target, "fingerprint", None)
    return mark if isinstance(mark, str) else None


class Folds(NamedTuple):
    """Number of cross-validation folds, and their seed."""

    number: int = 5
    seed: int = 0


@dataclass(frozen=True)
class Fusion:
    """Several models' rankings made into one; with `tune`, weights are cross-validated in folds.

    >>> Fusion.parse("hybrid=combsum/zscore:0.3*bm25+0.7*mini").weights
    (0.3, 0.7)
    >>> Fusion.parse("combsum:bm25+mini?tune=10&seed=7").tune
    Folds(number=10, seed=7)
    """

    name: str
    members: tuple[str, ...]
    method: str = "rrf"
    normalize: str = "minmax"
    weights: tuple[float, ...] | None = None
    rrf_k: int = 60
    tune: Folds | None = None

    def __post_init__(self) -> None:
        """Reject invalid fusions."""
        named = f"The fusion {self.name!r}"
        if self.tune is not None and self.weights is not None:
            raise UsageError(f"{named} has weights and tune. Keep one of them.")
        if self.method not in METHODS or self.normalize not in NORMALIZATIONS:
            raise UsageError(
                f"{named} has method {self.method!r}, normalisation {self.normalize!r}. "
                f"Methods: {', '.join(METHODS)}; normalisations: {', '.join(NORMALIZATIONS)}."
            )
        number, members = len(self.members), ", ".join(self.members) or "nothing"
        if number < 2 or len(set(self.members)) < number:
            raise UsageError(f"{named} is of {members}. Name two different models or more.")
        if self.weights is not None and len(self.weights) != number:
            raise UsageError(f"{named} has {len(self.weights)} weights. Pass {number}.")

    @classmethod
    def parse(cls, text: str) -> Fusion:
        """Parse [NAME=]METHOD[/NORMALIZATION]:[W*]A+[W*]B or METHOD:A+B?tune[=FOLDS][&seed=N]."""
        name, spec = _split_name(text)
        tuned = _TUNE.fullmatch(spec)
        rest = tuned[1] if tuned else spec
        folds = Folds(int(tuned[2] or 5), int(tuned[3] or 0)) if tuned else None
        how, colon, members = rest.partition(":")
        if not colon:
            raise UsageError(
                f"Cannot read the fusion {text!r}. Write METHOD:A+B, such as "
                "rrf:bm25+wordllama or combsum/zscore:0.3*bm25+0.7*mini."
            )
        method, _, normalize = how.partition("/")
        parts = [_WEIGHTED.fullmatch(part.strip()) for part in members.split("+")]
        weighted_names = [(match.group(1), match.group(2)) for match in parts if match is not None]
        weighted = any(weight for weight, _ in weighted_names)
        weights = tuple(float(weight or 1) for weight, _ in weighted_names) if weighted else None
        label = f"{how}({'+'.join(part.strip() for part in members.split('+'))})"
        label = name or (f"tuned {label}" if tuned else label)
        of = tuple(member for _, member in weighted_names)
        return cls(label, of, method, normalize or "minmax", weights, tune=folds)

    @property
    def spec(self) -> str:
        """Method, normalisation and members with their weights.

        >>> Fusion.parse("hybrid=combsum:0.3*bm25+mini").spec
        'combsum/minmax:0.3*bm25+1*mini'
        """
        weights = self.weights or (None,) * len(self.members)
        weighted = zip(self.members, weights, strict=True)
        parts = [name if weight is None else f"{weight:g}*{name}" for name, weight in weighted]
        how = self.method if self.method == "rrf" else f"{self.method}/{self.normalize}"
        tuned = "" if self.tune is None else f"?tune={self.tune.number}&seed={self.tune.seed}"
        return f"{how}:{'+'.join(parts)}{tuned}"


@dataclass(frozen=True)
class Rerank:
    """Two stages: what `first`, a model or fusion, retrieves is put in order by a reranker.

    `depth` is how many documents of each query: None stands for 100, or all if there are fewer. All
    chunks of these are scored, or with `count` "chunks" the first `depth` chunks, whatever document
    they belong to.

    >>> Rerank.parse("two=rerank/50:bm25>st:cross-encoder/ms-marco-MiniLM-L6-v2").depth
    50
    >>> Rerank.parse("rerank/200chunks:bm25>py:mine:score").count
    'chunks'
    """

    name: str
    first: str
    reranker: str
    depth: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    price: float | None = None
    count: str = "documents"

    def __post_init__(self) -> None:
        """Reject invalid rerankers."""
        check_reranker(self.reranker)
        if self.reranker.startswith("maxsim:"):
            find_kind(self.reranker.partition(":")[2])
        if self.count == "chunks" and self.depth is None:
            raise UsageError(f"{self.name!r} counts chunks. Write rerank/Nchunks:A>B.")

    @classmethod
    def parse(cls, text: str) -> Rerank:
        """Parse [NAME=][rerank[/N[chunks]]:]A>RERANKER."""
        name, rest = _split_name(text)
        match = _RERANK.fullmatch(rest)
        if match is None:
            raise UsageError(
                f"Cannot read {text!r:.80}. Write A>RERANKER or rerank/N:A>RERANKER, such as "
                "'rerank/50:bm25>py:mine:score'."
            )
        depth, chunks, first, spec = match.groups()
        number, count = int(depth) if depth else None, chunks or "documents"
        return cls(name or f"{first}>{spec}", first, spec, number, count=count)

    @property
    def spec(self) -> str:
        """Both stages and the depth.

        >>> Rerank.parse("two=bm25>py:mine:score").spec
        'rerank:bm25>py:mine:score'
        """
        depth = "" if self.depth is None else f"/{self.depth}"
        depth += "chunks" * (self.count == "chunks")
        return f"rerank{depth}:{self.first}>{self.reranker}"


def _split_name(text: str) -> tuple[str, str]:
    """Return NAME=REST in two; a name holds no colon, so that `py:a=b` is none."""
    if not isinstance(text, str) or not text.strip():
        forms = "'wordllama' or 'NAME=wordllama'"
        raise UsageError(f"Expected a text such as {forms}, found {text!r}.")
    match = _NAME.fullmatch(text.strip())
    return (match.group(1), match.group(2)) if match else ("", text.strip())


def indexed_name(name: str, index: str) -> str:
    """Return what a model behind an index is called; a password in an address is not shown.

    >>> indexed_name("mini", "usearch")
    'mini @ usearch'
    """
    return f"{name} @ {mask_secrets(index)}"


def split_systems(models: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Split models from systems that Assay does not run itself: specs, functions, objects.

    >>> split_systems(["bm25", "old=run:old.run"])
    (['bm25'], ['old=run:old.run'])
    """
    specs = [models] if isinstance(models, str | Model) or not is_many(models) else list(models)
    systems = [spec for spec in specs if _is_system(spec)]
    return [spec for spec in specs if not _is_system(spec)], systems


def is_many(value: Any) -> bool:
    """Tell whether something is a list of systems, and not one of them (which may be iterable)."""
    methods = ("invoke", "retrieve", "run")
    single = callable(value) or any(hasattr(value, name) for name in methods)
    return isinstance(value, Iterable) and not isinstance(value, Mapping) and not single


def _is_system(spec: Any) -> bool:
    if isinstance(spec, str):
        return is_system(_split_name(spec)[1])
    return not isinstance(spec, Model | Fusion | Rerank)


def split_stages(models: Iterable[Any]) -> tuple[list[Any], list[str]]:
    """Split models from two stages: `[NAME=]rerank[/N]:A>RERANKER`.

    >>> split_stages(["bm25", "two=rerank/50:bm25>py:mine:score"])
    (['bm25'], ['two=rerank/50:bm25>py:mine:score'])
    """
    specs = [models] if isinstance(models, str | Model) else list(models)
    texts = [spec for spec in specs if isinstance(spec, str)]
    stages = [spec for spec in texts if _split_name(spec)[1].startswith(("rerank:", "rerank/"))]
    return [spec for spec in specs if spec not in stages], stages


def parse_systems(kind: type[S], systems: Any) -> tuple[S, ...]:
    """Return one or several of a kind, each as it is or as a text."""
    several: Iterable[Any] = [systems] if isinstance(systems, str | kind) else systems
    if isinstance(systems, Mapping):  # of names and functions, objects or runs
        named = zip(systems, parse_systems(kind, list(systems.values())), strict=True)
        several = [replace(system, name=name) for name, system in named]
    return tuple(system if isinstance(system, kind) else kind.parse(system) for system in several)


def _names_of(systems: Iterable[Model | Fusion | Rerank | Retriever]) -> list[str]:
    return [system.name for system in systems]


def _check_known(what: str, name: str, kinds: str, names: list[str]) -> None:
    if name not in names:
        hint = did_you_mean(name, names, fallback=len(names))
        raise UsageError(f"{what} {name!r}, not one of the {kinds}.{hint}")


@dataclass(frozen=True)
class BenchPlan:
    """The systems of a bench; no two have one name, and all are made of what is there."""

    models: tuple[Model, ...]
    fusions: tuple[Fusion, ...] = ()
    indexes: tuple[str, ...] = ()
    reranks: tuple[Rerank, ...] = ()
    systems: tuple[Retriever, ...] = ()

    @classmethod
    def of(
        cls,
        models: Iterable[Any],
        fusions: Iterable[str | Fusion] = (),
        indexes: Iterable[str] = (),
        reranks: Iterable[str | Rerank] = (),
        systems: Any = (),
    ) -> BenchPlan:
        """Make a plan of systems or their specs; equal indexes are taken once."""
        once = tuple(dict.fromkeys(indexes))
        ours, outside_specs = split_systems(models)
        one_stage, two_stages = split_stages(ours)
        stages = (*parse_systems(Rerank, two_stages), *parse_systems(Rerank, reranks))
        outside = (*parse_systems(Retriever, outside_specs), *parse_systems(Retriever, systems))
        parts = parse_systems(Model, one_stage), parse_systems(Fusion, fusions)
        return cls(*parts, once, stages, outside)

    def __post_init__(self) -> None:
        """Refuse names that do not tell systems apart, and fusions of unknown models."""
        if not self.models and not self.systems:
            raise UsageError("No model. Pass at least one (--model or --system).")
        named = _names_of((*self.models, *self.systems, *self.fusions, *self.reranks))
        twice = [name for name, number in Counter(named).items() if number > 1]
        if twice:
            advice = f"Rename one: NAME={twice[0]}"
            raise UsageError(f"Two systems are named {twice[0]!r}. {advice}.")
        models = _names_of((*self.models, *self.systems))
        stages = [*models, *_names_of(self.fusions)]
        for fusion in self.fusions:
            for member in fusion.members:
                _check_known(f"The fusion {fusion.name!r} is of", member, "models", models)
        for two in self.reranks:
            _check_known(f"{two.name!r} reranks", two.first, "models and fusions", stages)

    @property
    def rivals(self) -> list[str]:
        """Names of all but variants: they are compared with each other."""
        named = _names_of((*self.models, *self.systems, *self.fusions, *self.reranks))
        return [name for name in named if name not in self.bases]

    @property
    def bases(self) -> dict[str, str]:
        """The system that each variant is compared with, in a separate family.

        Variants of a model are its indexes, and its codes beside its float vectors or first code;
        those of two stages have another depth. They say nothing about other models.
        """
        bases = {indexed_name(m.name, index): m.name for m in self.models for index in self.indexes}
        groups: dict[str, list[Model | Rerank]] = {}
        for model in sorted(self.models, key=lambda model: model.codes is not None):
            key = f"{model.spec}@{model.chunk} {as_settings(own=model.settings)} {model.metric}"
            if model.codes is not None or key not in groups:
                groups.setdefault(key, []).append(model)
        for two in self.reranks:
            groups.setdefault(f"{two.first}>{two.reranker} {two.settings}", []).append(two)
        for first, *variants in groups.values():
            bases |= {other.name: first.name for other in variants}
        return bases

    @property
    def names(self) -> list[str]:
        """Names of the systems; those behind an index exist only for models with vectors."""
        indexed = [indexed_name(m.name, index) for m in self.models for index in self.indexes]
        combined = _names_of((*self.systems, *self.fusions, *self.reranks))
        return [*_names_of(self.models), *indexed, *combined]

    def chunkings_of(self, name: str, default: Rule) -> set[Rule]:
        """Return the rules by which documents are cut for a system, or for all parts of it."""
        parts = {fusion.name: fusion.members for fusion in self.fusions}
        parts |= {two.name: (two.first,) for two in self.reranks}
        if name in parts:
            return {rule for part in parts[name] for rule in self.chunkings_of(part, default)}
        return {{model.name: model.chunk for model in self.models}.get(name) or default}

    @property
    def prices(self) -> dict[str, float]:
        """What a million tokens costs, by the name of the model or reranker that needs them."""
        every: list[Model | Rerank] = [*self.models, *self.reranks]
        return {system.name: system.price for system in every if system.price is not None}

    def with_prices(self, prices: Mapping[str, float]) -> BenchPlan:
        """Return a copy with these prices; a name must be that of a model or reranker."""
        priced = _names_of((*self.models, *self.reranks))
        for name in prices:
            _check_known("There is a price of", name, "models and rerankers", priced)
        models = tuple(replace(m, price=prices.get(m.name, m.price)) for m in self.models)
        reranks = tuple(replace(r, price=prices.get(r.name, r.price)) for r in self.reranks)
        return replace(self, models=models, reranks=reranks)

    @property
    def encodes(self) -> bool:
        """Whether some model encodes texts; lexical ones and ready vectors do not."""
        return any(not (model.is_lexical or model.spec.startswith("npy:")) for model in self.models)


_PLAIN: Final = ("float16", "int8", "int4", "sign", "asymmetric")
_NAMES: Final = {"binary": "sign"}  # as other people call them
_FORMS: Final = ("binary", *_PLAIN, "mrl:D", "mrl:D+METHOD", "pq:M", "rabitq:B", "pool:N")


def check_code(code: str) -> tuple[str, float]:
    """Return the method of a code, and the share of the documents that it learns from."""
    if is_pooled(code):
        parse_code(code)
        return code, 1.0
    name, _, train = code.partition("&train=")
    share = float(train or HELD_OUT)
    method = _NAMES.get(name, name)
    if method not in _PLAIN and encoders.parse_spec(method) is None:
        hint = did_you_mean(name, _FORMS)
        raise UsageError(f"Unknown code {name!r:.40}.{hint} Known: {', '.join(_FORMS)}.")
    if not 0 < share <= 1:
        raise UsageError(f"train is {train}. Pass a share above 0 and up to 1.")
    return method, share


def make_codes(code: str, docs: NDArray[Any], metric: str, *, seed: int = 0) -> FittedCode:
    """Make the encoders of a code for these documents; none learns from what it encodes.

    With `&train=1`, or where half are too few for pq, one encoder learns from all of them. Queries
    are never learnt from.
    """
    method, share = check_code(code)
    training = encoders.CodeTraining(share, typed="&train=" in code)
    return training.fit(method, docs, seed=seed, metric=metric)


class InFile(NamedTuple):
    """Ids and texts in the collection's own order, and which rows take part.

    Vectors that were made elsewhere belong to these by order, empty texts among them.
    """

    ids: Ids
    texts: Sequence[str]
    rows: Ints


@dataclass(frozen=True, eq=False)
class PreparedCollection:
    """Queries, and the units (documents, or chunks of them) to search.

    `doc_ids` are all documents in the order that breaks ties; unit i has `unit_texts[i]` and
    belongs to document `unit_doc[i]`. Units are in the order of their documents, so that the lower
    number wins a tie whoever searches. `spans` are the characters where each chunk begins and ends.
    With filters, `allowed` are the documents that each query may get.
    """

    query_ids: Ids
    query_texts: tuple[str, ...]
    doc_ids: Ids
    unit_texts: tuple[str, ...]
    unit_doc: Ints
    chunk: Rule
    docs_in_file: InFile
    queries_in_file: InFile
    spans: Ints | None = None
    filters: str = ""
    allowed: AllowedDocs | None = None

    @property
    def allowed_digest(self) -> str:
        """A digest of the documents that each query may get."""
        groups, masks = self.allowed or AllowedDocs(np.zeros(0, np.int64), ())
        return digest_of_arrays(groups, *masks)

    @cached_property
    def doc_numbers(self) -> dict[str, bytes]:
        """The bytes of each document's number, of type int32, by its id as text."""
        raw = np.arange(len(self.doc_ids), dtype=np.int32).tobytes()
        return {str(id): raw[4 * at : 4 * at + 4] for at, id in enumerate(self.doc_ids)}

    @cached_property
    def bounds(self) -> Ints:
        """Where the units of each document begin; at last, where all end."""
        return np.searchsorted(self.unit_doc, np.arange(len(self.doc_ids) + 1))

    @cached_property
    def places(self) -> Ints:
        """Return the number of each unit in its document, from 1, and where it begins and ends."""
        numbers = np.arange(self.n_units) - self.bounds[self.unit_doc] + 1
        whole = [(0, len(text)) for text in self.unit_texts] if self.spans is None else self.spans
        return np.column_stack([numbers, np.asarray(whole, np.int64)])

    @property
    def chunked(self) -> bool:
        """Whether units are chunks of documents."""
        return self.chunk is not None

    @property
    def n_units(self) -> int:
        """Number of texts to search."""
        return len(self.unit_texts)


def prepare(collection: Collection, rules: Conventions, chunk: Rule) -> PreparedCollection:
    """Leave out what has no text or no judgment, cut documents into chunks, and order by tie rule.

    Documents are ordered by id as the conventions say, or stay as they stand in the file; results
    do not depend on the order of lines where ties go by id.
    """
    judged = collection.query_ids.match(collection.qrels.query_ids) >= 0
    answerable = np.asarray(collection.query_ids.order(), np.int64)
    answerable, texts_of = answerable[judged[answerable]], collection.query_texts
    rows = np.array([at for at in answerable.tolist() if texts_of[at].strip()], np.int64)
    order: Ints = np.arange(len(collection.doc_ids))
    if rules.tiebreak != "index":
        descending = rules.tiebreak == "id-descending"
        order = np.array(collection.doc_ids.order(descending=descending), np.int64)
    doc_ids = collection.doc_ids.take(order)
    texts = [collection.doc_texts[at] for at in order.tolist()]
    if not len(rows):
        raise InputError("No judged query has a text. Check the query ids.")
    spans = None
    if chunk is None:
        owner = np.flatnonzero([bool(text.strip()) for text in texts])
        ids, units = doc_ids.take(owner), tuple(map(texts.__getitem__, owner.tolist()))
    else:
        chunks = chunk_docs(doc_ids, texts, chunk)
        ids, units, owner, spans = chunks.ids, chunks.texts, chunks.doc, chunks.spans
    if not units:
        raise InputError("All documents are empty. Check the corpus.")
    place = np.argsort(order[owner], kind="stable")
    in_file = InFile(ids.take(place), [units[at] for at in place], np.argsort(place, kind="stable"))
    if chunk is None:
        in_file = InFile(collection.doc_ids, collection.doc_texts, order[owner])
    queries = InFile(collection.query_ids, collection.query_texts, rows)
    first = queries.ids.take(rows), tuple(queries.texts[at] for at in rows)
    return PreparedCollection(*first, doc_ids, units, owner, chunk, in_file, queries, spans)
