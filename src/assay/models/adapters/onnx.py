"""`onnx:FOLDER`: a model exported to ONNX, run by onnxruntime.

The folder holds `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`, and beside them what
sentence-transformers writes: `1_Pooling/config.json` (how token vectors become one),
`sentence_bert_config.json` (maximum length) and `modules.json` (whether vectors are scaled to
length 1). A model that gives one vector for each text needs no pooling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array, Floats32
from assay.core import checks
from assay.errors import FormatError, StorageError, error_text, need
from assay.io.fingerprints import version_of
from assay.io.plain_data import parse_json
from assay.io.streams import read_text
from assay.models.encoding import Batch, Encoder, EncoderRequest, unit_rows, weights_of
from assay.search.engine.workers import Control, run


@dataclass(frozen=True)
class ModelFolder:
    """Read a model's folder; files are read when they are needed."""

    path: Path

    def file(self, *names: str) -> Path:
        """Return the first of these files that is there; refuse a folder without any."""
        for name in names:
            if (self.path / name).is_file():
                return self.path / name
        advice = "Pass the folder of an exported model"
        raise StorageError(f"{self.path} holds no {names[0]}. {advice}.")

    @property
    def max_length(self) -> int | None:
        """Return how many tokens the model reads, if the folder says it."""
        keys = {"sentence_bert_config.json": "max_seq_length", "config.json": _POSITIONS}
        for name, key in keys.items():
            length = self.settings(name).get(key)
            if length is not None:
                return checks.check_cutoff(length, f"{self.path / name}: {key}")
        return None

    @property
    def padding(self) -> int:
        """Return the token that fills short texts up."""
        token = self.settings("config.json").get("pad_token_id")
        return token if isinstance(token, int) else 0

    @property
    def scales(self) -> bool:
        """Tell whether vectors are scaled to length 1 at the end."""
        modules = self._json("modules.json")
        return isinstance(modules, list) and any(
            isinstance(module, dict) and str(module.get("type", "")).endswith(".Normalize")
            for module in modules
        )

    def pooling(self) -> Pool | None:
        """Return how token vectors become one, if the folder says it."""
        modes = [
            name.removeprefix("pooling_mode_")
            for name, on in self.settings("1_Pooling/config.json").items()
            if name.startswith("pooling_mode_") and on is True
        ]
        if not modes:
            return None
        if len(modes) > 1 or modes[0] not in _POOLS:
            raise FormatError(
                f"{self.path}: 1_Pooling/config.json asks for {', '.join(modes)}. Use one of "
                f"{', '.join(_POOLS)}."
            )
        return _POOLS[modes[0]]

    def settings(self, name: str) -> dict[str, Any]:
        """Read a file of settings; nothing where there is none."""
        settings = self._json(name)
        if settings is None:
            return {}
        if not isinstance(settings, dict):
            raise FormatError(f"{self.path / name} is not a JSON object. Download it again.")
        return settings

    def _json(self, name: str) -> Any:
        """Read a file of JSON; None where there is none."""
        file = self.path / name
        return parse_json(read_text(file), str(file)) if file.is_file() else None


Pool = Callable[[Array, Array], Array]

_POSITIONS: Final = "max_position_embeddings"

_TOKENS_AT_ONCE: Final = 256  # with padding: what the processor's own memory holds is faster
_INTEGERS: Final = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


def load(request: EncoderRequest) -> Encoder:
    """Read model, tokenizer and their settings from the folder."""
    folder = ModelFolder(Path(request.argument))
    model = open_model(folder, folder.pooling())
    length = request.settings.max_length or folder.max_length
    return folder_encoder(request, folder, model, length, lambda: weights_of(folder.path))


def open_model(folder: ModelFolder, pool: Pool | None) -> OnnxModel:
    """Open the model in a folder; `pool` makes one vector of those of the tokens."""
    file = str(folder.file("model.onnx", "onnx/model.onnx"))
    return OnnxModel(open_session(file, file, "onnx"), pool, folder.padding, file)


def open_session(
    model: str | bytes, name: str, extra: str, tensors: Mapping[str, Floats32] | None = None
) -> Any:
    """Open a session of onnxruntime; `tensors` are those that the model names and lacks."""
    package = need("onnxruntime", f"The encoder '{extra}'", extra)
    options = package.SessionOptions()
    options.log_severity_level = 3  # errors only: they are raised as well
    options.intra_op_num_threads = 1  # batches have threads of their own, which wait for nobody
    try:
        if tensors:
            values = [package.OrtValue.ortvalue_from_numpy(tensor) for tensor in tensors.values()]
            options.add_external_initializers(list(tensors), values)
        how = {"sess_options": options, "providers": ["CPUExecutionProvider"]}
        return package.InferenceSession(model, **how)
    except Exception as error:  # the package has its own exceptions for each kind of damage
        raise FormatError(f"{name} cannot be loaded: {error_text(error)}. Re-export it.") from None


def folder_encoder(
    request: EncoderRequest,
    folder: ModelFolder,
    model: OnnxModel,
    max_length: int | None,
    identity: Callable[[], dict[str, Any]],
) -> Encoder:
    """Return the encoder of a model with the tokenizer and the scale of its folder."""
    kind = request.spec.partition(":")[0]
    purpose = f"The encoder '{kind}'"
    tokenizer = Tokenizer(folder.file("tokenizer.json"), max_length, purpose=purpose, extra=kind)
    unit = request.settings.normalize is not False and folder.scales
    return Encoder(
        request.spec,
        partial(_encode, model, tokenizer, unit),
        lambda: {"onnxruntime": version_of("onnxruntime"), **identity()},
        repeatable=True,
        batch_size=256,
    )


def _mean(rows: Array, mask: Array) -> Array:
    weights = mask[:, :, None].astype(np.float32)
    with np.errstate(invalid="ignore"):  # a text without tokens becomes NaN, and is refused
        total: Array = (rows * weights).sum(axis=1) / weights.sum(axis=1)
    return total


_POOLS: Final[dict[str, Pool]] = {
    "mean_tokens": _mean,
    "cls_token": lambda rows, mask: rows[np.arange(len(rows)), mask.argmax(axis=1)],
    "max_tokens": lambda rows, mask: np.where(mask[:, :, None] > 0, rows, -np.inf).max(axis=1),
}


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """Hold a session, and what is done with its first output."""

    session: Any
    pool: Pool | None
    padding: int
    name: str

    def vectors(self, ids: list[list[int]], kinds: list[list[int]]) -> Array:
        """Return a row for each text of a batch."""
        mask = _pad([[1] * len(row) for row in ids], 0)
        tokens_by_name = {
            "input_ids": _pad(ids, self.padding),
            "attention_mask": mask,
            "token_type_ids": _pad(kinds, 0),
            "position_ids": np.broadcast_to(np.arange(mask.shape[1]), mask.shape),
        }
        output = np.asarray(self.session.run(None, self._inputs(tokens_by_name))[0])
        if output.ndim <= 2:
            return output
        if output.ndim != 3 or output.shape[:2] != mask.shape:
            raise FormatError(
                f"{self.name} gave the shape {output.shape} for {mask.shape[0]} texts of "
                f"{mask.shape[1]} tokens. Export one vector per text or token."
            )
        if self.pool is None:
            raise FormatError(
                f"{self.name} gives one vector per token, without a pooling rule. Write "
                '1_Pooling/config.json next to it: {"pooling_mode_mean_tokens": true} or '
                "pooling_mode_cls_token."
            )
        return self.pool(output, mask)

    def _inputs(self, tokens: dict[str, Array]) -> dict[str, Array]:
        inputs = {}
        for node in self.session.get_inputs():
            if node.name not in tokens or node.type not in _INTEGERS:
                raise FormatError(
                    f"{self.name} asks for the input {node.name!r} of {node.type}. Use "
                    f"{', '.join(tokens)}, of whole numbers."
                )
            inputs[node.name] = np.ascontiguousarray(tokens[node.name], _INTEGERS[node.type])
        return inputs


def _pad(rows: list[list[int]], filler: int) -> NDArray[np.int64]:
    padded = np.full((len(rows), max(map(len, rows))), filler, np.int64)
    for place, row in zip(padded, rows, strict=True):
        place[: len(row)] = row
    return padded


def _encode(model: OnnxModel, tokenizer: Tokenizer, unit: bool, texts: list[str]) -> Batch:
    """Encode texts, to length 1 where that is the model's last step."""
    tokens = tokenizer(texts)
    vectors = run_tokens(model, tokens)
    return Batch(unit_rows(vectors) if unit else vectors, tokens.truncated)


def run_tokens(model: OnnxModel, tokens: Tokens) -> Floats32:
    """Run a model on all cores; texts are sorted by length, so that little is padded."""
    vectors: list[Array] = [np.empty(0)] * len(tokens.ids)

    def compute(rows: list[int], control: Control) -> None:
        ids, kinds = ([part[row] for row in rows] for part in (tokens.ids, tokens.kinds))
        for row, vector in zip(rows, model.vectors(ids, kinds), strict=True):
            vectors[row] = vector

    run([partial(compute, rows) for rows in by_length(tokens.ids, _TOKENS_AT_ONCE)])
    return np.stack(vectors).astype(np.float32)


class Tokens(NamedTuple):
    """Hold for each text its token numbers and their kinds, and whether it was too long."""

    ids: list[list[int]]
    kinds: list[list[int]]
    truncated: NDArray[np.bool_]


class Tokenizer:
    """Turn texts into token numbers by a tokenizer.json: cut, never padded."""

    def __init__(self, path: Path, max_length: int | None, *, purpose: str, extra: str) -> None:
        package = need("tokenizers", purpose, extra)
        try:
            self._tokenizer: Any = package.Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises bare Exceptions
            raise FormatError(f"{path} is not a tokenizer: {error_text(error)}.") from None
        self._tokenizer.no_padding()
        if max_length is None:
            self._tokenizer.no_truncation()
        else:
            self._tokenizer.enable_truncation(max_length)

    def __call__(self, texts: Sequence[str | tuple[str, str]]) -> Tokens:
        """Return the tokens of each text or pair of texts, special ones among them."""
        encodings = self._tokenizer.encode_batch(list(texts))
        return Tokens(
            [encoding.ids for encoding in encodings],
            [encoding.type_ids for encoding in encodings],
            np.array([bool(encoding.overflowing) for encoding in encodings]),
        )


def by_length(ids: list[list[int]], most: int) -> list[list[int]]:
    """Batch row numbers by length, each batch of at most so many tokens once padded.

    The longest texts come first; a text that is longer alone is a batch of its own.

    >>> by_length([[1], [1, 1, 1], [1, 1], [1]], 4)
    [[1], [2, 0], [3]]
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(ids)), key=lambda row: -len(ids[row])):
        if not batches or len(ids[batches[-1][0]]) * (len(batches[-1]) + 1) > most:
            batches.append([])
        batches[-1].append(row)
    return batches
