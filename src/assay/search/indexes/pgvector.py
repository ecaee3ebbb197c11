"""`pgvector:URL`: PostgreSQL with the extension vector; without an index it looks at all vectors.

The vectors live in a temporary table, which the server drops when the connection ends, however
it ends. Options beside those of the URL: `index` (none, hnsw, ivfflat), `m`, `ef_construction`,
`ef_search` (of hnsw; by default 40, or k where that is more), `lists` and `probes` (of ivfflat).
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats32, Ints
from assay.core.text import mask_secrets
from assay.errors import StorageError, UsageError, need
from assay.search.indexes.base import EngineBytes, Exactness, Options, Setup, describe_lesson

_OPERATORS: Final = {"cosine": "<=>", "dot": "<#>", "l2": "<->"}
_CLASSES: Final = {"cosine": "vector_cosine_ops", "dot": "vector_ip_ops", "l2": "vector_l2_ops"}
_BUILD: Final = {"none": (), "hnsw": ("m", "ef_construction"), "ivfflat": ("lists",)}
_SEARCH: Final = {"none": "", "hnsw": "ef_search", "ivfflat": "probes"}
_LEAST_EF, _MOST_EF = 40, 1000


class _Pgvector:
    tunable = ("ef_search", "probes")

    def __init__(self, setup: Setup) -> None:
        self._psycopg = need("psycopg", "The index 'pgvector'", "pgvector")
        self._adapter = need("pgvector.psycopg", "The index 'pgvector'", "pgvector")
        self._setup = setup
        options = setup.options
        self._index = options.choice("index", ("none", "hnsw", "ivfflat"))
        self._build = {name: options.whole(name) for name in _BUILD[self._index]}
        self.tune(options)
        self.exactness: Exactness = "exact" if self._index == "none" else "approximate"
        self.learnt = ""
        self._connection = self._connected(_with_rest(setup.argument, options.rest()))
        try:
            self.version = self._prepared()
        except BaseException:
            self._connection.close()
            raise

    def tune(self, options: Options) -> None:
        search = _SEARCH[self._index]
        self._effort = options.whole(search) if search else None

    def add(self, vectors: Floats32) -> None:
        self._run(f"CREATE TEMPORARY TABLE docs (id integer, v vector({self._setup.dimension}))")
        with self._connection.cursor() as cursor:
            into = "COPY docs (id, v) FROM STDIN WITH (FORMAT BINARY)"
            with cursor.copy(into) as copy:
                copy.set_types(["int4", "vector"])
                for row in enumerate(vectors):
                    copy.write_row(row)
        if self._index == "ivfflat":
            self.learnt = describe_lesson(len(vectors), self._build["lists"] or 100)
        if self._index != "none":
            settings = ", ".join(f"{n} = {v}" for n, v in self._build.items() if v is not None)
            kind = f"{self._index} (v {_CLASSES[self._setup.metric]})"
            kind += f" WITH ({settings})" if settings else ""
            self._run(f"CREATE INDEX ON docs USING {kind}")
            self._run("SET enable_seqscan = off")
        self._run("ANALYZE docs")

    def find(self, queries: Floats32, k: int) -> NDArray[Any]:
        return self.find_among(queries, k, None)

    def find_among(self, queries: Floats32, k: int, among: Ints | None) -> NDArray[Any]:
        self._set_effort(k)
        operator = _OPERATORS[self._setup.metric]
        where, some = ("", ()) if among is None else ("WHERE id = ANY(%s)", (among.tolist(),))
        statement = f"SELECT id FROM docs {where} ORDER BY v {operator} %s LIMIT {int(k)}"
        neighbours = np.full((len(queries), k), -1, np.int64)
        with self._connection.cursor() as cursor:
            for row, query in enumerate(queries):
                numbers = cursor.execute(statement, (*some, query), binary=True).fetchall()
                neighbours[row, : len(numbers)] = [number for (number,) in numbers]
        return neighbours

    def size(self) -> EngineBytes:
        answer = self._run("SELECT pg_total_relation_size('docs')").fetchone()
        return EngineBytes(disk=int(answer[0]))

    def close(self) -> None:
        self._connection.close()

    def _set_effort(self, k: int) -> None:
        if self._index == "hnsw":
            effort = self._effort or min(max(k, _LEAST_EF), _MOST_EF)
            self._run(f"SET hnsw.ef_search = {effort}")
        elif self._index == "ivfflat" and self._effort:
            self._run(f"SET ivfflat.probes = {self._effort}")

    def _run(self, statement: str) -> Any:
        try:
            return self._connection.execute(statement)
        except self._psycopg.Error as error:
            raise UsageError(f"PostgreSQL refuses {self._setup.spec}: {_first(error)}") from None

    def _connected(self, url: str) -> Any:
        try:
            return self._psycopg.connect(url, autocommit=True)
        except self._psycopg.Error as error:
            spec, why = self._setup.spec, _first(error)
            raise StorageError(f"No connection to PostgreSQL by {spec}: {why}") from None

    def _prepared(self) -> str:
        """Make sure of the extension; return its version and the server's."""
        self._run("CREATE EXTENSION IF NOT EXISTS vector")
        self._adapter.register_vector(self._connection)
        row = self._run("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
        server = self._connection.info.server_version
        return f"pgvector {row[0]}, PostgreSQL {server // 10000}.{server % 10000}"


def _with_rest(url: str, rest: dict[str, str]) -> str:
    """Add the parameters that are not ours to the URL: PostgreSQL knows them."""
    return f"{url}?{urlencode(rest)}" if rest else url


def _first(error: Exception) -> str:
    return mask_secrets((str(error).splitlines() or [type(error).__name__])[0])


open_engine = _Pgvector
