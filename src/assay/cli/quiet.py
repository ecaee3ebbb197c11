"""Keep packages from logging to the terminal of a command."""

from __future__ import annotations

import logging

__all__ = ["hush_packages"]


def hush_packages() -> None:
    """Some packages set up logging to stderr when they are imported, unless somebody has."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())
