"""Tags and notes of a run, changed from its page; nothing else of a store can be."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from assay.core.text import printable
from assay.errors import UsageError
from assay.store import Run
from assay.web.params import QueryParams, find_run
from assay.web.security import equal_texts
from assay.web.store_handle import StoreHandle

__all__ = ["EditForm", "shown_notes"]

_MOST_BYTES: Final = 100_000
_FORM: Final = "application/x-www-form-urlencoded"


def shown_notes(notes: str) -> str:
    r"""Notes as a form shows them: lines stay lines, other control characters are written out.

    >>> shown_notes("a\nb\x00")
    'a\nb\\x00'
    """
    return "\n".join(map(printable, notes.splitlines()))


class EditForm:
    """Takes what the form of a run's page sends.

    The form carries a `secret` of this server, which a page of another site can neither read nor
    guess, beside the token and the origin that every request is checked for.
    """

    def __init__(self, source: StoreHandle) -> None:
        self._source = source
        self.secret = secrets.token_urlsafe(24)

    async def save(self, request: Request) -> Response:
        """Change the run, and go back to its page."""
        params = await _read_form(request)
        if not equal_texts(params.get("secret"), self.secret):
            raise HTTPException(403, "The form is not of this server. Load the page again.")
        run = await run_in_threadpool(self._change, request.path_params["key"], params)
        return RedirectResponse(f"/run/{run}", 303, {"cache-control": "no-store"})

    def _change(self, key: str, params: QueryParams) -> int:
        with self._source.editable() as store:
            run = find_run(store, key)
            _call(store.untag, run, _removed_tags(run, params))
            _call(store.tag, run, _added_tags(params))
            notes = "\n".join(params.get("notes").splitlines())
            if notes != shown_notes(run.notes):
                store.note(run.id, notes)
        return run.id


def _call(change: Callable[..., Any], run: Run, tags: list[str]) -> None:
    if tags:
        change(run.id, *tags)


def _removed_tags(run: Run, params: QueryParams) -> list[str]:
    """A form cannot send every character, so tags are known by what people see of them."""
    gone = params.get_all("remove")
    return [tag for tag in run.tags if printable(tag) in gone]


def _added_tags(params: QueryParams) -> list[str]:
    return [tag.strip() for tag in params.get("add").split(",") if tag.strip()]


async def _read_form(request: Request) -> QueryParams:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise HTTPException(415, f"A form is sent as {_FORM}.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise HTTPException(413, f"Tags and notes take up to {_MOST_BYTES:,} bytes.")
    if not body.isascii():
        raise UsageError("The form holds bytes that no form sends.")
    return QueryParams.parse(body)
