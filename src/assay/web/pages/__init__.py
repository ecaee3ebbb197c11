"""The pages of the dashboard.

A module here declares `ROUTES`; the template of a page has the name of its address. Nothing else
has to be changed to add one: the application serves every route that it finds here.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from assay.web.page import PageRoute

__all__ = ["page_routes"]


@cache
def page_routes() -> tuple[PageRoute, ...]:
    """Return the routes that the modules declare, in the order of the navigation."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    routes = [route for module in modules for route in module.ROUTES]
    return tuple(sorted(routes, key=lambda route: (route.position, route.path)))
