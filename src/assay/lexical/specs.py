"""From a spec such as `bm25` or `lsa:200` to a lexical model."""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

from assay import checks
from assay.errors import UsageError
from assay.lexical.base import LexicalModel

__all__ = ["KINDS", "is_lexical", "lexical_model"]

# The class in the file of each kind, and how a spec of it is written.
KINDS: Final[dict[str, tuple[str, str]]] = {
    "bm25": ("Bm25", "bm25"),
    "tfidf": ("TfIdf", "tfidf"),
    "lsa": ("Lsa", "lsa:DIM"),
}


def is_lexical(spec: str) -> bool:
    """Whether a spec names a model that is fitted to the documents."""
    return spec.partition(":")[0] in KINDS


def lexical_model(spec: str, **settings: Any) -> LexicalModel:
    """The model that a spec names, with its settings; nothing is loaded before it is fitted.

    >>> lexical_model("bm25", k1=1.2).k1
    1.2
    """
    checks.require(spec, str, "A lexical model", "a spec such as 'bm25' or 'lsa:200'")
    kind, colon, argument = spec.partition(":")
    if kind not in KINDS:
        forms = ", ".join(form for _, form in KINDS.values())
        raise UsageError(f"Unknown lexical model {spec!r}. It is one of: {forms}.")
    name, form = KINDS[kind]
    if bool(argument) != (":" in form) or bool(colon) != bool(argument):
        raise UsageError(f"The lexical model {spec!r} must be written {form}.")
    model = getattr(import_module(f"assay.lexical.{kind}"), name)
    if argument:
        settings = {"dimensions": _whole(argument, spec, form), **settings}
    _refuse_unknown(settings, [field.name for field in fields(model)], kind)
    made: LexicalModel = model(**settings)
    return made


def _whole(argument: str, spec: str, form: str) -> int:
    if not argument.isascii() or not argument.isdigit():
        raise UsageError(f"{spec!r}: {argument!r} is no whole number. Write {form}.")
    return int(argument)


def _refuse_unknown(settings: dict[str, Any], known: list[str], kind: str) -> None:
    for name in settings:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"{kind!r} has no setting {name!r}.{hint} It has: {', '.join(known)}.")
