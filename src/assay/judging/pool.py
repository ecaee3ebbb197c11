"""LabelPool: (query, document) pairs to label, with their inclusion probabilities.

Every pair has a random number of its own, a hash of the seed and both ids. It is drawn if that
number is below its probability (Poisson sampling with permanent random numbers: Brewer, Early &
Joyce 1972). So a pool that is extended, by labels, systems or queries, keeps every pair that was
drawn before, and the probability of a pair is the largest that it had in any stage.

A pool file holds a line of JSON (settings and a digest), then a line for each pair, by tabs:

    query, document, probability after each stage (by '/'), stage in which it was drawn (or 0)

A pair's probability comes from its weight in measures that are linear in the labels. A measure is
linear if a query's value is Σ over its documents of weight × gain, where the weight depends on the
rank alone and the gain on the label alone: P@k, DCG@k and RBP. nDCG, R and AP are not: their
denominators depend on labels that nobody made.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Floats, Ints, Words, power
from assay.core.checks import check_choice, check_cutoff
from assay.core.conventions import Conventions, as_conventions
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import (
    FormatError,
    IdError,
    MeasureError,
    MismatchError,
    UsageError,
    ValueRangeError,
)
from assay.io.formats import RunLike, as_ranking
from assay.io.plain_data import parse_json
from assay.io.streams import FilePath, atomic_write, read_text
from assay.judging.plugin import AIMS, METHODS
from assay.measures import Measure, parse
from assay.measures.views import discount
from assay.scoring.evaluate import call_of
from assay.stats.samples import check_seed

VERSION: Final = 1
MEASURE: Final = "DCG@10"
SCALE: Final = (0, 1, 2, 3)
_DIGITS: Final = 32
_WIDTH: Final = 4  # columns of a line
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NO_WEIGHT: Final = 1e-12  # rounding of two equal weights


# Measures that are linear in the labels

RULES: Final = as_conventions("trec_eval")
LINEAR: Final = "P@k, DCG@k and RBP"
WEIGHED: Final = ("P", "DCG", "RBP", "nDCG")  # by rank; nDCG then divides by its ideal


def weigh_ranks(measure: Measure, rules: Conventions = RULES) -> Callable[[Floats], Floats]:
    """Return the function from ranks to weights of P, DCG, nDCG or RBP, whatever the cutoff."""
    arguments = call_of(measure, rules)[0]
    k, p = arguments.get("k"), arguments.get("p", 0.0)
    return {
        "P": lambda rank: np.full(rank.shape, 1.0 / (k or 1)),
        "RBP": lambda rank: (1.0 - p) * power(p, rank - 1.0),
    }.get(measure.name, discount)


def is_plain(measure: Measure) -> bool:
    """Tell whether a measure is a weighted sum of gains, over an ideal for nDCG."""
    params = dict(measure.params)
    return measure.name in WEIGHED and not params.get("trunc") and not params.get("graded")


@dataclass(frozen=True)
class LinearMeasure:
    """A measure that is a weighted sum of gains: P@k, DCG@k or RBP."""

    measure: Measure

    def __str__(self) -> str:
        """Return the canonical name."""
        return str(self.measure)

    @property
    def cutoff(self) -> Any:
        """The last rank that counts; None for all."""
        return self.measure.cutoff

    def weights(self, ranks: Ints) -> Floats:
        """Return the weight of a document at each rank, which counts from 1."""
        weights = weigh_ranks(self.measure)(ranks.astype(np.float64))
        return weights if self.cutoff is None else np.where(ranks <= self.cutoff, weights, 0.0)

    def gains(self, grades: Any) -> Floats:
        """Return the gain of each grade; negative grades gain nothing."""
        grades = np.maximum(np.asarray(grades, np.float64), 0.0)
        return np.asarray(call_of(self.measure, RULES)[1](grades), np.float64)


def parse_linear(name: str | Measure | LinearMeasure, rel: float | None = None) -> LinearMeasure:
    """Read the name of a measure that is linear in the labels.

    Args:
        name: P@k, DCG@k, DCG(gain=exp)@k or RBP(p=0.8), in any case.
        rel: The smallest relevant grade, where the name says none. [1]

    Returns:
        The measure.

    Raises:
        MeasureError: The measure is not linear, or not known.

    Example:
        >>> parse_linear("dcg@10").weights(np.array([1, 3, 11])).tolist()
        [1.0, 0.5, 0.0]
    """
    if isinstance(name, LinearMeasure):
        return name
    measure = parse(name)
    if not is_plain(measure) or measure.name == "nDCG":
        raise MeasureError(f"{measure} needs labels of all pairs. Use {LINEAR}.")
    return LinearMeasure(set_threshold(measure, rel))


def set_threshold(measure: Measure, rel: float | None) -> Measure:
    """Set the smallest relevant grade of a measure that takes one and names none."""
    if rel is None or "rel" not in measure.definition.params or "rel" in dict(measure.params):
        return measure
    return measure(rel=int(rel) if float(rel).is_integer() else rel)


class Coefficients(NamedTuple):
    """Weights of systems on pairs: row i of `weights` is pair (queries[i], docs[i])."""

    query_ids: Ids
    doc_ids: Ids
    queries: Ints
    docs: Ints
    weights: Floats  # pairs × systems


def merge_ids(parts: Sequence[Ids]) -> tuple[Ids, list[Ints]]:
    """Return all distinct ids, and for each part the places of its ids among them.

    >>> ids, places = merge_ids([Ids.of(["a", "b"]), Ids.of(["c", "b"])])
    >>> ids.to_list(), [part.tolist() for part in places]
    (['a', 'b', 'c'], [[0, 1], [2, 1]])
    """
    every, places = parts[0], [np.arange(len(parts[0]))]
    for ids in parts[1:]:
        at = np.arange(len(ids)) if ids is every else np.array(ids.match(every))
        new = np.flatnonzero(at < 0)
        if len(new):
            at[new] = len(every) + np.arange(len(new))
            every = Ids.concat([every, ids.take(new)])
        places.append(at)
    return every, places


def weigh_systems(
    rankings: Sequence[Ranking], measure: LinearMeasure, depth: int | None = None
) -> Coefficients:
    """Return the weight of every pair that any system retrieves, for each of the systems.

    Args:
        rankings: The systems.
        measure: Its weights are those of ranks.
        depth: Pairs down to this rank have a weight, if the measure has no cutoff.
    """
    cut = measure.cutoff or depth
    rankings = [ranking.first(cut) if cut else ranking for ranking in rankings]
    query_ids, query_places = merge_ids([r.query_ids.as_text() for r in rankings])
    used = [np.flatnonzero(np.bincount(ranking.docs)) for ranking in rankings]
    names = [r.doc_ids.as_text().take(u) for r, u in zip(rankings, used, strict=True)]
    doc_ids, doc_places = merge_ids(names)
    keys = []
    for ranking, mine, rows, docs in zip(rankings, used, query_places, doc_places, strict=True):
        queries = np.repeat(rows, ranking.lengths)
        keys.append(queries * len(doc_ids) + docs[np.searchsorted(mine, ranking.docs)])
    # With counts numpy sorts; its hash table takes up to fifty times as long.
    pairs = np.unique(np.concatenate(keys), return_counts=True)[0]
    weights = np.zeros((len(pairs), len(rankings)))
    for column, (ranking, key) in enumerate(zip(rankings, keys, strict=True)):
        ranks = np.arange(len(key)) - np.repeat(ranking.offsets[:-1], ranking.lengths) + 1
        weights[np.searchsorted(pairs, key), column] = measure.weights(ranks)
    queries, docs = np.divmod(pairs, max(len(doc_ids), 1))
    return Coefficients(query_ids, doc_ids, queries, docs, weights)


# The pool


@dataclass(frozen=True, eq=False)
class LabelPool:
    """Pairs with the probability of being drawn; build one with `make_pool` or `read_pool`.

    Args:
        query_ids: All queries of the systems, those on which they agree included.
        doc_ids: Documents of the pairs.
        queries: Number of the query of each pair.
        docs: Number of the document of each pair.
        probabilities: Pairs × stages: how likely a pair was drawn up to that stage.
        stages: In which stage a pair was drawn; 0 for pairs that were not.
        settings: measure, aim, method, seed, scale, systems.
        ancestors: Digests of the pools that this one extends.
    """

    query_ids: Ids
    doc_ids: Ids
    queries: Ints
    docs: Ints
    probabilities: Floats
    stages: Ints
    settings: Mapping[str, Any] = field(default_factory=dict)
    ancestors: tuple[str, ...] = ()

    @property
    def scale(self) -> tuple[int, ...]:
        """The grades that a label may have."""
        return tuple(self.settings["scale"])

    @property
    def seed(self) -> int:
        """The seed of the draw."""
        return int(self.settings["seed"])

    @property
    def n_drawn(self) -> int:
        """Number of pairs to label."""
        return int(np.count_nonzero(self.stages))

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.queries)

    def __repr__(self) -> str:
        """Return the sizes in one line."""
        return f"LabelPool({self.n_drawn:,} of {len(self):,} pairs, {len(self.query_ids)} queries)"

    @cached_property
    def names(self) -> list[tuple[str, str]]:
        """Query and document of each pair."""
        queries, docs = self.query_ids.to_list(), self.doc_ids.to_list()
        numbers = zip(self.queries.tolist(), self.docs.tolist(), strict=True)
        return [(str(queries[query]), str(docs[doc])) for query, doc in numbers]

    @cached_property
    def places(self) -> dict[tuple[str, str], int]:
        """Place of each pair by its names."""
        return {pair: place for place, pair in enumerate(self.names)}

    @cached_property
    def order(self) -> Ints:
        """Places of the drawn pairs in the order to label them: by stage, then shuffled."""
        drawn = np.flatnonzero(self.stages)
        words = pair_words(self, drawn, "order")
        return drawn[np.lexsort((words, self.stages[drawn]))]

    @cached_property
    def digest(self) -> str:
        """Return a digest of pairs, probabilities and settings, by which labels know their pool."""
        return _digest_of(self._head(), self._lines)

    def _head(self) -> dict[str, Any]:
        named = {"settings": dict(self.settings), "queries": self.query_ids.to_list()}
        return {**named, "ancestors": list(self.ancestors)}

    @cached_property
    def _lines(self) -> str:
        """Return a line for each pair."""
        values, places = np.unique(self.probabilities, return_inverse=True)  # few are distinct
        texts = list(map(repr, values.tolist()))
        columns: list[list[int]] = places.reshape(self.probabilities.shape).T.tolist()  # type: ignore[assignment]
        shares = zip(*(map(texts.__getitem__, column) for column in columns), strict=True)
        queries, docs = (list(map(str, ids)) for ids in (self.query_ids, self.doc_ids))
        cells = zip(
            map(queries.__getitem__, self.queries.tolist()),
            map(docs.__getitem__, self.docs.tolist()),
            map("/".join, shares),
            map(str, self.stages.tolist()),
            strict=True,
        )
        return "".join(f"{line}\n" for line in map("\t".join, cells))

    def write(self, path: FilePath) -> None:
        """Write the pool atomically."""
        about = {"assay_pool": VERSION, "digest": self.digest, **self._head()}
        with atomic_write(path) as file:
            file.write(f"{json.dumps(about, ensure_ascii=False)}\n{self._lines}".encode())


def _digest_of(head: Mapping[str, Any], lines: str) -> str:
    text = json.dumps({key: head[key] for key in ("settings", "queries", "ancestors")})
    return hashlib.sha256(f"{text}\n{lines}".encode()).hexdigest()[:_DIGITS]


def pair_words(pool: LabelPool, places: Ints, purpose: str) -> Words:
    """Return 64 random bits for some pairs, which depend on the seed, the purpose and both ids."""
    words = _words_of(pool.query_ids, pool.seed, purpose)[pool.queries[places]]
    other = _words_of(pool.doc_ids, pool.seed, purpose)[pool.docs[places]]
    mixed = words ^ (other << np.uint64(1) | other >> np.uint64(63))
    for shift, factor in ((30, _FIRST), (27, _SECOND)):  # splitmix64
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * factor
    scrambled: Words = mixed ^ (mixed >> np.uint64(31))
    return scrambled


def _words_of(ids: Ids, seed: int, purpose: str) -> Words:
    key = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=16).digest()
    hashed = [hashlib.blake2b(str(id).encode(), digest_size=8, key=key).digest() for id in ids]
    return np.frombuffer(b"".join(hashed), np.uint64)


def uniform_numbers(pool: LabelPool, purpose: str = "draw") -> Floats:
    """Return a number in [0, 1) for each pair, the same in every pool of this seed."""
    words = pair_words(pool, np.arange(len(pool)), purpose)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def make_pool(
    runs: Mapping[str, RunLike],
    n: int = 200,
    *,
    measure: str = MEASURE,
    aim: str = "differences",
    method: str = "drawn",
    depth: int | None = None,
    seed: int = 0,
    scale: Sequence[int] = SCALE,
    uncertainty: Mapping[tuple[str, str], float] | None = None,
    extend: LabelPool | None = None,
) -> LabelPool:
    """Choose the (query, document) pairs to label.

    Args:
        runs: Runs by the names of the systems: files, rankings or dictionaries.
        n: How many pairs to draw, on average; with `extend` how many more.
        measure: A measure that is linear in the labels; its weights decide the probabilities.
        aim: Draw for `differences` of systems, or for the `means` of each, too.
        method: `drawn` by weight, `depth` for all pairs down to a rank, `all` for every pair.
        depth: Last rank that counts, for `depth` and for measures without a cutoff.
        seed: Seed of the draw; that of the pool with `extend`.
        scale: The grades that a label may have.
        uncertainty: How unsure machine labels are, by (query, document), from 0 to 1; weights are
            multiplied by it, and by 1 where a pair is not named.
        extend: The pool to add systems, queries or labels to.

    Returns:
        The pool.

    Raises:
        UsageError: A setting does not fit.
        MeasureError: The measure is not linear in the labels.

    Example:
        >>> runs = {"a": {"q": ["x", "y"]}, "b": {"q": ["y", "z"]}}
        >>> make_pool(runs, 3, measure="P@2")
        LabelPool(2 of 2 pairs, 1 queries)
    """
    check_choice(method, METHODS, "method")
    check_choice(aim, AIMS, "aim")
    check_cutoff(n, "n")
    if method == "depth" and depth is None:
        raise UsageError("A pool by depth needs depth. Pass the last rank to label.")
    seed = check_seed(seed) if extend is None else extend.seed
    if not runs or (aim == "differences" and method == "drawn" and len(runs) < 2):
        raise UsageError(f"Differences need two runs, found {len(runs)}. Add one, or aim at means.")
    linear = parse_linear(measure)
    rankings = [as_ranking(run, RULES) for run in runs.values()]
    settings = {
        "measure": str(linear),
        "aim": aim if method == "drawn" else "means",
        "method": method,
        "depth": depth,
        "seed": seed,
        "scale": check_scale(scale) if extend is None else list(extend.scale),
        "systems": list(dict.fromkeys([*(extend.settings["systems"] if extend else ()), *runs])),
    }
    if method == "drawn":
        weighed = weigh_systems(rankings, linear, depth)
        importance = _importance(weighed, aim)
    else:  # every pair, whatever its weight
        flat = parse_linear("DCG" if method == "all" else f"DCG@{check_cutoff(depth, 'depth')}")
        weighed = weigh_systems(rankings, flat)
        importance = np.ones(len(weighed.queries))
    nothing = np.zeros(0, np.int64)
    fresh = (weighed.query_ids, weighed.doc_ids, nothing, nothing, np.zeros((0, 0)), nothing)
    merged, importance = _merge(extend or LabelPool(*fresh), weighed, importance)
    if method == "drawn" and uncertainty:
        doubt = np.array([uncertainty.get(pair, 1.0) for pair in merged.names])
        if not ((doubt >= 0) & (doubt <= 1)).all():
            raise ValueRangeError("Machine label uncertainty is out of range. Use 0 to 1.")
        importance = importance * np.maximum(doubt, 0.05)  # a sure judge may be wrong, too
    if not len(merged):
        raise UsageError("The pool is empty: the systems agree on all counted documents.")
    earlier = merged.probabilities.max(axis=1, initial=0.0)
    goal = n + earlier.sum() if method == "drawn" else math.inf
    probabilities = inclusion_probabilities(importance, earlier, goal)
    stage = merged.probabilities.shape[1] + 1
    drawn = (uniform_numbers(replace(merged, settings=settings)) < probabilities) * stage
    stages = np.where(merged.stages == 0, drawn, merged.stages)
    if not stages.any():
        raise UsageError(f"No pair of {len(merged):,} was drawn. Draw more than {n} (-n).")
    return replace(
        merged,
        probabilities=np.hstack([merged.probabilities, probabilities[:, None]]),
        stages=stages,
        settings=settings,
        ancestors=() if extend is None else (*extend.ancestors, extend.digest),
    )


def check_scale(scale: Iterable[int]) -> list[int]:
    """Return grades from 0 or more, rising; two at least."""
    grades = list(scale)
    whole = all(type(grade) is int for grade in grades)
    if not whole or len(grades) < 2 or grades != sorted(set(grades)) or grades[0] < 0:
        raise UsageError(f"Invalid scale {grades!r}. Pass two or more rising whole grades from 0.")
    return grades


def _importance(weighed: Coefficients, aim: str) -> Floats:
    """Return the root of the summed squares of all weights, or of all differences of two."""
    weights = weighed.weights
    if aim == "differences":
        weights = weights - weights.mean(axis=1, keepdims=True)
    scale = math.sqrt(weights.shape[1]) if aim == "differences" else 1.0
    roots: Floats = scale * np.sqrt(np.einsum("ij,ij->i", weights, weights))
    return roots


def _merge(old: LabelPool, new: Coefficients, importance: Floats) -> tuple[LabelPool, Floats]:
    """Return the pairs of a pool and those that have a weight now, and what each weighs now."""
    heavy = importance > _NO_WEIGHT
    query_ids, (old_queries, new_queries) = merge_ids([old.query_ids, new.query_ids])
    doc_ids, (old_docs, new_docs) = merge_ids([old.doc_ids, new.doc_ids])
    before = old_queries[old.queries] * len(doc_ids) + old_docs[old.docs]
    now = new_queries[new.queries[heavy]] * len(doc_ids) + new_docs[new.docs[heavy]]
    # Numbers alone are hashed by np.unique, which takes up to 50 times as long as counting them.
    keys = np.unique(np.concatenate([before, now]), return_counts=True)[0]
    places = np.searchsorted(keys, before)
    probabilities = np.zeros((len(keys), old.probabilities.shape[1]))
    probabilities[places] = old.probabilities
    stages, weights = np.zeros(len(keys), np.int64), np.zeros(len(keys))
    stages[places] = old.stages
    weights[np.searchsorted(keys, now)] = importance[heavy]
    numbers = np.divmod(keys, max(len(doc_ids), 1))
    return LabelPool(query_ids, doc_ids, *numbers, probabilities, stages), weights


def inclusion_probabilities(importance: Floats, earlier: Floats, goal: float) -> Floats:
    """Return max(earlier, min(1, c × importance)), c such that they sum to the goal."""
    top = np.where(importance > 0, 1.0, earlier)
    if goal >= top.sum():
        return top

    low, high = 0.0, 1.0 / float(importance[importance > 0].min())
    for _ in range(60):  # halving
        middle = (low + high) / 2
        total = np.maximum(earlier, np.minimum(1.0, middle * importance)).sum()
        low, high = (middle, high) if total < goal else (low, middle)
    shares = np.maximum(np.round(np.minimum(1.0, high * importance), 12), 1e-12)
    return np.maximum(earlier, np.where(importance > 0, shares, 0.0))


def read_pool(path: FilePath) -> LabelPool:
    """Read a pool that `LabelPool.write` or `assay pool` wrote.

    Args:
        path: The file.

    Returns:
        The pool.

    Raises:
        FormatError: The file is no pool.
        MismatchError: The file was edited since it was written.

    Example:
        pool = read_pool("pool.tsv")
    """
    name = os.fspath(path)
    first, _, lines = read_text(path).partition("\n")
    try:
        head = parse_json(first, name)
        settings, queries = head["settings"], Ids.of(head["queries"], "query")
        digest, ancestors = head["digest"], tuple(map(str, head["ancestors"]))
        cells = re.split("[\t\n]", lines)
        columns = [cells[at:-1:_WIDTH] for at in range(_WIDTH)]
        names = list(dict.fromkeys(columns[1]))
        number_of = {id: number for number, id in enumerate(names)}
        query_of = {id: number for number, id in enumerate(queries)}
        share_of = {text: list(map(float, text.split("/"))) for text in set(columns[2])}
        pool = LabelPool(
            queries,
            Ids.of(names),
            np.array([query_of[id] for id in columns[0]]),
            np.array([number_of[id] for id in columns[1]]),
            np.array([share_of[text] for text in columns[2]]),
            np.array(columns[3], np.int64),
            settings,
            ancestors,
        )
        needed = {"measure", "aim", "method", "depth", "seed", "scale", "systems"}
        sound = needed <= settings.keys()
    except (FormatError, IdError, KeyError, TypeError, ValueError, AttributeError):
        sound = False
    if not sound:
        raise FormatError(f"{name} is not a pool. Create one with 'assay pool RUN... -o FILE'.")
    if digest != _digest_of(head, lines):
        raise MismatchError(f"{name} was edited (digest mismatch). Restore or recreate it.")
    return pool
