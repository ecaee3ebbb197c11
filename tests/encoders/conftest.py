"""Fixtures of the tests of encoders."""

from __future__ import annotations

from tests.encoders.cached_runs import place

__all__ = ["place"]
