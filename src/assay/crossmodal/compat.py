"""The functions of the label retrieval scripts, by their names and shapes.

    compute_label_recall_at_k            instance retrieval between sensors and texts
    compute_prototype_retrieval_metrics  label descriptions as queries
    load_text_prototypes_from_metadata, encode_text_prototypes
    create_text_encoder_from_checkpoint, get_optimal_device
    print_results_summary, save_results

What is called Label-Recall@K here divides by K: it is precision, P@k.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from assay.arrays import or_none
from assay.core.checks import is_real
from assay.core.on_demand import OnDemand
from assay.core.text import printable
from assay.crossmodal.evaluate import label_retrieval
from assay.crossmodal.results import DirectionResult
from assay.crossmodal.samples import (
    Direction,
    Prototypes,
    encode_text_prototypes,
    load_text_prototypes_from_metadata,
)
from assay.errors import UsageError
from assay.io.streams import atomic_write

if TYPE_CHECKING:
    from assay.models import encoding
    from assay.models.adapters import torch_file
else:  # only a checkpoint needs a model
    encoding = OnDemand("assay.models.encoding")
    torch_file = OnDemand("assay.models.adapters.torch_file")

__all__ = ["as_document_json", "compute_label_recall_at_k", "compute_prototype_retrieval_metrics"]
__all__ += ["create_text_encoder_from_checkpoint", "encode_text_prototypes", "get_optimal_device"]
__all__ += [
    "load_text_prototypes_from_metadata",
    "print_results_summary",
    "save_results",
    "summary",
]


def compute_label_recall_at_k(
    sensor_embeddings: Any = None,
    text_embeddings: Any = None,
    labels: Any = None,
    k_values: Iterable[int] = (10, 50, 100),
    directions: Iterable[str] | None = None,
    normalize: bool = True,
    verbose: bool = False,
) -> dict[str, DirectionResult]:
    """Score retrieval between sensors and texts that belong together row by row.

    `results["text2sensor"][10]` is the share of the ten nearest sensors that carry the text's
    label: P@10, averaged over texts. Without `normalize` similarity is the dot product. In
    `sensor2sensor` and `text2text` no item finds itself.
    """
    modalities = {"sensor": sensor_embeddings, "text": text_embeddings}
    settings = {"directions": directions, "k_values": k_values}
    return _retrieve(modalities, "labels", labels, normalize, verbose, **settings)


def compute_prototype_retrieval_metrics(
    prototype_embeddings: Any,
    prototype_labels: Any,
    sensor_embeddings: Any = None,
    text_embeddings: Any = None,
    target_labels: Any = None,
    k_values: Iterable[int] = (10, 50, 100),
    directions: Iterable[str] | None = None,
    normalize: bool = True,
    verbose: bool = False,
    *,
    truncate: bool = False,
) -> dict[str, DirectionResult]:
    """Score label descriptions as queries against the items.

    A prototype whose label no item carries is left out and listed in `empty_labels`. `truncate`
    divides by min(K, items of the label), so that a rare label can reach 1.
    """
    modalities = {"sensor": sensor_embeddings, "text": text_embeddings}
    prototypes = Prototypes.of(prototype_embeddings, prototype_labels)
    settings: Any = {"directions": directions, "k_values": k_values, "prototypes": prototypes}
    settings["truncate"] = truncate
    return _retrieve(modalities, "target_labels", target_labels, normalize, verbose, **settings)


def create_text_encoder_from_checkpoint(
    checkpoint: Mapping[str, Any] | str | os.PathLike[str], device: Any = None
) -> encoding.Encoder:
    """Make the text encoder that a checkpoint names.

    Args:
        checkpoint: The file, or what `torch.load` returned for it: `encoder`, the spec of a text
            model, and `projection.weight`, if any.
        device: Device of the text model.

    Returns:
        An encoder for `encode_text_prototypes`.

    Raises:
        FormatError: The checkpoint names no text model, as those of training runs.

    >>> create_text_encoder_from_checkpoint({"encoder": "wordllama"})  # doctest: +SKIP
    """
    where, name = None if device is None else str(device), "the checkpoint"
    if isinstance(checkpoint, Mapping):
        return torch_file.make_encoder(checkpoint, encoding.EncoderRequest(name, name, where))
    path = os.fspath(checkpoint)
    return torch_file.load(encoding.EncoderRequest(f"checkpoint:{path}", path, where))


def get_optimal_device() -> Any:
    """Return the device of torch that is fastest here: cuda, mps or cpu; "cpu" without torch."""
    try:
        torch = import_module("torch")
    except ImportError:
        return "cpu"
    fast = [name for name in ("cuda", "mps") if getattr(torch, name).is_available()]
    return torch.device(fast[0] if fast else "cpu")


def _retrieve(
    sides: dict[str, Any], name: str, labels: Any, normalize: bool, verbose: bool, **settings: Any
) -> dict[str, DirectionResult]:
    """Search with one level of labels; with `verbose` print remarks to stderr."""
    if labels is None:
        raise UsageError(f"{name} is missing. Pass one label per sample.")
    if isinstance(labels, Mapping):
        raise UsageError(f"{name} needs one label per sample. For levels use label_retrieval.")
    present = {side: vectors for side, vectors in sides.items() if vectors is not None}
    settings["metric"] = "cosine" if normalize else "dot"
    result = label_retrieval(present, {"label": labels}, **settings)
    for direction in result.directions if verbose else ():
        sizes = f"{direction.scores.n_queries} queries, {direction.n_docs} items"
        for remark in (sizes, *direction.remarks()):
            print(f"{direction.direction.name}: {remark}", file=sys.stderr)
    return result.levels["label"]


Results = Mapping[str, Mapping[Any, float]]

_WIDTH, _RULE = 70, 40


def summary(results: Results, *, level: str = "") -> str:
    """Return the results as the document prints them.

    Several levels of labels are told apart by name.
    """
    sound = isinstance(results, Mapping)
    if not sound or not all(isinstance(values, Mapping) for values in results.values()):
        raise UsageError("Results are {direction: {cutoff: value}}.")
    title = "LABEL-RECALL@K RESULTS SUMMARY" + (f" ({printable(level)})" if level else "")
    lines = ["=" * _WIDTH, title, "=" * _WIDTH, ""]
    for name, values in results.items():
        source, cut, target = name.partition("2")
        heading = Direction(source, target).title if cut else name
        if isinstance(values, DirectionResult):
            heading = values.direction.title
        lines += [f"{printable(heading)}:", "-" * _RULE]
        for k, value in values.items():
            words = "undefined: no query's label occurs among the items"
            if value is not None and not math.isnan(value):
                words = f"= {value:.4f} ({100 * value:.2f}%)"
            lines.append(f"  K={int(k):3d}  =>  Label-Recall@K {words}")
        lines.append("")
    return "\n".join([*lines, "=" * _WIDTH])


def print_results_summary(results: Results) -> None:
    """Print Label-Recall@K by direction, from results or from what `save_results` wrote.

    >>> print_results_summary({"text2sensor": {10: 0.7}})  # doctest: +ELLIPSIS
    =====...
    Text -> Sensor:
    ----------------------------------------
      K= 10  =>  Label-Recall@K = 0.7000 (70.00%)
    ...
    """
    print(summary(results))


def as_document_json(results: Mapping[str, Any]) -> str:
    """Return the document's JSON: cutoffs are text, undefined is null.

    >>> print(as_document_json({"text2sensor": {10: 0.7}}))
    {
      "text2sensor": {
        "10": 0.7
      }
    }
    """
    return json.dumps(_plain(results), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any, depth: int = 0) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, depth + 1) for key, inner in value.items()}
    if not depth or not (is_real(value) or value is None):
        raise UsageError(f"Results are {{direction: {{cutoff: value}}}}, found {value!r:.60}.")
    return or_none(value)


def save_results(results: Mapping[str, Any], output_path: str | os.PathLike[str]) -> None:
    """Write the document's JSON atomically."""
    text = as_document_json(results)
    with atomic_write(output_path) as stream:
        stream.write(text.encode())
