"""`openai:MODEL`: any endpoint that speaks OpenAI's /v1/embeddings.

The address is `base_url` of the settings, else OPENAI_BASE_URL, else OpenAI's own; the key is
OPENAI_API_KEY, where one is needed. The protocol: https://platform.openai.com/docs/api-reference
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.encoders.base import Encoder
from assay.encoders.endpoint import Endpoint
from assay.encoders.specs import Request
from assay.errors import EndpointError

__all__ = ["load"]

_ADDRESS: Final = "https://api.openai.com/v1"
_VARIABLE: Final = "OPENAI_BASE_URL"
_TEXTS: Final = 64  # in one request
_CHARACTERS: Final = 200_000  # in one request, unless one text has more


def load(request: Request) -> Encoder:
    """Check the address; the endpoint is first asked when there are texts."""
    request.settings.refuse("max_length", "openai:", "the endpoint counts its own tokens")
    address = request.settings.base_url or os.environ.get(_VARIABLE) or _ADDRESS
    endpoint = Endpoint(address.rstrip("/"))
    return Encoder(
        request.spec,
        partial(_encode, endpoint, request.argument),
        lambda: {"endpoint": endpoint.base_url, "model": request.argument},
        repeatable=True,
        batch_size=_TEXTS,
    )


def _encode(endpoint: Endpoint, model: str, texts: list[str]) -> NDArray[np.float32]:
    rows: list[list[float]] = []
    for part in _requests(texts):
        content = {"model": model, "input": part, "encoding_format": "float"}
        answer = endpoint.post("/embeddings", content)
        rows.extend(_rows(answer, len(part), f"{endpoint.base_url}/embeddings"))
    return _joined(rows, endpoint.base_url)


def _requests(texts: list[str]) -> Iterator[list[str]]:
    """Texts that one request may carry."""
    part: list[str] = []
    size = 0
    for text in texts:
        if part and (size + len(text) > _CHARACTERS or len(part) == _TEXTS):
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    yield part


def _rows(answer: Any, count: int, place: str) -> list[list[float]]:
    """Vectors in the order of the texts, which `index` tells; order of arrival does not count."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        raise EndpointError(f"{place}: the answer holds no list 'data' of embeddings.")
    if len(data) != count:
        raise EndpointError(f"{place}: {len(data)} embeddings came back for {count} texts.")
    rows: dict[int, list[float]] = {}
    for entry in data:
        index = entry.get("index")
        if type(index) is not int or not 0 <= index < count or index in rows:
            raise EndpointError(
                f"{place}: the places (index) of the embeddings must be 0 to {count - 1}, each "
                f"once, found {index if type(index) is int else type(index).__name__}."
            )
        rows[index] = _row(entry.get("embedding"), index, place)
    return [rows[index] for index in range(count)]


def _row(values: Any, index: int, place: str) -> list[float]:
    sound = isinstance(values, list) and values
    if not sound or not all(type(v) in (int, float) and math.isfinite(v) for v in values):
        raise EndpointError(f"{place}: embedding {index} is no list of finite numbers.")
    row: list[float] = values
    return row


def _joined(rows: list[list[float]], place: str) -> NDArray[np.float32]:
    widths = sorted({len(row) for row in rows})
    if len(widths) > 1:
        raise EndpointError(
            f"{place}: embeddings of {widths[0]} and of {widths[-1]} dimensions came back together."
        )
    return np.array(rows, np.float32)
