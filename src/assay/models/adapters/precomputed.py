"""`npy:FILE` and `npy:DOCS,QUERIES`: vectors that were computed before, by row or by id.

A .npz holds both sides, as `docs` and `queries`, and ids if there are any (`doc_ids`,
`query_ids`). Rows belong to texts by id where both have ids, else by their order.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from assay.core import checks
from assay.core.ids import Ids
from assay.core.mismatches import describe_near
from assay.errors import IdError, MismatchError, UsageError
from assay.io.arrays import NpyRows, read_vectors
from assay.io.fingerprints import weights_of
from assay.io.mapped import WatchedFile, steady_files
from assay.io.streams import split_array
from assay.models import encoding
from assay.models.encoding import Encoded, EncoderRequest, Progress, TextModel
from assay.models.settings import EncoderSettings

_WHY: Final = "its vectors are computed already"


def load(request: EncoderRequest) -> NoReturn:
    """Refuse: vectors of one collection cannot encode other texts."""
    raise UsageError(f"{request.spec!r} holds vectors of one collection: it encodes no other text.")


class PrecomputedModel(TextModel):
    """Read vectors from files; a row of zeros is taken as it is."""

    def __init__(self, spec: str, settings: EncoderSettings) -> None:
        files = spec.partition(":")[2].split(",")
        if len(files) > 2 or not all(files):
            raise UsageError(f"{spec!r} names no vectors. Write npy:FILE.npz or npy:DOCS,QUERIES.")
        for name in ("query_prefix", "doc_prefix"):
            if getattr(settings, name):
                raise UsageError(f"{spec!r} does not support {name}: {_WHY}.")
        for name in ("max_length", "base_url"):
            settings.refuse(name, "npy:", _WHY)
        self.spec, self.settings, self.repeatable = spec, settings, True
        self._files = {"doc": files[0], "query": files[-1]}
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
            held = read_vectors(file, side)
            vectors = held.vectors.read() if isinstance(held.vectors, NpyRows) else held.vectors
        if ids is not None and held.ids is not None:
            text_ids = Ids.of(ids, what=side)
            checks.check_lengths(texts=len(checked), ids=len(text_ids))
            vectors = vectors[_rows_of(text_ids, held.ids, file, side)]
        elif len(vectors) != len(checked):
            raise MismatchError(
                f"{file} holds {len(vectors)} {side} vectors for {len(checked)} texts. They belong "
                "together by order; give ids on both sides to choose among them."
            )
        rows = encoding.as_vectors(vectors, len(checked), self.spec)
        checks.check_finite(rows, f"{file}, {side} vectors")
        shaped = encoding.shape_vectors(rows, self.settings, self.spec)
        return Encoded(shaped, 0, 0.0, None, np.logical_not(rows.any(axis=1)))


def _rows_of(text_ids: Ids, file_ids: Ids, file: str, side: str) -> NDArray[np.int64]:
    checks.check_unique(file_ids, side)
    place = {file_ids[row]: row for row in range(len(file_ids))}
    missing = [text_ids[i] for i in range(len(text_ids)) if text_ids[i] not in place]
    if missing:
        few, near = checks.name_few(missing), describe_near(missing, place)
        raise IdError(f"{file} holds no vector of {side} {few}.{near}")
    return np.array([place[text_ids[i]] for i in range(len(text_ids))], np.int64)
