"""Things that are named by text: specs of models and indexes, functions, and consent to use them.

A spec is `kind`, `kind:argument` or `kind:argument?name=value`. A `SpecRegistry` holds the kinds of
one sort of thing (encoders, lexical models, indexes): how a spec of each is written, and which
function makes it. The module of a kind is imported when the kind is used. Kinds of other packages
come by entry points (`assay.plugins`); they are looked up only where a name is not one of Assay's.

What is typed or written in Python is the user's own wish. A config file or a stored command may be
a stranger's: it runs no code and reaches no other host unless the user says so, by `--allow-code`
and `--allow-endpoint` (in Python `allow_code` and `allow_endpoints`): that is a `Consent`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qsl, urlsplit

from assay.core.text import did_you_mean
from assay.errors import PluginError, UsageError, error_text
from assay.plugins import Extension, extensions, find_extension, load_target


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
            return load_target(self.source)
        function = self.plugin.load()
        if not callable(function):
            raise PluginError(
                f"The package {self.plugin.package} offers {self.plugin.name!r} "
                f"({self.plugin.entry.group}), but {self.source} is not a function. Uninstall it."
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
        """Return a kind that Assay itself brings."""
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the kinds."""
        return iter(self._kinds)

    def __len__(self) -> int:
        """Count these kinds."""
        return len(self._kinds)

    def find(self, name: str) -> SpecKind | None:
        """Return the kind of that name, of Assay or another package, or None."""
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
            raise UsageError(
                f"Write options ?name=value&name=value, each name once, not {written}."
            )
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


# Functions that a user names as `module:function`


def named_callable(name: str, form: str) -> Callable[..., Any]:
    """Import the function that `module:function` names; `form` is for messages."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise UsageError(f"{name!r} does not name a function. Write {form}.")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        function = getattr(import_module(module), attribute, None)
    except ImportError as error:
        raise UsageError(
            f"The module {module!r} cannot be imported: {error}. Install it, or change "
            "to its folder."
        ) from error
    except Exception as error:  # the module is not ours: importing it can fail in any way
        raise UsageError(f"The module {module!r} fails on import: {error_text(error)}.") from error
    if not callable(function):
        raise UsageError(f"The module {module!r} has no function {attribute!r}. Check its name.")
    return cast("Callable[..., Any]", function)


def own_callable(name: str, form: str) -> Callable[..., Any]:
    """Import the function that `module:function` names, if it is the user's own.

    It is written in the current folder or in a folder of PYTHONPATH: not the standard library, and
    not an installed package, whose functions do things that nobody meant for a model.
    """
    module = name.partition(":")[0].partition(".")[0]
    function = named_callable(name, form) if _is_own(module) else None
    written = str(getattr(function, "__module__", "") or "").partition(".")[0]
    if function is None or not _is_own(written):
        raise UsageError(
            f"{name!r} cannot be used: files may name functions of your own modules only. Write "
            "one in the current folder or on PYTHONPATH."
        )
    return function


def _is_own(module: str) -> bool:
    """Return whether an import takes this name from the user's folders; imports nothing."""
    folders = [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    if not module.isidentifier():
        return False
    there = PathFinder.find_spec(module, folders)
    try:
        taken = find_spec(module) or there
    except ValueError:  # a module that was made by hand has no spec
        return False
    return there is not None and _place(there) == _place(taken)


def _place(spec: ModuleSpec | None) -> list[str]:
    """Return the file of a module or the folders of a package, without links."""
    if spec is None:
        return []
    origin = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return [os.path.realpath(path) for path in origin]


# Consent


# Clients do not agree on what odd characters in an address mean, so that it may have none.
_ADDRESS: Final = re.compile(
    r"[a-z][a-z0-9+.-]*://(?:[^\s/@?#\\]*@)?([^\s/@?#\\=]+)(?:/[^\s@#\\]*)?"
)
_ENDPOINT: Final = re.compile(r"[^\s=/@?#]+(=[A-Za-z_][A-Za-z0-9_]*)?")


@dataclass(frozen=True)
class Consent:
    """Whether code may run, and which endpoints may be reached: HOST[:PORT] or …=VARIABLE.

    A variable of the environment is sent to a host only where both were named together.

    >>> Consent.of(endpoints=["gpu-box:8000"]).check_endpoint("http://gpu-box:8000/v1", "a.toml")
    """

    code: bool = False
    endpoints: frozenset[str] = frozenset()

    @classmethod
    def of(cls, code: bool = False, endpoints: Iterable[str] = ()) -> Consent:
        """Build consent from what the user allows."""
        if not isinstance(code, bool):
            raise UsageError(f"allow_code must be True or False, found {type(code).__name__}.")
        hosts = [endpoints] if isinstance(endpoints, str) else list(endpoints)
        for host in hosts:
            if not isinstance(host, str) or not _ENDPOINT.fullmatch(host):
                raise UsageError(
                    f"Cannot read the endpoint {host!r}. Write HOST, HOST:PORT or HOST=VARIABLE."
                )
        parts = [host.partition("=") for host in hosts]
        return cls(code, frozenset(f"{host.lower()}{sign}{key}" for host, sign, key in parts))

    def as_options(self) -> dict[str, Any]:
        """Return the keyword arguments that functions take."""
        return {"allow_code": self.code, "allow_endpoints": sorted(self.endpoints)}

    def check_code(self, what: str, place: str) -> None:
        """Refuse what runs code, unless code is allowed."""
        if not self.code:
            raise UsageError(
                f"{place} names {what}, which runs code. If you trust its author, add "
                "--allow-code (in Python allow_code=True)."
            )

    def check_download(self, what: str, source: str, place: str) -> None:
        """Refuse what is fetched from a source that was not allowed."""
        if source not in self.endpoints:
            raise UsageError(
                f"{place} names {what}, which {source} would download. To allow that, name it on "
                f"the command line or add --allow-endpoint {source} (in Python "
                f"allow_endpoints=[{source!r}])."
            )

    def check_endpoint(self, url: str, place: str, variable: str = "") -> None:
        """Refuse a host that was not allowed, and a variable that was not allowed for it."""
        host = host_of(url)
        endpoint = f"{host}={variable}" if variable else host
        if endpoint in self.endpoints:
            return
        named = {endpoint_there.partition("=")[0] for endpoint_there in self.endpoints}
        if not variable and host in named:
            return
        sent = f"the content of {variable}" if variable and host in named else "data"
        raise UsageError(
            f"{place} sends {sent} to {host}. If you trust that host, add --allow-endpoint "
            f"{endpoint} (in Python allow_endpoints=[{endpoint!r}])."
        )


def host_of(url: str) -> str:
    """Return host and port of an address, without name and password.

    >>> host_of("https://me:secret@API.example.org:8443/v1")
    'api.example.org:8443'
    """
    match = _ADDRESS.fullmatch(url)
    if match is None:
        raise UsageError("An address in a file needs one host: https://host:port/path.")
    return match[1].lower()


def is_loopback(url: str) -> bool:
    """Tell whether an address is one of this machine.

    >>> is_loopback("http://127.0.0.1:8000/v1"), is_loopback("http://127.0.0.1.example.org")
    (True, False)
    """
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
