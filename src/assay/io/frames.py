"""Data frames in and out: pandas, polars and pyarrow, through narwhals.

None of these packages is imported unless a frame of it was given or asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from assay.arrays import Floats, Ints32
from assay.core.ids import Ids
from assay.errors import FormatError, IdError, InputError, UsageError, ValueRangeError, need
from assay.io.lines import (
    Kind,
    Lines,
    Where,
    check_values,
    exact_floats,
    find_columns,
    number_ids,
    pack_ids,
    plain_floats,
)

if TYPE_CHECKING:
    import narwhals as nw

__all__ = ["build_frame", "is_frame", "lines_of_frame"]

# The package of each backend, and the extra that installs it.
_BACKENDS = {"pandas": "pandas", "polars": "polars", "pyarrow": "parquet"}


def is_frame(data: Any) -> bool:
    """Tell whether something has named columns, without importing what it comes from."""
    kind = type(data)  # asking the value itself would make a lazy frame work
    return hasattr(kind, "columns") or hasattr(kind, "column_names")


def lines_of_frame(
    data: Any, kind: Kind, where: Where = "row {}".format, source: str = "data frame"
) -> Lines:
    """Read query, doc and score or grade columns, recognised by their names."""
    frame = _eager(data)
    wanted = find_columns(frame.columns, kind, source)
    if not len(frame):
        raise InputError(f"{source}: the {kind} holds no rows.")
    for name in wanted[:3]:
        _refuse_missing(frame[name], where)
    query_ids, queries = _numbered(frame[wanted.query], "query", where)
    doc_ids, docs = _numbered(frame[wanted.doc], "doc", where)
    values = _numbers(frame[wanted.value], kind, where)
    lines = Lines(query_ids, doc_ids, queries, docs, -values if wanted.by_rank else values)
    return check_values(lines, kind, where)


def _eager(data: Any) -> nw.DataFrame[Any]:
    import narwhals as nw

    try:
        frame = nw.from_native(data)
    except TypeError:
        raise UsageError(
            f"Cannot read a table from {type(data).__name__}. "
            "Give a pandas, polars or pyarrow data frame."
        ) from None
    except nw.exceptions.DuplicateError as error:
        raise FormatError(f"data frame: {str(error)[:120]}. Rename or drop columns.") from None
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def _refuse_missing(column: nw.Series[Any], where: Where) -> None:
    if column.null_count():
        row = int(np.argmax(column.is_null().to_numpy()))
        raise ValueRangeError(
            f"{where(row)}: column {column.name!r} is missing there. Fill it or drop the row."
        )


def _numbered(column: nw.Series[Any], what: str, where: Where) -> tuple[Ids, Ints32]:
    """The distinct ids of a column, and for each row the number of its id."""
    import narwhals as nw

    if isinstance(column.dtype, _wide()):
        return number_ids(pack_ids(column.to_list(), what, where))
    if column.dtype.is_integer():
        return number_ids(Ids.of(column.to_numpy(), what))
    if isinstance(column.dtype, nw.Categorical | nw.Enum):
        column = column.cast(nw.String)
    if isinstance(column.dtype, nw.String):
        return number_ids(pack_ids(column.to_list(), what, where))
    raise IdError(
        f"column {column.name!r} holds {column.dtype}, and {what} ids are text or integers. "
        "Convert it (integers with a gap become floats in pandas)."
    )


def _wide() -> tuple[type, ...]:
    """Types whose values only Python can look at."""
    import narwhals as nw

    return nw.Object, nw.Int128, nw.UInt128


def _numbers(column: nw.Series[Any], kind: Kind, where: Where) -> Floats:
    import narwhals as nw

    if isinstance(column.dtype, _wide()):
        return plain_floats(column.to_list(), kind, where)
    if isinstance(column.dtype, nw.Boolean) and kind == "qrels":
        column = column.cast(nw.Int8)
    if isinstance(column.dtype, nw.Decimal):
        column = column.cast(nw.Float64)
    if not column.dtype.is_numeric():
        raise ValueRangeError(
            f"column {column.name!r} holds {column.dtype}, not numbers. Convert it first."
        )
    return exact_floats(column.to_numpy(), kind, where)


def build_frame(columns: dict[str, Any], backend: str) -> Any:
    """A data frame of the package that `backend` names: pandas, polars or pyarrow.

    NaN means undefined: polars and pyarrow, which tell NaN from a missing value, get the latter.
    """
    import narwhals as nw
    from narwhals import selectors

    if backend not in _BACKENDS:
        raise UsageError(f"Unknown backend {backend!r}. Known: {', '.join(_BACKENDS)}.")
    package = need(backend, f"a {backend} data frame", _BACKENDS[backend])
    frame = nw.from_dict(columns, backend=package)
    if backend != "pandas":
        frame = frame.with_columns(selectors.by_dtype(nw.Float64).fill_nan(None))
    return frame.to_native()
