"""Models that a file names: what they may do without the user's consent, and with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from assay.core.on_demand import OnDemand
from assay.core.specs import Consent, own_callable
from assay.errors import UsageError
from assay.models.adapters.sentence_transformers import imports_any_class, local_folders
from assay.models.rerankers import RerankEndpoint
from assay.models.specs import find_kind

if TYPE_CHECKING:
    from assay.models.adapters import openai
else:
    openai = OnDemand("assay.models.adapters.openai")


# Names that the authors of sentence-transformers publish themselves.
_PUBLISHED: Final = re.compile(r"(sentence-transformers/)?[A-Za-z0-9][\w.-]*")


def allow_model(
    spec: str, settings: Mapping[str, Any], consent: Consent, place: str
) -> dict[str, Any]:
    """Refuse a model without the consent that it needs; its settings, with the key it may have."""
    what = f"the model {spec!r}"
    name, _, argument = spec.partition(":")
    # A revision of the authors' model may be a pull request of anybody.
    revised = name == "st" and bool(settings.get("revision")) and imports_any_class()
    if runs_code(spec) or settings.get("trust_remote_code") or revised:
        folders = local_folders(argument) if name == "st" else []
        words = f" (here the folder {folders[0]})" if folders else ""
        consent.check_code(f"{what}{words}", place)
    if name == "py":
        own_callable(argument, "py:MODULE:FUNCTION")
    return _allow_key(settings, consent, f"{place}: {what}") if name == "openai" else {**settings}


def allow_reranker(spec: str, settings: Mapping[str, Any], consent: Consent, place: str) -> None:
    """Refuse a reranker without the consent that it needs; a key goes where both are allowed."""
    if spec.startswith("rerank:"):
        where = RerankEndpoint.parse(spec)
        consent.check_endpoint(where.url, f"{place}: the reranker {spec!r}", where.key_env)
    else:
        allow_model(spec, settings, consent, place)


def runs_code(spec: str) -> bool:
    """Whether loading the model runs code that a spec chooses.

    `py:` and plugins do. So does `st:` of a folder or of anybody's name: its files name classes
    to import. Those of the package's own authors are taken as the package itself is, unless a
    folder on this machine is taken for them.
    """
    name, _, argument = spec.partition(":")
    if name == "st":
        return bool(local_folders(argument)) or not _PUBLISHED.fullmatch(argument)
    kind = find_kind(spec)
    return name == "py" or kind.plugin is not None


def _allow_key(settings: Mapping[str, Any], consent: Consent, place: str) -> dict[str, Any]:
    """An endpoint of the file gets the variable that it names, if the user allows that, or none."""
    url, variable = settings.get("base_url"), settings.get("key_env", "")
    if variable and url is None:
        raise UsageError(f"{place}: key_env goes with base_url, the endpoint that the key is for.")
    if url is None or (not variable and openai.is_users_own(url)):
        return {**settings}
    consent.check_endpoint(url, place, variable)
    return {**settings, "key_env": variable}


def check_model(spec: str, params: Mapping[str, Any], consent: Consent, place: str) -> None:
    """Refuse a model of a stored command without the consent that it needs."""
    base_url = params.get("base_url")
    if spec.partition(":")[0] == "openai":
        url, variable = (
            (base_url, openai.key_variable()) if base_url else (openai.own_address(), "")
        )
        consent.check_endpoint(url, f"{place}: the model {spec!r}", variable)
    else:
        allow_model(spec, code_settings(params), consent, place)


def code_settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that decide whose code a model may run."""
    return {name: params.get(name) for name in ("revision", "trust_remote_code")}


def allow_encoders(
    specs: list[str], params: Mapping[str, Any], consent: Consent, place: str
) -> None:
    """Refuse encoders of a stored command without consent."""
    for spec in specs:
        check_model(spec, params, consent, place)


def allow_factories(
    names: list[str], params: Mapping[str, Any], consent: Consent, place: str
) -> None:
    """Refuse functions of a stored command that make models, without consent."""
    for name in names:
        consent.check_code(f"the factory {name!r}", place)
        own_callable(name, "MODULE:FACTORY")
