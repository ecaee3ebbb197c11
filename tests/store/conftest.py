"""Every test of the store may run in both databases."""

from tests.store.places import place

__all__ = ["place"]
