"""Running the contestants one after the other; what is finished survives an interruption."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from assay.cluster import ClusterBatches
from assay.models import EncoderSettings, TextModel, is_lexical, lexical_model, text_model
from assay.search.fusion import fuse
from assay.tasks.bench import search
from assay.tasks.bench.collection import Prepared
from assay.tasks.bench.plan import Fusion, Model, indexed_name
from assay.tasks.bench.search import Choices, Costs, Dense, Found, Timer

if TYPE_CHECKING:
    from assay.tasks.bench.checkpoint import Parts

__all__ = ["run_all"]


class _Runner:
    """One model on one collection; vectors are made when they are first needed."""

    def __init__(self, model: Model, data: Prepared, choices: Choices) -> None:
        self.model, self._data, self._choices = model, data, choices
        self._maker: Any
        if is_lexical(model.spec):
            self._maker = lexical_model(model.spec, **model.settings)
        else:
            self._maker = _text_model(model, choices)

    @property
    def fingerprint(self) -> str:
        """Of the model, before anything is computed."""
        return str(self._maker.fingerprint)

    @property
    def repeatable(self) -> bool:
        """Whether the fingerprint tells all that the result depends on."""
        return bool(getattr(self._maker, "repeatable", True))

    @cached_property
    def _words(self) -> search.Words | None:
        if not is_lexical(self.model.spec):
            return None
        return search.fit(self.model.name, self._maker, self._data, self._choices)

    @cached_property
    def dense(self) -> Dense | None:
        """The vectors; None for a model that has none."""
        if self._words is not None:
            return self._words.dense(self._data)
        return search.encode(self.model.name, self._maker, self._data, self._choices)

    def exact(self) -> Found:
        """Search by the exact engine, or by words."""
        if self.dense is not None:
            return search.search_dense(self.model.name, self.dense, self._data, self._choices)
        words = cast("search.Words", self._words)  # what has no vectors has words
        return search.search_words(self.model.name, words, self._data, self._choices)

    def by_index(self, name: str, spec: str) -> Found | None:
        """Search by another's index; None for a model without vectors."""
        if self.dense is None:
            return None
        return search.search_index(name, spec, self.dense, self._data, self._choices)


def _text_model(model: Model, choices: Choices) -> TextModel:
    """The model, which encodes on the cluster where there is one."""
    settings, elsewhere = EncoderSettings(**model.settings), None
    if choices.cluster is not None:
        elsewhere = ClusterBatches(choices.cluster, model.spec, settings, choices.device)
    return text_model(
        model.spec,
        settings=settings,
        cache=choices.cache,
        device=choices.device,
        elsewhere=elsewhere,
    )


def run_all(
    models: tuple[Model, ...],
    fusions: tuple[Fusion, ...],
    indexes: tuple[str, ...],
    *,
    data: Prepared,
    choices: Choices,
    parts: Parts,
) -> Iterator[tuple[str, str, Found]]:
    """Name, spec and result of every contestant: models, model × index, then fusions."""
    rankings = {}
    for model in models:
        runner = _Runner(model, data, choices)
        kept = parts if runner.repeatable else parts.none()
        found = kept.get_or(runner.fingerprint, runner.exact)
        if found is None:
            continue
        rankings[model.name] = found
        search.tell(choices, f"{model.name}: searching", 1, 1)  # also if it was found again
        yield model.name, model.spec, found
        for index in indexes:
            name = indexed_name(model.name, index)
            searched = kept.get_or(f"{runner.fingerprint} {index}", _by_index(runner, name, index))
            if searched is not None:
                yield name, indexed_name(model.spec, index), searched
    for fusion in fusions:
        members = [rankings[name] for name in fusion.members]
        yield fusion.name, _spec_of(fusion), _fused(fusion, members, choices)


def _by_index(runner: _Runner, name: str, index: str) -> Any:
    return lambda: runner.by_index(name, index)


def _spec_of(fusion: Fusion) -> str:
    weights = fusion.weights or (None,) * len(fusion.members)
    parts = [
        name if weight is None else f"{weight:g}*{name}"
        for name, weight in zip(fusion.members, weights, strict=True)
    ]
    how = fusion.method if fusion.method == "rrf" else f"{fusion.method}/{fusion.normalize}"
    return f"{how}:{'+'.join(parts)}"


def _fused(fusion: Fusion, members: list[Found], choices: Choices) -> Found:
    """Rankings made into one; it costs what its members cost, and the fusing."""
    search.tell(choices, f"{fusion.name}: searching", 0, None)
    with Timer() as timer:
        ranking = fuse(
            [one.ranking for one in members],
            method=fusion.method,  # type: ignore[arg-type]
            normalize=fusion.normalize,  # type: ignore[arg-type]
            weights=fusion.weights,
            rrf_k=fusion.rrf_k,
            depth=choices.depth,
        )
    search.tell(choices, f"{fusion.name}: searching", 1, 1)
    every = [one.costs for one in members]
    cached = not all(one.n_encoded for one in every)
    known = [one.bytes for one in every if one.bytes is not None]
    costs = Costs(
        encode_seconds=sum(one.encode_seconds for one in every),
        n_encoded=0 if cached else max(one.n_encoded for one in every),
        bytes=sum(known) if len(known) == len(every) else None,
        search_seconds=sum(one.search_seconds for one in every) + timer.seconds,
    )
    fingerprint = f"{_spec_of(fusion)} of {' '.join(one.fingerprint for one in members)}"
    return Found(ranking, costs, fingerprint, members[0].n_texts)
