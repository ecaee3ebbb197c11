"""Columns of parquet files, none of which is trusted: a few bytes may claim any number of rows.

Text stays a dictionary of distinct values until what all rows together take was counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from assay.errors import AssayError, FormatError, need
from assay.io.streams import FilePath, open_chunks, refuse_bomb

__all__ = ["open_parquet", "read_columns"]

_BATCH: Final = 1 << 16  # rows
_WEIGHT_OF_VALUE: Final = 64  # bytes of a value once it is a Python object in a list


def read_columns(path: FilePath, choose: Callable[[Sequence[str]], list[str]]) -> Any:
    """The columns of a parquet file that `choose` picks from their names, as a pyarrow table."""
    arrow = need("pyarrow", "reading parquet files", "parquet")
    name = os.fspath(path)
    with open_parquet(path) as file:
        columns = choose(file.schema_arrow.names)
        size = os.stat(path).st_size
        refuse_bomb(file.metadata.num_rows * len(columns) * _WEIGHT_OF_VALUE, size, name)
        batches, weight = [], 0
        for batch in file.iter_batches(batch_size=_BATCH, columns=columns):
            batch.validate(full=True)  # that text is UTF-8 and in its dictionary
            weight += sum(map(_weight, batch.columns))
            refuse_bomb(weight, size, name)
            batches.append(batch)
        schema = batches[0].schema if batches else file.schema_arrow
        table = arrow.Table.from_batches(batches, schema).select(columns)
        return table.cast(arrow.schema([(one.name, _plain(one.type)) for one in table.schema]))


@contextmanager
def open_parquet(path: FilePath) -> Iterator[Any]:
    """An open parquet file; whatever is wrong with it is named."""
    arrow = need("pyarrow", "reading parquet files", "parquet")
    parquet = need("pyarrow.parquet", "reading parquet files", "parquet")
    next(open_chunks(path, 1))  # what cannot be opened, or is empty, is refused in its own words
    try:
        metadata = parquet.read_metadata(path)
        texts = [
            one.path
            for one in map(metadata.schema.column, range(metadata.num_columns))
            if one.physical_type == "BYTE_ARRAY"
        ]
        refuse_bomb(8 * metadata.num_rows, os.stat(path).st_size, os.fspath(path))
        with parquet.ParquetFile(path, memory_map=False, read_dictionary=texts) as file:
            yield file
    except AssayError:
        raise
    except (arrow.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        raise FormatError(
            f"{os.fspath(path)} is not a valid parquet file ({str(error)[:120]}). "
            "Fetch or write it again."
        ) from None


def _weight(column: Any) -> int:
    """About how many bytes the values of a column take as Python objects."""
    arrow = need("pyarrow", "reading parquet files", "parquet")
    own = _WEIGHT_OF_VALUE * len(column)
    if isinstance(column, arrow.DictionaryArray):
        compute = need("pyarrow.compute", "reading parquet files", "parquet")
        lengths = compute.binary_length(column.dictionary).fill_null(0).to_numpy()
        return own + int(lengths[column.indices.drop_null().to_numpy()].sum(dtype=np.int64))
    if isinstance(column, arrow.StructArray):
        return own + sum(map(_weight, column.flatten()))
    if hasattr(column, "flatten"):  # a list of any kind
        return own + _weight(column.flatten())
    return own + int(column.nbytes)


def _plain(kind: Any) -> Any:
    """The type of a column whose text is no dictionary any more."""
    return kind.value_type if hasattr(kind, "index_type") else kind
