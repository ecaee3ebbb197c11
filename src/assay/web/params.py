"""What a request asks for: the parameters of its address, looked up and checked, never trusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from starlette.exceptions import HTTPException

from assay.core.text import printable
from assay.errors import UsageError
from assay.runs.aggregates import canonical
from assay.store import Run, Store

__all__ = ["Asked", "address", "asked_dataset", "chosen_measure", "find_run", "find_runs"]

_MOST_PARAMETERS: Final = 200
_LARGEST_PAGE: Final = 10**6
_UTF8: Final = "surrogatepass"  # names may hold halves of surrogate pairs


class Asked:
    """The parameters of one request, in order.

    >>> asked = Asked.of(b"run=3&run=4&page=2")
    >>> asked.many("run"), asked.number("page", 1), asked.one("sort", "id")
    (['3', '4'], 2, 'id')
    """

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = pairs

    @classmethod
    def of(cls, query: bytes) -> Asked:
        """From the part of an address after its question mark."""
        text = query.decode("latin-1")
        if text.count("&") >= _MOST_PARAMETERS:
            raise UsageError(f"An address has at most {_MOST_PARAMETERS} parameters.")
        try:
            return cls(parse_qsl(text, keep_blank_values=True, errors=_UTF8))
        except UnicodeDecodeError:
            raise UsageError("The address holds text that is not UTF-8.") from None

    def many(self, name: str) -> list[str]:
        """All values of a parameter."""
        return [value for key, value in self.pairs if key == name]

    def one(self, name: str, default: str = "") -> str:
        """The first value of a parameter."""
        return next(iter(self.many(name)), default)

    def has(self, name: str) -> bool:
        """Whether the parameter was given, were it empty."""
        return bool(self.many(name))

    def number(self, name: str, default: int) -> int:
        """A whole number from 1 on."""
        text = self.one(name)
        if not text:
            return default
        if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:20]) <= _LARGEST_PAGE:
            raise UsageError(f"{name} is a whole number from 1 on, found {text!r}.")
        return int(text)

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """One of some words."""
        text, known = self.one(name) or default, list(choices)
        if text not in known:
            raise UsageError(f"{name} is one of {', '.join(known)}; found {text!r}.")
        return text

    def named(self, name: str, known: Iterable[str]) -> str | None:
        """A name that people gave; None where any will do.

        A form cannot send every character, so it sends what people see.
        """
        text = self.one(name)
        if not text:
            return None
        names = list(known)
        if text in names:
            return text
        return next((one for one in names if printable(one) == text), text)

    def but(self, path: str, **changes: Any) -> str:
        """The address of a page with these parameters, some of them changed; None leaves one out.

        >>> Asked.of(b"a=1&b=2").but("/x", b=3)
        '/x?a=1&b=3'
        """
        rest = [(key, value) for key, value in self.pairs if key not in changes]
        return _joined(path, [*rest, *_listed(changes)])


def address(path: str, **parameters: Any) -> str:
    """The address of a page.

    >>> address("/compare", run=[1, 2], measure="nDCG@10", baseline=None)
    '/compare?run=1&run=2&measure=nDCG%4010'
    """
    return _joined(path, _listed(parameters))


def _listed(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    for key, value in parameters.items():
        several = value if isinstance(value, list | tuple) else [value]
        found += [(key, str(one)) for one in several if one is not None]
    return found


def _joined(path: str, pairs: list[tuple[str, str]]) -> str:
    return f"{path}?{urlencode(pairs, errors=_UTF8)}" if pairs else path


def find_run(store: Store, key: str) -> Run:
    """One run by its number or uid."""
    try:
        return store.run(key)
    except UsageError as error:
        raise HTTPException(404, str(error)) from None


def find_runs(store: Store, asked: Asked) -> list[Run]:
    """The runs that the address names, each once, in its order."""
    found = [find_run(store, key) for key in asked.many("run") if key]
    return list({run.id: run for run in found}.values())


def chosen_measure(asked: Asked, measures: Sequence[str]) -> str:
    """The measure that is asked for; where it is not there the first, and empty where none is.

    A form that changes the dataset still names the measure of the last one.
    """
    named = asked.named("measure", measures)
    wanted = None if named is None else canonical(named)
    return wanted if wanted is not None and wanted in measures else next(iter(measures), "")


def asked_dataset(asked: Asked, names: Sequence[str]) -> str:
    """The dataset that is asked for, were it the one without a name; else the first."""
    if not asked.has("dataset"):
        return next(iter(names), "")
    named = asked.named("dataset", names) or ""
    if named not in names:
        raise HTTPException(404, f"There is no finished run of the dataset {named!r}.")
    return named
