"""What other installed packages add to Assay, by entry points.

A package declares in its `pyproject.toml` what it offers, in one of three groups:

    [project.entry-points."assay.measures"]     a module whose import registers measures
    [project.entry-points."assay.models"]       a function that loads an encoder
    [project.entry-points."assay.indexes"]      a function that opens an index engine

The declarations are read only when a name is not one of Assay's own, or when all names are listed:
start-up does not pay for them. A plugin that cannot be loaded raises `PluginError`, which names the
package; commands that do not need it never notice.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from assay.errors import PluginError, error_text

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["INDEXES", "MEASURES", "MODELS", "Plugin", "find_plugin", "load_plugins", "plugins"]

MEASURES: Final = "assay.measures"
MODELS: Final = "assay.models"
INDEXES: Final = "assay.indexes"


@dataclass(frozen=True)
class Plugin:
    """One entry point of another package; nothing of it is imported before `load`."""

    name: str
    package: str
    entry: EntryPoint

    def load(self) -> Any:
        """The object that the entry point names, imported once; a PluginError if that fails."""
        loaded = _load(self)
        if isinstance(loaded, PluginError):
            raise loaded
        return loaded


@cache
def _load(plugin: Plugin) -> Any:
    """The object, or the error: a module that failed is not imported again and again."""
    try:
        return plugin.entry.load()
    except (Exception, SystemExit) as error:  # whatever another package does when imported
        return PluginError(
            f"The package {plugin.package} offers {plugin.name!r} ({plugin.entry.group}), but "
            f"{plugin.entry.value} cannot be loaded: {error_text(error)}. Repair or uninstall it."
        )


def plugins(group: str) -> tuple[Plugin, ...]:
    """What installed packages offer in a group, sorted by name and package; nothing is imported."""
    return _plugins(group, tuple(sys.path))


@cache
def _plugins(group: str, path: tuple[str, ...]) -> tuple[Plugin, ...]:
    """`path` is where packages are looked for: another one may hold other packages."""
    from importlib.metadata import entry_points  # slow to import, and mostly not needed

    offered = {Plugin(entry.name, _package_of(entry), entry) for entry in entry_points(group=group)}
    return tuple(sorted(offered, key=lambda plugin: (plugin.name, plugin.package)))


def _package_of(entry: EntryPoint) -> str:
    """Name and version of the package that declares an entry point."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.module


def find_plugin(group: str, name: str) -> Plugin | None:
    """The plugin of that name, not yet loaded; None if no package offers one."""
    found = [plugin for plugin in plugins(group) if plugin.name == name]
    if len(found) > 1:
        packages = " and ".join(plugin.package for plugin in found)
        raise PluginError(f"{name!r} ({group}) is offered by {packages}. Uninstall all but one.")
    return found[0] if found else None


def load_plugins(group: str) -> tuple[PluginError, ...]:
    """Load every plugin of a group; returns the errors of those that cannot be loaded."""
    loaded = [_load(plugin) for plugin in plugins(group)]
    return tuple(error for error in loaded if isinstance(error, PluginError))
