"""Plugins: what rooms and other packages add to the line, loaded on use.

A room is a folder of this package with a `plugin.py` that holds `PLUGIN`, a value of `Plugin`.
Another package offers the same kind of value by an entry point, and can do all that a room can:

    [project.entry-points."assay.plugins"]      a `Plugin`
    [project.entry-points."assay.measures"]     a module whose import registers measures
    [project.entry-points."assay.models"]       a function that loads an encoder
    [project.entry-points."assay.indexes"]      a function that opens an index engine

Everything in a `Plugin` is an import path such as "package.module:function". Entry points are read
only where a name is not one of Assay's, or where all names are listed: start-up does not pay for
them. What cannot be loaded raises `PluginError`, which names the package; commands that do not need
it never notice.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from assay.errors import PluginError, error_text

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLUGINS: Final = "assay.plugins"
MEASURES: Final = "assay.measures"
MODELS: Final = "assay.models"
INDEXES: Final = "assay.indexes"

# What the line asks of rooms: {hook: what the function does}. The first plugin that offers a hook
# serves it; of `measure_names`, `report_sections` and `dashboard_views` all are asked.
HOOKS: Final[Mapping[str, str]] = {
    "open_store": "open a store of runs: (url, create=True) → a context manager",
    "write_records": "write records as JSON: (records, file)",
    "make_report": "make a report of records: (records, **settings) → Report",
    "check_report_file": "check the name of a report's file: (path)",
    "plot_means": "draw means with intervals: (scores) → chart",
    "plot_standings": "draw systems with intervals: (standings, measure, against) → chart",
    "plot_differences": "draw two systems query by query: (differences) → chart",
    "plot_aggregates": "draw named means with intervals: (means, title) → chart",
    "model_card": "lay out records as a model card: (records) → text",
    "open_cluster": "open workers: (where, workers=None, **settings) → Cluster",
    "encode_batches": "encode texts on workers: (cluster, spec, settings, device) → batches",
    "estimate_labels": "estimate from drawn labels: (pool, labels, machine, means, settings)",
    "score_system": "score a search system: (system, collection, measures) → Scores",
    "bound_scores": "bound means over unjudged documents: (scores) → {measure: HoleBounds}",
    "bound_differences": "bound pairs over unjudged documents: (comparison) → PairBounds of each",
    "explain_systems": "show one query as several systems answered it: (runs, options) → result",
    "measure_names": "name the measures of a task's runs: (task, scores) → {measure: name}",
    "report_sections": "further sections of a report: (records) → [(title, table or text)]",
    "dashboard_views": "further parts of a run's page: (run) → [(title, table or text)]",
}


@dataclass(frozen=True)
class CommandEntry:
    """A command of the command line.

    Args:
        name: What is typed after `assay`.
        group: The heading that it stands under in `assay --help`.
        summary: One sentence for that list.
        target: Import path of the click command.
        multiplies: Whether it multiplies matrices; others keep numpy to one thread.
    """

    name: str
    group: str
    summary: str
    target: str
    multiplies: bool = True


@dataclass(frozen=True)
class Plugin:
    """The offer of a room or another package: commands, hooks, measures, schemas.

    Args:
        name: Its name in messages.
        commands: Its commands.
        hooks: Import paths of functions by the names in `HOOKS`.
        schemas: Layouts of its results: a file "package:schemas.json", or a mapping
            "module:SCHEMAS", with the keys `$defs` (shared parts) and `results` (by command).
        configs: Import paths of JSON schemas of config files, by name.
        demo_files: Import path of a function that writes demo files into a folder.
        measures: Import path of a function that registers its measures.

    Example:
        >>> Plugin("mine", commands=(CommandEntry("mine", "Tasks", "Do it.", "mine:command"),)).name
        'mine'
    """

    name: str
    commands: tuple[CommandEntry, ...] = ()
    hooks: Mapping[str, str] = field(default_factory=dict)
    schemas: str = ""
    configs: Mapping[str, str] = field(default_factory=dict)
    demo_files: str = ""
    measures: str = ""


def load_target(target: str) -> Any:
    """Import what a path such as "package.module:function" names."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


@cache
def builtin_plugins() -> tuple[tuple[Plugin, ...], Mapping[str, str]]:
    """Return the plugins of the rooms, and why others cannot be loaded, by the room's name."""
    home = os.path.dirname(__file__)
    rooms, missing = [], {}
    for folder in sorted(os.listdir(home)):
        if os.path.isfile(os.path.join(home, folder, "plugin.py")):
            try:
                rooms.append(import_module(f"assay.{folder}.plugin").PLUGIN)
            except ImportError as error:
                missing[folder] = error_text(error)
    return tuple(rooms), missing


def foreign_plugins(*, quick: bool = False) -> tuple[Plugin, ...]:
    """Return the plugins of other packages; a `quick` look believes the folders of the path.

    Raises:
        PluginError: A package offers something that is no `Plugin` or cannot be loaded.
    """
    if quick and not _is_declared(PLUGINS, tuple(sys.path)):
        return ()
    loaded = [extension.load() for extension in extensions(PLUGINS)]
    for plugin, extension in zip(loaded, extensions(PLUGINS), strict=True):
        if not isinstance(plugin, Plugin):
            raise PluginError(
                f"The package {extension.package} offers {extension.name!r} ({PLUGINS}), which is "
                f"{type(plugin).__name__}, not assay.plugins.Plugin. Repair or uninstall it."
            )
    return tuple(loaded)


def all_plugins(*, quick: bool = False) -> tuple[Plugin, ...]:
    """Return the plugins of the rooms, then those of other packages."""
    return (*builtin_plugins()[0], *foreign_plugins(quick=quick))


def find_hook(name: str) -> Callable[..., Any]:
    """Return the function that serves a hook.

    Raises:
        PluginError: No plugin offers it; the message names the rooms that are missing.
    """
    hooks = find_hooks(name)
    if not hooks:
        raise PluginError(f"Assay cannot {HOOKS[name].partition(':')[0]}.{missing_rooms()}")
    return hooks[0]


def find_hooks(name: str) -> list[Callable[..., Any]]:
    """Return the functions of all plugins that serve a hook."""
    rooms = [plugin.hooks[name] for plugin in builtin_plugins()[0] if name in plugin.hooks]
    foreign = [plugin.hooks[name] for plugin in foreign_plugins(quick=True) if name in plugin.hooks]
    return [load_target(target) for target in (*rooms, *foreign)]


def missing_rooms() -> str:
    """Return a sentence on the rooms that cannot be loaded; empty where all are there."""
    missing = builtin_plugins()[1]
    lines = [f"assay.{room} cannot be loaded: {reason}." for room, reason in missing.items()]
    return " " + " ".join(lines) if lines else ""


@cache
def _is_declared(group: str, path: tuple[str, ...]) -> bool:
    """Look for an entry point of the group without importlib.metadata, whose import takes long."""
    mark = f"[{group}]".encode()
    for folder in path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                        if mark in file.read():
                            return True
                except OSError:
                    continue
    return False


@dataclass(frozen=True)
class Extension:
    """An entry point of another package; nothing of it is imported before `load`."""

    name: str
    package: str
    entry: EntryPoint

    def load(self) -> Any:
        """Return the object that the entry point names, imported once.

        Raises:
            PluginError: It cannot be imported.
        """
        loaded = _load(self)
        if isinstance(loaded, PluginError):
            raise loaded
        return loaded


@cache
def _load(extension: Extension) -> Any:
    """Return the object, or the error: a module that failed is not imported again and again."""
    try:
        return extension.entry.load()
    except (Exception, SystemExit) as error:  # whatever another package does when imported
        return PluginError(
            f"The package {extension.package} offers {extension.name!r} "
            f"({extension.entry.group}), but {extension.entry.value} cannot be loaded: "
            f"{error_text(error)}. Repair or uninstall it."
        )


def extensions(group: str) -> tuple[Extension, ...]:
    """Return what packages offer in a group, sorted by name and package; nothing is imported."""
    return _extensions(group, tuple(sys.path))


@cache
def _extensions(group: str, path: tuple[str, ...]) -> tuple[Extension, ...]:
    """Find extensions, cached by `path`, on which packages are looked for."""
    from importlib.metadata import entry_points  # slow to import, and mostly not needed

    offered = {
        Extension(entry.name, _package_of(entry), entry) for entry in entry_points(group=group)
    }
    return tuple(sorted(offered, key=lambda extension: (extension.name, extension.package)))


def _package_of(entry: EntryPoint) -> str:
    """Return name and version of the package that declares an entry point."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.module


def find_extension(group: str, name: str) -> Extension | None:
    """Return the extension of that name, not yet loaded; None if no package offers one.

    Raises:
        PluginError: Two packages offer the name.
    """
    named = [extension for extension in extensions(group) if extension.name == name]
    if len(named) > 1:
        packages = " and ".join(extension.package for extension in named)
        raise PluginError(f"{name!r} ({group}) is offered by {packages}. Uninstall all but one.")
    return named[0] if named else None


def load_extensions(group: str) -> tuple[PluginError, ...]:
    """Load every extension of a group; return the errors of those that cannot be loaded."""
    loaded = [_load(extension) for extension in extensions(group)]
    return tuple(error for error in loaded if isinstance(error, PluginError))
