"""The dashboard: read-only pages over a store, for `assay serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.web.app import make_app
    from assay.web.server import serve

__all__ = ["make_app", "serve"]


if not TYPE_CHECKING:  # else a checker would take any name for one that is there

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'assay.web' has no attribute {name!r}")
        from importlib import import_module

        return getattr(
            import_module("assay.web.app" if name == "make_app" else "assay.web.server"), name
        )
