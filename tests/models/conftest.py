"""Fixtures of the tests of encoders."""

from __future__ import annotations

from tests.models.cached_runs import place

__all__ = ["place"]
