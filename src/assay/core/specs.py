"""Specs: `kind`, `kind:argument` or `kind:argument?name=value`, for things that are named by text.

A `SpecRegistry` holds the kinds of one sort of thing (encoders, lexical models, indexes): how a
spec of each is written, and which function makes it. The module of a kind is imported when the
kind is used. Kinds of other packages come by entry points (`assay.plugins`); they are looked
up only where a name is not one of Assay's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from assay.core.text import did_you_mean
from assay.errors import PluginError, UsageError
from assay.plugins import Extension, extensions, find_extension


class SpecKind(NamedTuple):
    """A kind: how its specs are written, what makes it (`module:name`), the extra it needs."""

    form: str
    source: str
    extra: str | None = None
    plugin: Extension | None = None

    @property
    def needs_argument(self) -> bool:
        """Whether something must follow the name."""
        return ":" in self.form and "[" not in self.form

    def load(self) -> Any:
        """Return the function or class that makes it; its module is imported now."""
        if self.plugin is None:
            module, _, name = self.source.partition(":")
            return getattr(import_module(module), name)
        function = self.plugin.load()
        if not callable(function):
            raise PluginError(
                f"The package {self.plugin.package} offers {self.plugin.name!r} "
                f"({self.plugin.entry.group}), but {self.source} is not a function."
            )
        return function


class Spec(NamedTuple):
    """A spec taken apart; `text` is for messages."""

    kind: str
    argument: str
    options: dict[str, str]
    text: str


class SpecRegistry(Mapping[str, SpecKind]):
    """The kinds of one sort of thing; as a mapping, those that Assay itself brings.

    >>> shapes = SpecRegistry("shape", {"dot": SpecKind("dot", "m:dot"),
    ...                                 "box": SpecKind("box:SIDE", "m:box")})
    >>> shapes.parse("box:3?colour=red").options
    {'colour': 'red'}
    >>> print(shapes.unknown("bux:3"))
    Unknown shape 'bux:3'. Did you mean box:SIDE? Known: dot, box:SIDE.
    """

    def __init__(self, what: str, kinds: Mapping[str, SpecKind], group: str | None = None) -> None:
        self.what = what
        self._kinds = dict(kinds)
        self._group = group

    def __getitem__(self, name: str) -> SpecKind:
        """A kind that Assay itself brings."""
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        """Names of these kinds."""
        return iter(self._kinds)

    def __len__(self) -> int:
        """Number of these kinds."""
        return len(self._kinds)

    def find(self, name: str) -> SpecKind | None:
        """Return the kind of that name, of Assay or of another package; None if there is none."""
        if name in self._kinds or self._group is None:
            return self._kinds.get(name)
        plugin = find_extension(self._group, name)
        return None if plugin is None else _kind_of(plugin)

    def parse(self, spec: str, text: str | None = None) -> Spec:
        """Take a spec with options apart; its kind must be known."""
        written = spec if text is None else text
        before, _, after = spec.partition("?")
        kind, _, argument = before.partition(":")
        if self.find(kind) is None:
            raise self.unknown(written)
        pairs = parse_qsl(after, keep_blank_values=True)
        options = dict(pairs)
        if len(options) < len(pairs) or (after and not pairs):
            raise UsageError(f"Options are written ?name=value&name=value, each once: {written}")
        return Spec(kind, argument, options, written)

    def forms(self) -> dict[str, str]:
        """Return how specs of all kinds are written, those of other packages included."""
        forms = {name: kind.form for name, kind in self._kinds.items()}
        for plugin in extensions(self._group) if self._group else ():
            forms.setdefault(plugin.name, _kind_of(plugin).form)
        return forms

    def unknown(self, spec: str) -> UsageError:
        """Return the error for a spec whose kind is not known, with the nearest one."""
        forms = self.forms()
        hint = did_you_mean(spec.partition("?")[0].partition(":")[0], forms, forms=forms)
        forms_listed = ", ".join(forms.values())
        return UsageError(f"Unknown {self.what} {spec!r}.{hint} Known: {forms_listed}.")


def _kind_of(plugin: Extension) -> SpecKind:
    return SpecKind(f"{plugin.name}[:ARGUMENT]", plugin.entry.value, plugin=plugin)
