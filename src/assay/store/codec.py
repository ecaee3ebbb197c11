"""Values of runs as text and bytes: times, JSON, and arrays with a checksum.

The same bits come back, or an error.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.core.ids import Ids
from assay.errors import AssayError, FormatError, StorageError, UsageError
from assay.measures import parse
from assay.runs.record import check_name
from assay.scoring.score_data import conventions_of, id_kind, ids_of_kind, require_text
from assay.scoring.scores import Scores

# Since when the digest of a run vouches for it.
SAVED: Final = "saving"
UPGRADED: Final = "upgrade of the store"
UNSIGNED: Final = "import of a file without digests"


def digest_lines(lines: Iterable[Any]) -> str:
    """Return the digest of plain data, part by part."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(json.dumps(line, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def json_values(value: Any, where: str) -> Any:
    """Return the value as plain data that JSON can hold.

    >>> import pathlib
    >>> json_values({"k": (1, np.float32(0.5)), "path": pathlib.PurePosixPath("a/b")}, "config")
    {'k': [1, 0.5], 'path': 'a/b'}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)  # JSON has neither NaN nor infinity
    if isinstance(value, os.PathLike | date):
        return value.isoformat() if isinstance(value, date) else os.fsdecode(value)
    if isinstance(value, Mapping):
        return {str(key): json_values(each, f"{where}.{key}") for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return [json_values(each, f"{where}[{i}]") for i, each in enumerate(items)]
    raise UsageError(
        f"{where} holds a {type(value).__name__}, which cannot be stored. Use strings, "
        "numbers, lists and dictionaries."
    )


def json_text(value: Any, where: str) -> str:
    """Return the value as JSON text of ASCII characters."""
    try:
        return json.dumps(json_values(value, where), allow_nan=False)
    except RecursionError:
        raise UsageError(f"{where} is nested too deeply. Flatten it.") from None


def read_json(text: str, kind: type) -> Any:
    """Read plain data; a number beyond all bounds is a text, as where settings are stored."""
    data = json.loads(text, parse_float=_finite_or_text, parse_constant=str)
    if not isinstance(data, kind):
        raise ValueError(f"expected {kind.__name__}, found {data!r:.60}")
    return data


def _finite_or_text(text: str) -> float | str:
    return value if math.isfinite(value := float(text)) else text


# Times as text that sorts: UTC, to the microsecond


def now() -> str:
    """Return the current time."""
    return _text(datetime.now(UTC))


def start_of(time: str | date) -> str:
    """Return the beginning of a day; a time of day stays.

    >>> start_of("2026-11-16")
    '2026-11-16T00:00:00.000000Z'
    """
    return _text(_parse(time)[0])


def end_of(time: str | date) -> str:
    """Return the end of a day; a time of day stays.

    >>> end_of("2026-12-31")
    '2027-01-01T00:00:00.000000Z'
    """
    moment, is_day = _parse(time)
    return _text(moment + timedelta(days=1) if is_day else moment)


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if time.year > 999 else ""


def _parse(time: str | date) -> tuple[datetime, bool]:
    """Return the time (UTC by default), and whether it is a day."""
    if isinstance(time, date) and not isinstance(time, datetime):
        time = time.isoformat()
    try:
        moment = datetime.fromisoformat(time) if isinstance(time, str) else time
        zoned = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise UsageError(f"Cannot read the date {time!r}. Write it as 2026-11-16.") from None
    return zoned, isinstance(time, str) and len(time) <= len("2026-11-16")


# Columns of a run


@dataclass(frozen=True)
class Kind:
    """Storage format of a run's field, in the database and in files.

    `cell` is the type of the cell; `write` makes the cell of the field (and its name), `read` the
    field of the cell. `check` takes what a file has, the place for messages and the field's name,
    and returns the field.
    """

    cell: str
    check: Callable[[Any, str, str], Any]
    write: Callable[[Any, str], Any] = lambda value, _: value
    read: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class RunColumn:
    """A column of a run, with its source and export.

    A `recorded` one comes from the field of RunRecord with the same name, an `exported` one is in
    files of runs. A `sealed` one never changes once the run is finished; its digest covers it.
    """

    kind: Kind
    recorded: bool = False
    exported: bool = True
    sealed: bool = True


def column(kind: Kind, **facts: bool) -> dict[str, RunColumn]:
    """Return the metadata of a field of `Run` that is a column of the database."""
    return {"column": RunColumn(kind, **facts)}


def _check_text(value: Any, where: str, name: str) -> str:
    return require_text(value, f"{where}, {name}")


def _check_name(value: Any, where: str, name: str) -> str:
    return check_name(_check_text(value, where, name), name, empty=name != "name")


def _check_seconds(value: Any, where: str, name: str) -> Any:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise FormatError(f"{where}, {name} is {value!r:.60}, not a number.")
    return value


def _check_object(value: Any, where: str, name: str) -> Any:
    if not isinstance(value, dict):
        raise FormatError(f"{where}, {name} is not an object.")
    return value


def _read_seconds(text: str) -> dict[str, float]:
    seconds = {key: float(value) for key, value in read_json(text or "{}", dict).items()}
    return {key: value for key, value in seconds.items() if math.isfinite(value)}


TEXT: Final = Kind("text", _check_text)
NAME: Final = Kind("text", _check_name)
TIME: Final = Kind("text", lambda *cell: start_of(_check_text(*cell)))
TIME_OR_NONE: Final = Kind(
    "text or none", lambda value, *_: None if value is None else start_of(value)
)
COUNT: Final = Kind("count", lambda value, *_: value)
SECONDS: Final = Kind("number", _check_seconds)
TEXTS: Final = Kind(
    "text",
    lambda parts, where, name: [_check_text(part, where, name) for part in parts],
    lambda parts, _: json.dumps(list(parts)),
    lambda text: tuple(map(str, read_json(text or "[]", list))),
)
OBJECT: Final = Kind("text", _check_object, json_text, lambda text: read_json(text or "{}", dict))
STEPS: Final = Kind(
    "text",
    lambda *cell: {key: float(seconds) for key, seconds in _check_object(*cell).items()},
    json_text,
    _read_seconds,
)


_TYPES: Final = {"float64": np.dtype("<f8"), "int64": np.dtype("<i8"), "bool": np.dtype("|b1")}
_UTF8: Final = "surrogatepass"  # names of files may hold halves of surrogate pairs


@dataclass(frozen=True)
class Blob:
    """One array: its name, encoding, size, checksum and compressed bytes."""

    kind: str
    position: int
    name: str
    encoding: str
    size: int
    raw_bytes: int
    checksum: str
    content: bytes


def pack_array(kind: str, array: NDArray[Any], *, position: int = 0, name: str = "") -> Blob:
    """Pack an array of float64, int64 or bool."""
    encoding = array.dtype.name
    if encoding == "bool":
        raw = np.packbits(array).tobytes()
    else:
        # Bytes of equal weight lie together: few values repeat whole, but many share a sign.
        wide = np.ascontiguousarray(array, _TYPES[encoding])
        raw = wide.view(np.uint8).reshape(-1, 8).T.tobytes()
    return _blob(kind, position, name, encoding, len(array), raw)


def pack_texts(kind: str, texts: Sequence[str], *, position: int = 0, name: str = "") -> Blob:
    """Pack texts: their lengths in bytes, then their bytes."""
    coded = [text.encode("utf-8", _UTF8) for text in texts]
    lengths = np.asarray([len(text) for text in coded], "<u4")
    return _blob(kind, position, name, "texts", len(texts), lengths.tobytes() + b"".join(coded))


def pack_json(kind: str, text: str, position: int = 0, name: str = "") -> Blob:
    """Pack a JSON text."""
    return _blob(kind, position, name, "json", 1, text.encode())


def _blob(kind: str, position: int, name: str, encoding: str, size: int, raw: bytes) -> Blob:
    content = zlib.compress(raw, 6)
    return Blob(kind, position, name, encoding, size, len(raw), _checksum(content), content)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def unpack_array(blob: Blob) -> NDArray[Any]:
    """Return the array, read-only."""
    if blob.encoding not in _TYPES:
        raise _damage_error(blob, f"has the unknown encoding {blob.encoding!r}")
    raw = _decompress(blob)
    expected = (blob.size + 7) // 8 if blob.encoding == "bool" else 8 * blob.size
    if len(raw) != expected:
        raise _damage_error(blob, f"has {len(raw)} bytes where {expected} are needed")
    bytes_ = np.frombuffer(raw, np.uint8)
    if blob.encoding == "bool":
        array = np.unpackbits(bytes_, count=blob.size).view(np.bool_)
    else:
        array = (
            np.ascontiguousarray(bytes_.reshape(8, -1).T).reshape(-1).view(_TYPES[blob.encoding])
        )
    array.flags.writeable = False
    return array


def unpack_texts(blob: Blob) -> list[str]:
    """Return the texts."""
    raw = _decompress(blob)
    head = 4 * blob.size
    lengths = np.frombuffer(raw[:head], "<u4").astype(np.int64)
    ends = [0, *np.cumsum(lengths).tolist()]
    body = raw[head:]
    if blob.encoding != "texts" or len(lengths) != blob.size or ends[-1] != len(body):
        raise _damage_error(blob, "does not hold the texts that it should")
    return [body[start:end].decode("utf-8", _UTF8) for start, end in pairwise(ends)]


def unpack_json(blob: Blob) -> str:
    """Return the JSON text."""
    return _decompress(blob).decode()


def _decompress(blob: Blob) -> bytes:
    if _checksum(blob.content) != blob.checksum:
        raise _damage_error(blob, "does not match its checksum")
    reader = zlib.decompressobj()
    try:
        raw = reader.decompress(blob.content, max(blob.raw_bytes, 0) + 1)
    except zlib.error as error:
        raise _damage_error(blob, f"cannot be unpacked ({error})") from None
    if len(raw) != blob.raw_bytes or not reader.eof:
        raise _damage_error(blob, f"does not unpack to {blob.raw_bytes} bytes")
    return raw


def _damage_error(blob: Blob, how: str) -> StorageError:
    what = f"{blob.kind} {blob.name}".strip()
    return StorageError(f"A stored array ({what!r}) {how}: the store is damaged there.")


def pack_scores(scores: Scores) -> Iterator[Blob]:
    """Yield the arrays: ids, each measure, each group column, and so on."""
    yield _pack_ids("ids", scores.query_ids)
    yield _pack_ids("extra", scores.extra)
    yield pack_array("missing", scores.missing)
    if scores.settings:
        yield pack_texts("settings", [text for pair in scores.settings.items() for text in pair])
    if scores.remarks:
        yield pack_texts("remarks", scores.remarks)
    for number, measure in enumerate(scores.measures):
        yield pack_array("values", scores.values[number], position=number, name=str(measure))
        yield pack_array("tied", scores.tied[number], position=number, name=str(measure))
    for number, (name, column) in enumerate(scores.groups.items()):
        yield pack_texts("group", [str(g) for g in column.tolist()], position=number, name=name)


def _pack_ids(kind: str, ids: Ids) -> Blob:
    if ids.kind == "integer":
        return pack_array(kind, ids.numbers, name=id_kind(ids) if ids.numbered else "")
    return pack_texts(kind, [str(query_id) for query_id in ids.to_list()])


def unpack_scores(blobs: Iterable[Blob], conventions: str, *, search: str = "") -> Scores:
    """Return the scores that were packed."""
    by_kind: dict[str, list[Blob]] = {
        kind: [] for kind in ("values", "settings", "remarks", "group")
    }
    for blob in sorted(blobs, key=lambda blob: (blob.kind, blob.position)):
        by_kind.setdefault(blob.kind, []).append(blob)
    values = by_kind["values"]
    if not values or not {"ids", "extra", "missing"} <= by_kind.keys():
        raise StorageError("The store lacks the per-query values of this run. Save it again.")
    try:
        settings = [text for blob in by_kind["settings"][:1] for text in unpack_texts(blob)]
        if len(settings) % 2:
            raise _damage_error(by_kind["settings"][0], "has a key without a value")
        scores = Scores(
            measures=tuple(parse(blob.name) for blob in values),
            query_ids=_unpack_ids(by_kind["ids"][0]),
            values=np.stack([unpack_array(blob) for blob in values]),
            tied=np.stack([unpack_array(blob) for blob in by_kind["tied"]]),
            missing=unpack_array(by_kind["missing"][0]),
            conventions=conventions_of(conventions),
            extra=_unpack_ids(by_kind["extra"][0]),
            groups={
                blob.name: np.asarray(unpack_texts(blob), np.str_) for blob in by_kind["group"]
            },
            search=search,
            settings=dict(zip(settings[::2], settings[1::2], strict=True)),
            remarks=tuple(text for blob in by_kind["remarks"] for text in unpack_texts(blob)),
        )
        columns = [scores.missing, *scores.groups.values(), *scores.values, *scores.tied]
        whole = len(scores.tied) == len(values)
        if not whole or any(len(column) != scores.n_queries for column in columns):
            raise StorageError("The stored arrays of this run differ in length. Restore a backup.")
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        if isinstance(error, AssayError):
            raise
        raise StorageError(f"Cannot read per-query values: {error}. Restore a backup.") from None
    return scores


def _unpack_ids(blob: Blob) -> Ids:
    if blob.encoding == "int64":
        return ids_of_kind(unpack_array(blob), blob.name or "integer")
    return ids_of_kind(unpack_texts(blob), "text")
