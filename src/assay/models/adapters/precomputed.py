"""`npy:FILE` and `npy:DOCS,QUERIES`: vectors that were computed before, by row or by id.

DOCS and QUERIES may hold token vectors (.npz or .safetensors with offsets, lengths or a mask) or
sparse ones (.npz of scipy, .jsonl of weights by term).

A .npz holds both sides, as `docs` and `queries`, and ids if there are any (`doc_ids`,
`query_ids`). Rows belong to texts by id where both have ids, else by their order.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from assay.core import checks
from assay.core.ids import Ids
from assay.core.mismatches import describe_near
from assay.errors import IdError, MismatchError, UsageError
from assay.io.arrays import NpyRows, read_vectors
from assay.io.mapped import WatchedFile, steady_files
from assay.io.streams import missing_file, split_array
from assay.models import encoding
from assay.models.encoding import Encoded, EncoderRequest, Progress, TextModel, weights_of
from assay.models.ragged import NAMES, VectorKind, have_numbers, refuse_settings, take_rows
from assay.models.settings import EncoderSettings
from assay.search.engine.sparse_vectors import is_sparse, read_sparse_file
from assay.search.engine.token_vectors import is_tokens, read_tokens

_WHY: Final = "its vectors are precomputed"


def load(request: EncoderRequest) -> NoReturn:
    """Refuse: vectors of one collection cannot encode other texts."""
    raise UsageError(f"{request.spec!r} encodes one collection only. Use another encoder.")


def files_of(spec: str) -> tuple[str, str]:
    """Return the files of documents and of queries that a spec names."""
    files = spec.partition(":")[2].split(",")
    if len(files) > 2 or not all(files):
        raise UsageError(f"{spec!r} names no vectors. Write npy:FILE.npz or npy:DOCS,QUERIES.")
    return files[0], files[-1]


def kind_of_spec(spec: str) -> VectorKind | None:
    """Return what the files hold: dense, token or sparse vectors; None where one is not there."""
    docs, queries = map(_kind_of_file, files_of(spec))
    if docs is None or queries is None:
        return None  # reading says what is wrong
    if docs != queries:
        raise UsageError(f"{spec!r} mixes {NAMES[docs]} and {NAMES[queries]}. Use one kind.")
    return docs


def _kind_of_file(file: str) -> VectorKind | None:
    if not os.path.exists(split_array(file)[0]):
        return None
    if not os.path.exists(file):  # FILE:ARRAY
        return "dense"
    return "tokens" if is_tokens(file) else "sparse" if is_sparse(file) else "dense"


class PrecomputedModel(TextModel):
    """Read vectors from files; a row of zeros is taken as it is."""

    def __init__(self, spec: str, settings: EncoderSettings) -> None:
        files = files_of(spec)
        for name in ("query_prefix", "doc_prefix"):
            if getattr(settings, name):
                raise UsageError(f"{spec!r} does not support {name}: {_WHY}.")
        for name in ("max_length", "base_url"):
            settings.refuse(name, "npy:", _WHY)
        self.spec, self.settings, self.repeatable = spec, settings, True
        for path in (split_array(file)[0] for file in files):
            if not os.path.exists(path):  # what the other holds would be taken for dense vectors
                raise missing_file(path)
        self.kind = kind_of_spec(spec) or "dense"
        refuse_settings(self.kind, settings, "npy:")
        if self.kind != "dense" and files[0] == files[1]:
            raise UsageError(
                f"{spec!r}: {NAMES[self.kind]} need two files. Write npy:DOCS,QUERIES."
            )
        self._files = {"doc": files[0], "query": files[1]}
        self._seen: dict[str, WatchedFile] = {}

    @property
    def _identity(self) -> dict[str, Any]:
        """Return what the files hold."""
        with steady_files(*map(self._watched, self._files.values())):
            return {side: weights_of(Path(file)) for side, file in self._files.items()}

    def _watched(self, file: str) -> WatchedFile | None:
        """Return the file as it was when it was first looked at; None where it is not there."""
        path = split_array(file)[0]
        if path not in self._seen and os.path.exists(path):
            self._seen[path] = WatchedFile(path)
        return self._seen.get(path)

    def _encode_side(
        self, side: str, texts: Sequence[str], progress: Progress | None, ids: Any
    ) -> Encoded:
        """Read the vectors of one side."""
        checked = encoding.checked_texts(texts, self.spec)
        file = self._files[side]
        with steady_files(self._watched(file)):  # its digest is in the fingerprint
            vectors, file_ids = _read_side(self.kind, file, side)
        if ids is not None and file_ids is not None:
            text_ids = Ids.of(ids, what=side)
            checks.check_lengths(texts=len(checked), ids=len(text_ids))
            vectors = take_rows(vectors, _rows_of(text_ids, file_ids, file, side))
        elif len(vectors) != len(checked):
            raise MismatchError(
                f"{file} holds {len(vectors)} {side} vectors for {len(checked)} texts. Align "
                "them by order, or add ids on both sides."
            )
        if self.kind != "dense":
            shaped = encoding.shape_ragged(vectors, self.settings, self.spec)
            return Encoded(shaped, 0, 0.0, None, ~have_numbers(shaped))
        rows = encoding.as_vectors(vectors, len(checked), self.spec)
        checks.check_finite(rows, f"{file}, {side} vectors")
        shaped = encoding.shape_vectors(rows, self.settings, self.spec)
        return Encoded(shaped, 0, 0.0, None, np.logical_not(rows.any(axis=1)))


def _read_side(kind: VectorKind, file: str, side: str) -> tuple[Any, Ids | None]:
    """Read the vectors of a side, and ids where there are any."""
    if kind == "sparse":
        return read_sparse_file(file, side)
    if kind == "tokens":
        tokens = read_tokens(file)
        if tokens.values.dtype == np.float64:  # as dense vectors are
            tokens = replace(tokens, values=np.asarray(tokens.values, np.float32))
        tokens.rows(0, len(tokens), f"{file}, {side}", tokens.ids)  # NaN is found at once
        return replace(tokens, ids=None), tokens.ids
    held = read_vectors(file, side)
    return held.vectors.read() if isinstance(held.vectors, NpyRows) else held.vectors, held.ids


def _rows_of(text_ids: Ids, file_ids: Ids, file: str, side: str) -> NDArray[np.int64]:
    checks.check_unique(file_ids, side)
    place = {file_ids[row]: row for row in range(len(file_ids))}
    missing = [text_ids[i] for i in range(len(text_ids)) if text_ids[i] not in place]
    if missing:
        few, near = checks.name_few(missing), describe_near(missing, place)
        raise IdError(f"{file} holds no vector of {side} {few}.{near}")
    return np.array([place[text_ids[i]] for i in range(len(text_ids))], np.int64)
