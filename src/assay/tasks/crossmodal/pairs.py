"""Image–text retrieval as its papers report it: R@1, R@5, R@10 both ways, rSum, MedR and MeanR.

The convention is that of VSE++ (Faghri et al. 2018; its program is fartashf/vsepp, evaluation.py),
on the splits of Karpathy & Fei-Fei 2015:

- R@K is the share of queries with at least one positive among the first K: `Success@K` here, not
  the share of positives that are found. CLIP's papers and LAION's CLIP_benchmark do the same.
- MedR and MeanR are median and mean of the rank of the first positive; the median is rounded down.
- rSum is the sum of the six R@K in percent.
- 1K on MS-COCO: five folds of 1,000 images in order, each its own gallery; the mean over folds.
- Five captions an image, one after the other. A file that repeats each image five times is taken.

Ties, which that program leaves to an unstable sort, are broken as `ties` says. Several positives
beyond the pair (ECCV Caption, Chun et al. 2022; CxC, Parekh et al. 2021) are given as qrels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from assay.arrays import Array, Ints
from assay.core import checks
from assay.core.ids import Ids
from assay.core.text import did_you_mean
from assay.errors import ShapeError, UsageError
from assay.measures import Measure, parse_many
from assay.scoring.scores import Scores
from assay.tasks.crossmodal.directions import Metric, Zero
from assay.tasks.crossmodal.evaluate import label_retrieval
from assay.tasks.crossmodal.pair_results import PairedDirection, PairedResult
from assay.tasks.crossmodal.results import DirectionResult
from assay.tasks.crossmodal.samples import SampleRows, align

__all__ = ["PROTOCOLS", "Protocol", "paired_retrieval"]

CUTOFFS: Final = (1, 5, 10)


@dataclass(frozen=True)
class Protocol:
    """How pairs stand in the files, and what is averaged; None is left to the files."""

    name: str
    about: str
    captions: int | None = None
    images: int | None = None
    folds: int = 1


PROTOCOLS: Final = {
    one.name: one
    for one in (
        Protocol("coco-5k", "MS-COCO 5K test: 5,000 images, 5 captions each", 5, 5000),
        Protocol("coco-1k", "MS-COCO 1K test: mean over 5 folds of 1,000 images", 5, 5000, 5),
        Protocol("flickr30k", "Flickr30K test: 1,000 images, 5 captions each", 5, 1000),
        Protocol("pairs", "any number of images, any number of texts each"),
    )
}


def paired_retrieval(
    modalities: Mapping[str, Any],
    *,
    protocol: str = "pairs",
    modality_labels: Mapping[str, Any] | None = None,
    qrels: Mapping[str, Any] | None = None,
    measures: str | Measure | Iterable[str | Measure] = (),
    folds: int | None = None,
    metric: Metric = "cosine",
    ties: str = "order",
    zero: Zero = "error",
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PairedResult:
    """R@1, R@5, R@10, MedR and MeanR in both directions, and rSum, of two modalities.

    `modalities` has the images first, then the texts. Without `modality_labels`, which hold the id
    of each row's pair, texts follow one another image by image. `qrels` and `measures` add
    positives and measures as in `label_retrieval`; `folds` are galleries searched in turn.

    >>> images, texts = [[1, 0], [0, 1]], [[1, 0], [2, 1], [1, 2], [3, 1]]
    >>> found = paired_retrieval({"image": images, "text": texts})
    >>> found.means("text2image")["Success@1"], found.rsum().value
    (0.75, 575.0)
    """
    rule = _find_protocol(protocol)
    checks.require(modalities, Mapping, "modalities", "{name: embeddings}")
    if len(modalities) != 2:
        raise UsageError(f"Pairs are of two modalities, images and texts; found {len(modalities)}.")
    parts = {name: _as_part(name, rows) for name, rows in modalities.items()}
    if modality_labels is None:
        parts = _pair_by_layout(parts, rule)
    else:
        parts = {name: part.labelled(modality_labels.get(name)) for name, part in parts.items()}
    n_folds = rule.folds if folds is None else checks.check_cutoff(folds, "folds")
    if n_folds > 1 and qrels:
        raise UsageError("qrels judge the whole gallery: they do not go with folds.")
    one, many = parts
    wanted = [f"{one}2{many}", f"{many}2{one}"]
    named = [f"Success@{k}" for k in CUTOFFS]
    named += [str(m) for m in (parse_many(measures) if measures else ()) if str(m) not in named]
    found = [
        label_retrieval(
            {name: SampleRows(part.vectors, part.ids) for name, part in fold.items()},
            modality_labels={name: {"pair": part.labels} for name, part in fold.items()},
            qrels=qrels,
            directions=wanted,
            k_values=(),
            measures=named,
            confusion_k=1,
            metric=metric,
            ties=ties,
            zero=zero,
            first_ranks=True,
            threads=threads,
            progress=progress,
        )
        for fold in _split(parts, n_folds)
    ]
    levels = {
        level: [
            _merge([fold[level][name] for fold in found], rule.name)
            for name in wanted
            if name in found[0][level]
        ]
        for level in found[0]
    }
    n_images = len(np.unique(next(iter(parts.values())).labels))
    return PairedResult(rule.name, rule.about, levels, n_folds, n_images, rule.images)


def _find_protocol(name: str) -> Protocol:
    if name not in PROTOCOLS:
        hint = did_you_mean(str(name), PROTOCOLS)
        raise UsageError(f"Unknown protocol {name!r}.{hint} Known: {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[name]


@dataclass(frozen=True, eq=False)
class _PairedRows:
    """One modality: vectors, ids of its rows, and the id of each row's pair."""

    name: str
    vectors: Any
    ids: Ids
    labels: Array

    def take(self, rows: Ints) -> _PairedRows:
        return _PairedRows(self.name, self.vectors[rows], self.ids.take(rows), self.labels[rows])

    def labelled(self, labels: Any) -> _PairedRows:
        """The same rows with the ids of their pairs, matched by sample id where both have these."""
        if labels is None:
            raise UsageError(f"The modality {self.name!r} has no labels of its own.")
        levels = dict(labels) if isinstance(labels, Mapping) else {"pair": labels}
        if len(levels) != 1:
            raise UsageError(f"Pairs of {self.name!r} have one level, found {len(levels)}.")
        (given,) = levels.values()
        rows = given if isinstance(given, SampleRows) else SampleRows(given)
        own = SampleRows(self.vectors, None if self.ids.numbered else self.ids)
        found = align({self.name: own}, {"pair": rows})
        return _PairedRows(self.name, found.modalities[self.name], found.ids, found.levels["pair"])


def _as_part(name: str, rows: Any) -> _PairedRows:
    values, ids = rows if isinstance(rows, SampleRows) else (checks.plain_array(rows, name), None)
    return _PairedRows(
        name,
        values,
        Ids.count(len(values)) if ids is None else Ids.of(ids, what="sample"),
        np.zeros(0, np.int64),
    )


def _pair_by_layout(parts: dict[str, _PairedRows], rule: Protocol) -> dict[str, _PairedRows]:
    """Pair ids where texts stand in the order of their images, equally many each."""
    image, text = parts.values()
    captions = rule.captions or max(len(text.ids) // max(len(image.ids), 1), 1)
    if len(image.ids) == len(text.ids) and captions > 1:
        image = _drop_repeats(image, captions)
    n = len(image.ids)
    if len(text.ids) != captions * n:
        raise ShapeError(
            f"{rule.name}: {captions} rows of {text.name!r} for each of {image.name!r} are "
            f"expected, found {len(text.ids)} for {n}. Give the pair of each row "
            "(modality_labels)."
        )
    return {
        image.name: image.labelled(np.arange(n)),
        text.name: text.labelled(np.arange(captions * n) // captions),
    }


def _drop_repeats(part: _PairedRows, times: int) -> _PairedRows:
    """Each image once, of a file that repeats it for each of its captions."""
    rows = np.asarray(part.vectors[:])
    first = rows[::times]
    whole = len(rows) % times == 0
    if not whole or not np.array_equal(np.repeat(first, times, axis=0), rows):
        return part
    return _PairedRows(part.name, first, Ids.count(len(first)), part.labels)


def _split(parts: dict[str, _PairedRows], n_folds: int) -> list[dict[str, _PairedRows]]:
    """Consecutive images with all their texts, equally many in each fold."""
    if n_folds == 1:
        return [parts]
    labels = next(iter(parts.values())).labels
    names = labels[np.sort(np.unique(labels, return_index=True)[1])]
    folds = [
        {
            name: part.take(np.flatnonzero(np.isin(part.labels, some)))
            for name, part in parts.items()
        }
        for some in np.array_split(names, n_folds)
    ]
    sizes = {tuple(len(part.ids) for part in fold.values()) for fold in folds}
    if len(sizes) > 1:
        raise ShapeError(f"{len(names)} pairs cannot be parted into {n_folds} folds of one size.")
    return folds


def _merge(folds: list[DirectionResult], protocol: str) -> PairedDirection:
    """One direction from its folds, with the number of the fold as a group."""
    setting = {"protocol": protocol, "folds": len(folds) if len(folds) > 1 else None}
    kinds = {
        kind: Scores.merge(*(getattr(one, kind).but_settings(**setting) for one in folds))
        for kind in ("scores", "chance", "ceiling")
    }
    return PairedDirection(
        folds[0].direction,
        folds[0].level,
        **kinds,
        ranks=[one.first_ranks for one in folds if one.first_ranks is not None],
        n_docs=folds[0].n_docs,
        remarks=tuple(dict.fromkeys(words for one in folds for words in one.remarks())),
    )
