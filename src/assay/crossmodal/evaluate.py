"""Evaluate label retrieval, image–text retrieval and zero-shot classification.

`label_retrieval` takes embeddings of any modalities, several levels of labels and prototypes.
What is called Label-Recall@K here divides by K: it is precision, P@k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, product
from typing import Any, Final, cast

import numpy as np

from assay.arrays import Ints
from assay.core import checks
from assay.core.judgments import Qrels
from assay.core.mismatches import check_labels_match
from assay.core.text import did_you_mean
from assay.crossmodal import search
from assay.crossmodal.plugin import PROTOCOLS, Protocol
from assay.crossmodal.results import RECALLS, CrossmodalResult, DirectionResult
from assay.crossmodal.samples import (
    PROTOTYPE,
    Direction,
    Prototypes,
    SampleRows,
    Samples,
    align,
    align_sides,
    without_labels,
)
from assay.crossmodal.search import Metric, RetrievalSettings, TaskMaker, Zero
from assay.errors import ShapeError, UsageError
from assay.io.formats import as_judgments
from assay.measures import Measure, parse_many

Progress = Callable[[int, int], None]


def label_retrieval(
    modalities: Mapping[str, Any],
    labels: Any = None,
    *,
    modality_labels: Mapping[str, Any] | None = None,
    qrels: Mapping[str, Any] | None = None,
    directions: Iterable[str] | None = None,
    k_values: Iterable[int] = (10, 50, 100),
    measures: str | Measure | Iterable[str | Measure] = (),
    prototypes: Prototypes | None = None,
    drop_labels: Iterable[str] = (),
    exclude_paired: bool = False,
    metric: Metric = "cosine",
    ties: str = "order",
    truncate: bool = False,
    full: bool = False,
    depth: int | None = None,
    confusion_k: int | None = None,
    zero: Zero = "error",
    first_ranks: bool = False,
    threads: int | None = None,
    allow_mismatch: bool = False,
    progress: Progress | None = None,
) -> CrossmodalResult:
    """Score whether the neighbours of an item carry its label.

    Embeddings and labels may be `SampleRows` with the ids of their samples: rows are then matched
    by id.

    Args:
        modalities: Embeddings by the name of their modality.
        labels: One label per sample, or {level: labels}.
        modality_labels: Labels (or ids of pairs) of each modality, where these are not in step:
            test queries and a training gallery, or five captions and an image.
        qrels: Judgments by direction, such as {"text2image": …}. They add the level `qrels`: what
            they judge relevant, for the queries they judge.
        directions: Names such as `text2image`; by default from prototypes, or from each modality
            to each other.
        k_values: Cutoffs of P@k; may be empty where `measures` are named.
        measures: Further measures.
        prototypes: Embedded descriptions of labels.
        drop_labels: Labels whose samples and prototypes are left out.
        exclude_paired: Exclude a query's own sample in another modality; in its own modality it
            always is.
        metric: cosine, dot or l2.
        ties: How tied items count, as in the conventions.
        truncate: Divide by min(K, items of the label) in prototype directions.
        full: Add P@k, R@k, nDCG@k and MAP@R.
        depth: Maximal depth of a list for MAP@R and measures without a cutoff.
        confusion_k: Cutoff of the confusion of labels; the smallest cutoff by default.
        zero: What happens to vectors of zeros under cosine: error, drop or last.
        first_ranks: Keep the rank of the first positive.
        threads: Number of threads.
        allow_mismatch: Accept prototypes and samples whose labels differ, as `1` and `01` do.
        progress: Called with the number of queries done, and of all.

    Returns:
        The result of every level of labels and direction.

    Raises:
        UsageError: Settings contradict each other, or name nothing that is there.
        MismatchError: Ids, labels or dimensions do not fit.
        ShapeError: Arrays have another shape.
        ValueRangeError: Vectors hold NaN, infinity or, under cosine, only zeros.

    >>> vectors = [[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]]
    >>> result = label_retrieval({"image": vectors}, ["cat", "cat", "dog", "dog"], k_values=[1])
    >>> result["label"]["image2image"][1]
    1.0
    """
    named = parse_many(measures) if measures else ()
    cuts = search.check_k_values(k_values, needed=not named)
    choices = (metric, ties, truncate, full, depth, exclude_paired, confusion_k, zero, threads)
    settings = RetrievalSettings(cuts, *choices, named, first_ranks)
    checks.require(modalities, Mapping, "modalities", "{name: embeddings}")
    ways = parse_directions(directions, modalities, prototypes=prototypes is not None)
    sides = _make_sides(modalities, labels, modality_labels)
    dropped = [str(label) for label in checks.as_list(drop_labels, "drop_labels")]
    if prototypes is not None:
        checks.require(prototypes, Prototypes, "prototypes", "Prototypes.of(embeddings, labels)")
    maker = TaskMaker(sides, prototypes, dropped)
    tasks = [task for way in ways for task in maker.make(way, unit=metric == "cosine")]
    for way, judged in _judged_directions(qrels or {}, ways):
        tasks.append(maker.make_judged(way, judged))
    if prototypes is not None:
        _check_prototypes(maker, ways, allow_mismatch)
    search.check_tasks(tasks, settings)
    total, before = sum(len(task.query_ids) for task in tasks), 0
    results: dict[str, list[DirectionResult]] = {level: [] for level in maker.levels}
    for task in tasks:
        report = None if progress is None else partial(_report, progress, before, total)
        for level, result in search.search_direction(task, settings, progress=report).items():
            results.setdefault(level, []).append(result)
        before += len(task.query_ids)
    return CrossmodalResult(chain.from_iterable(results.values()))


def _report(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    """Report progress of one search as progress of all."""
    progress(before + done, total)


def _make_sides(
    modalities: Mapping[str, Any], labels: Any, modality_labels: Mapping[str, Any] | None
) -> dict[str, Samples]:
    """Align the samples of all modalities, or of each."""
    rows = _as_rows(modalities)
    if modality_labels is None:
        return dict.fromkeys(rows, align(rows, _as_levels(labels)))
    if labels is not None:
        raise UsageError("labels and modality_labels exclude each other. Pass one.")
    checks.require(modality_labels, Mapping, "modality_labels", "{modality: labels}")
    return align_sides(rows, {name: _as_levels(levels) for name, levels in modality_labels.items()})


def _as_levels(labels: Any) -> dict[str, SampleRows]:
    if labels is None:
        return {}
    return _as_rows(labels if isinstance(labels, Mapping) else {"label": labels})


def _judged_directions(
    qrels: Mapping[str, Any], ways: list[Direction]
) -> Iterator[tuple[Direction, Qrels]]:
    by_name = {way.name: way for way in ways}
    for name, judged in qrels.items():
        if name not in by_name:
            raise UsageError(f"qrels name {name!r}, not a direction. Known: {', '.join(by_name)}.")
        judgments = as_judgments(judged)
        checks.require(judgments, Qrels, f"qrels of {name!r}", "judged pairs")
        yield by_name[name], cast("Qrels", judgments)


def _check_prototypes(maker: TaskMaker, ways: list[Direction], allow: bool) -> None:
    """Refuse labels that are written differently."""
    searched = dict.fromkeys(end for way in ways for end in way.ends if end != PROTOTYPE)
    rules: Any = {"allow": allow, "none": len(maker.levels) == 1}
    for name, level in product(searched, maker.levels):
        described, other = maker.sides[PROTOTYPE].levels[level], maker.sides[name].levels[level]
        left = np.unique(described[without_labels(described, maker.dropped)]).tolist()
        places = "labels of prototypes", f"the labels {level!r}"
        check_labels_match(left, np.unique(other).tolist(), *places, **rules)


def _as_rows(parts: Mapping[str, Any]) -> dict[str, SampleRows]:
    return {
        str(name): part if isinstance(part, SampleRows) else SampleRows(part)
        for name, part in parts.items()
    }


def check_modality_name(name: str) -> str:
    """Refuse names that no direction could be written with."""
    if not name or name == PROTOTYPE or any(sign in name for sign in "= \t\n,"):
        raise UsageError(f"Invalid modality {name!r}. Avoid '=', ',', spaces and {PROTOTYPE!r}.")
    return name


def default_directions(modalities: Iterable[str], *, prototypes: bool) -> list[Direction]:
    """Return directions from prototypes, or from each modality to each other.

    >>> [way.name for way in default_directions(["sensor", "text"], prototypes=False)]
    ['text2sensor', 'sensor2text']
    """
    names = list(modalities)
    if prototypes:
        return [Direction(PROTOTYPE, name) for name in names]
    if len(names) == 1:
        return [Direction(names[0], names[0])]
    return [Direction(a, b) for b in names for a in names if a != b]


def parse_directions(
    directions: Iterable[str] | None, modalities: Iterable[str], *, prototypes: bool
) -> list[Direction]:
    """Parse the names of directions, each once; by default all.

    A name is cut at that `2` which has a known modality on both sides.
    """
    targets = [check_modality_name(name) for name in modalities]
    if not targets:
        raise UsageError("No embeddings to search. Pass at least one modality.")
    if directions is None:
        return default_directions(targets, prototypes=prototypes)
    ways = [Direction(a, b) for b in targets for a in [*targets, PROTOTYPE]]
    ways += [Direction(a, PROTOTYPE) for a in targets if prototypes]
    parsed = [_parse_direction(name, ways) for name in checks.as_list(directions, "directions")]
    if not parsed:
        raise UsageError("directions is empty. Name at least one, such as 'text2sensor'.")
    for direction in parsed:
        if direction.source == PROTOTYPE and not prototypes:
            raise UsageError(
                f"The direction {direction.name!r} needs prototypes. Pass label descriptions "
                "and an encoder, or prototype embeddings."
            )
    return list(dict.fromkeys(parsed))


def _parse_direction(name: object, ways: list[Direction]) -> Direction:
    cuts = [way for way in ways if way.name == name]
    if len(cuts) == 1:
        return cuts[0]
    if cuts:
        both = " or ".join(f"{cut.source} → {cut.target}" for cut in cuts)
        raise UsageError(f"The direction {name!r} is ambiguous: {both}. Rename a modality.")
    names = [way.name for way in ways]
    hint = did_you_mean(str(name), names, most=2)
    raise UsageError(f"Unknown direction {name!r}.{hint} Known: {', '.join(names)}.")


_TOP: Final = ("Success@1", "Success@5")


def zero_shot_classification(
    modalities: Mapping[str, Any],
    labels: Any = None,
    *,
    prototypes: Prototypes,
    measures: Iterable[str | Measure] = (),
    **options: Any,
) -> CrossmodalResult:
    """Classify the samples of each modality by prototypes.

    The convention is CLIP's (Radford et al. 2021, §3.1): a class is the mean of its descriptions'
    vectors, each of length 1 before under cosine; top-1 and top-5 accuracy are the shares of
    samples whose label is the nearest class, or among the five nearest. The mean over classes of
    their accuracy, which is balanced accuracy, stands beside them. Samples whose label has no
    description cannot be classified: they are left out, counted and named.

    Args:
        modalities: Embeddings by the name of their modality.
        labels: One label per sample, or {level: labels}.
        prototypes: Embedded descriptions of the classes.
        measures: Further measures.
        **options: Further options of `label_retrieval`.

    Returns:
        Accuracies (`table`), classes and mistakes of every level and modality.

    Raises:
        UsageError: Settings contradict each other, or name nothing that is there.
        MismatchError: Ids, labels or dimensions do not fit.

    >>> prototypes = Prototypes.of([[1, 0], [0, 1]], ["cat", "dog"])
    >>> vectors = [[3, 1], [2, 1], [1, 2], [2, 1]]
    >>> result = zero_shot_classification(
    ...     {"image": vectors}, ["cat", "cat", "dog", "dog"], prototypes=prototypes
    ... )
    >>> result["image2prototype"].micro["Success@1"]
    0.75
    """
    named = [*_TOP, *(measure for measure in measures if str(measure) not in _TOP)]
    directions = options.pop("directions", None) or [f"{name}2{PROTOTYPE}" for name in modalities]
    fixed: Any = {"measures": named, "k_values": (), "directions": directions}
    options = {"confusion_k": 1, **options}
    result = label_retrieval(modalities, labels, prototypes=prototypes, **fixed, **options)
    return CrossmodalResult(result.directions, zero_shot=True)


def paired_retrieval(
    modalities: Mapping[str, Any],
    *,
    protocol: str = "pairs",
    modality_labels: Mapping[str, Any] | None = None,
    qrels: Mapping[str, Any] | None = None,
    measures: str | Measure | Iterable[str | Measure] = (),
    folds: int | None = None,
    **options: Any,
) -> CrossmodalResult:
    """Score image–text retrieval as its papers do: R@K, MedR, MeanR, rSum.

    The convention is that of VSE++ (Faghri et al. 2018; its program is fartashf/vsepp,
    evaluation.py), on the splits of Karpathy & Fei-Fei 2015:

    - R@K is the share of queries with at least one positive among the first K: `Success@K` here,
      not the share of positives that are found. CLIP's papers and LAION's CLIP_benchmark do the
      same.
    - MedR and MeanR are median and mean of the rank of the first positive; the median is rounded
      down.
    - rSum is the sum of the six R@K in percent.
    - 1K on MS-COCO: five folds of 1,000 images in order, each its own gallery; the mean over folds.
    - Five captions an image, one after the other. A file that repeats each image five times is
      taken.

    Ties, which that program leaves to an unstable sort, are broken as `ties` says. Several
    positives beyond the pair (ECCV Caption, Chun et al. 2022; CxC, Parekh et al. 2021) are given as
    qrels.

    Args:
        modalities: Embeddings of images, then of texts, by name.
        protocol: Name in `PROTOCOLS`.
        modality_labels: Id of each row's pair; by default texts follow one another image by image.
        qrels: Further positives by direction, as in `label_retrieval`.
        measures: Further measures.
        folds: Number of galleries that are searched in turn; by default the protocol's.
        **options: metric, ties, zero, threads and progress of `label_retrieval`.

    Returns:
        Both directions at the level `pair` and, with qrels, at the level `qrels`.

    Raises:
        UsageError: The protocol is unknown, or there are not two modalities.
        ShapeError: Rows cannot be paired, or not split into equal folds.

    >>> images, texts = [[1, 0], [0, 1]], [[1, 0], [2, 1], [1, 2], [3, 1]]
    >>> result = paired_retrieval({"image": images, "text": texts})
    >>> result.means("text2image")["Success@1"], result.rsum().value
    (0.75, 575.0)
    """
    if protocol not in PROTOCOLS:
        hint = did_you_mean(str(protocol), PROTOCOLS)
        raise UsageError(f"Unknown protocol {protocol!r}.{hint} Known: {', '.join(PROTOCOLS)}.")
    rule = PROTOCOLS[protocol]
    checks.require(modalities, Mapping, "modalities", "{name: embeddings}")
    if len(modalities) != 2:
        raise UsageError(f"Pairs need two modalities, images and texts; found {len(modalities)}.")
    rows = {
        name: part if isinstance(part, SampleRows) else SampleRows(checks.plain_array(part, name))
        for name, part in modalities.items()
    }
    pairs = _pair_by_layout(rows, rule) if modality_labels is None else modality_labels
    parts = {name: _label_pairs(name, part, pairs.get(name)) for name, part in rows.items()}
    n_folds = rule.folds if folds is None else checks.check_cutoff(folds, "folds")
    if n_folds > 1 and qrels:
        raise UsageError("qrels judge the whole gallery and exclude folds. Omit one.")
    image, text = parts
    ways = [f"{image}2{text}", f"{text}2{image}"]
    named = list(RECALLS)
    named += [str(m) for m in (parse_many(measures) if measures else ()) if str(m) not in named]
    fixed: Any = {"qrels": qrels, "directions": ways, "k_values": (), "measures": named}
    fixed |= {"confusion_k": 1, "first_ranks": True}
    results = []
    for fold in _split_folds(parts, n_folds):
        sides = {name: SampleRows(part.modalities[name], part.ids) for name, part in fold.items()}
        levels = {name: part.levels for name, part in fold.items()}
        results.append(label_retrieval(sides, modality_labels=levels, **fixed, **options))
    setting = {"protocol": rule.name, "folds": n_folds if n_folds > 1 else None}
    merged = [
        DirectionResult.merge([fold.direction(name, level) for fold in results], setting)
        for level, directions in results[0].levels.items()
        for name in ways
        if name in directions
    ]
    n_images = len(np.unique(parts[image].levels["pair"]))
    return CrossmodalResult(merged, protocol=rule.name, folds=n_folds, n_images=n_images)


def _label_pairs(name: str, rows: SampleRows, labels: Any) -> Samples:
    """Return the rows of a modality with the ids of their pairs."""
    if labels is None:
        raise UsageError(f"The modality {name!r} has no labels. Pass modality_labels for it.")
    levels = _as_rows(labels if isinstance(labels, Mapping) else {"pair": labels})
    if len(levels) != 1:
        raise UsageError(f"Pairs of {name!r} need one level of labels; found {len(levels)}.")
    return align({name: rows}, {"pair": next(iter(levels.values()))})


def _pair_by_layout(rows: dict[str, SampleRows], rule: Protocol) -> dict[str, Ints]:
    """Pair texts in the order of their images, equally many each.

    Images that their file repeats for each caption stay once, in `rows`.
    """
    image, text = rows
    n, n_texts = len(rows[image].values), len(rows[text].values)
    captions = rule.captions or max(n_texts // max(n, 1), 1)
    if n == n_texts and captions > 1 and n % captions == 0:
        vectors = np.asarray(rows[image].values[:])
        if np.array_equal(np.repeat(vectors[::captions], captions, axis=0), vectors):
            rows[image], n = SampleRows(vectors[::captions]), n // captions
    if n_texts != captions * n:
        raise ShapeError(
            f"{rule.name}: {captions} rows of {text!r} per row of {image!r} expected, found "
            f"{n_texts} for {n}. Pass modality_labels."
        )
    return {image: np.arange(n), text: np.arange(captions * n) // captions}


def _split_folds(parts: dict[str, Samples], n_folds: int) -> list[dict[str, Samples]]:
    """Split into folds of consecutive images with all their texts."""
    if n_folds == 1:
        return [parts]
    labels = next(iter(parts.values())).levels["pair"]
    names = labels[np.sort(np.unique(labels, return_index=True)[1])]
    folds = [
        {name: part.take(np.isin(part.levels["pair"], some)) for name, part in parts.items()}
        for some in np.array_split(names, n_folds)
    ]
    if len({tuple(len(part.ids) for part in fold.values()) for fold in folds}) > 1:
        raise ShapeError(
            f"{len(names)} pairs do not split into {n_folds} equal folds. Change folds."
        )
    return folds
