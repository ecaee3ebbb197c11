"""The pages of the dashboard, one to a module.

A page is a module here that declares `ROUTE`, and a template of the same name. Nothing else has to
be changed to add one: the application serves every route that it finds here.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from assay.web.page import PageRoute

__all__ = ["page_routes"]


@cache
def page_routes() -> tuple[PageRoute, ...]:
    """The routes that the modules of this package declare, in the order of the navigation."""
    modules = [import_module(f"{__name__}.{one.name}") for one in iter_modules(__path__)]
    routes = [module.ROUTE for module in modules]
    return tuple(sorted(routes, key=lambda route: (route.position, route.path)))
