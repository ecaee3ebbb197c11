"""Label retrieval across modalities: do the neighbours of an item carry its label?

    label_retrieval                      any modalities, several levels of labels, prototypes
    compute_label_recall_at_k            instance retrieval between sensors and texts
    compute_prototype_retrieval_metrics  label descriptions as queries
    load_text_prototypes_from_metadata, encode_text_prototypes
    print_results_summary, save_results

What is called Label-Recall@K here divides by K: it is precision, P@k.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from assay.core import checks
from assay.errors import UsageError
from assay.tasks.crossmodal.directions import (
    Metric,
    Plan,
    Zero,
    check_k_values,
    parse_directions,
)
from assay.tasks.crossmodal.prototypes import (
    encode_text_prototypes,
    load_text_prototypes_from_metadata,
)
from assay.tasks.crossmodal.results import DirectionResult, LabelResults
from assay.tasks.crossmodal.samples import Prototypes, Rows, align
from assay.tasks.crossmodal.search import check_questions, questions_of, search_direction
from assay.tasks.crossmodal.tables import print_results_summary, save_results

__all__ = [
    "DirectionResult",
    "LabelResults",
    "Prototypes",
    "Rows",
    "compute_label_recall_at_k",
    "compute_prototype_retrieval_metrics",
    "encode_text_prototypes",
    "label_retrieval",
    "load_text_prototypes_from_metadata",
    "print_results_summary",
    "save_results",
]

Progress = Callable[[int, int], None]


def label_retrieval(
    modalities: Mapping[str, Any],
    labels: Any,
    *,
    directions: Iterable[str] | None = None,
    k_values: Iterable[int] = (10, 50, 100),
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
    threads: int | None = None,
    progress: Progress | None = None,
) -> dict[str, LabelResults]:
    """Results by level of labels and direction, from embeddings by the name of their modality.

    `labels` is one label per sample, or {level: labels}. Embeddings and labels may be `Rows` with
    the ids of their samples: rows are then matched by id. `exclude_paired` keeps the sample itself
    from being found in another modality; in its own it never is. `truncate` divides by
    min(K, items of the label) in prototype directions, `full` adds further measures, `depth` is
    how deep a list may be for MAP@R. `progress(done, total)` counts queries.

    >>> vectors = [[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]]
    >>> found = label_retrieval({"image": vectors}, ["cat", "cat", "dog", "dog"], k_values=[1])
    >>> found["label"]["image2image"][1]
    1.0
    """
    plan = Plan(
        check_k_values(k_values),
        metric,
        ties,
        truncate,
        full,
        depth,
        exclude_paired,
        confusion_k,
        zero,
        threads,
    )
    checks.require(modalities, Mapping, "modalities", "{name: embeddings}")
    wanted = parse_directions(directions, modalities, prototypes=prototypes is not None)
    levels = labels if isinstance(labels, Mapping) else {"label": labels}
    samples = align(_as_rows(modalities), _as_rows(levels))
    dropped = [str(label) for label in checks.listed(drop_labels, "drop_labels")]
    if prototypes is not None:
        checks.require(prototypes, Prototypes, "prototypes", "Prototypes.of(embeddings, labels)")
        prototypes = prototypes.without(dropped)
    questions = questions_of(samples, wanted, prototypes, dropped)
    check_questions(questions, plan)
    done = _Steps(progress, sum(len(question.query_ids) for question in questions))
    found: dict[str, list[DirectionResult]] = {level: [] for level in samples.levels}
    for question in questions:
        for level, result in search_direction(question, plan, progress=done.next()).items():
            found[level].append(result)
    return {level: LabelResults(level, results) for level, results in found.items()}


def _as_rows(parts: Mapping[str, Any]) -> dict[str, Rows]:
    return {
        str(name): part if isinstance(part, Rows) else Rows(part) for name, part in parts.items()
    }


class _Steps:
    """Progress of several searches as progress of one."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.before, self.last = progress, total, 0, 0

    def next(self) -> Progress | None:
        if self.progress is None:
            return None
        self.before, self.last = self.before + self.last, 0
        return self._report

    def _report(self, done: int, total: int) -> None:
        self.last = total
        if self.progress is not None:
            self.progress(self.before + done, self.total)


def compute_label_recall_at_k(
    sensor_embeddings: Any = None,
    text_embeddings: Any = None,
    *,
    labels: Any,
    k_values: Iterable[int] = (10, 50, 100),
    directions: Iterable[str] | None = None,
    normalize: bool = True,
    verbose: bool = False,
) -> LabelResults:
    """Instance retrieval between sensors and texts that belong together row by row.

    `results["text2sensor"][10]` is the share of the ten nearest sensors that carry the text's
    label: P@10, averaged over texts. Without `normalize` similarity is the dot product. In
    `sensor2sensor` and `text2text` no item finds itself.
    """
    found = label_retrieval(
        _given(sensor=sensor_embeddings, text=text_embeddings),
        _one_level(labels, "labels"),
        directions=directions,
        k_values=k_values,
        metric="cosine" if normalize else "dot",
    )
    return _spoken(found["label"], verbose)


def compute_prototype_retrieval_metrics(
    prototype_embeddings: Any,
    prototype_labels: Any,
    *,
    sensor_embeddings: Any = None,
    text_embeddings: Any = None,
    target_labels: Any,
    k_values: Iterable[int] = (10, 50, 100),
    directions: Iterable[str] | None = None,
    normalize: bool = True,
    truncate: bool = False,
    verbose: bool = False,
) -> LabelResults:
    """Label descriptions as queries: do the nearest items carry the label that is described?

    A prototype whose label no item carries is left out and listed in `empty_labels`. `truncate`
    divides by min(K, items of the label), so that a rare label can reach 1.
    """
    found = label_retrieval(
        _given(sensor=sensor_embeddings, text=text_embeddings),
        _one_level(target_labels, "target_labels"),
        directions=directions,
        k_values=k_values,
        prototypes=Prototypes.of(prototype_embeddings, prototype_labels),
        metric="cosine" if normalize else "dot",
        truncate=truncate,
    )
    return _spoken(found["label"], verbose)


def _given(**modalities: Any) -> dict[str, Any]:
    return {name: vectors for name, vectors in modalities.items() if vectors is not None}


def _one_level(labels: Any, name: str) -> dict[str, Any]:
    if isinstance(labels, Mapping):
        raise UsageError(
            f"{name} must be one label per sample. label_retrieval takes several levels."
        )
    return {"label": labels}


def _spoken(results: LabelResults, verbose: bool) -> LabelResults:
    """Say on stderr what a reader of the results should know."""
    for name, result in results.items() if verbose else ():
        sizes = f"{result.scores.n_queries} queries, {result.n_docs} items"
        for remark in (sizes, *result.remarks()):
            print(f"{name}: {remark}", file=sys.stderr)
    return results
