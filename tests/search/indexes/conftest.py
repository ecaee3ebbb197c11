"""Tests of indexes may have a PostgreSQL server."""

from tests.search.indexes.places import postgres_url

__all__ = ["postgres_url"]
