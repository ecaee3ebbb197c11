"""What a run is about: everything but its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Final

from assay.errors import UsageError

__all__ = ["About", "checked_name", "checked_tags"]

# PostgreSQL's indexes hold no more than 2704 bytes in an entry, and a character has up to 4 (an
# escaped one 5).
_LONGEST: Final = 500


@dataclass(frozen=True)
class About:
    """What was run, on what, and how it is called.

    `task` is the kind of evaluation (retrieval, prediction, …), `dataset` and `model` say what was
    evaluated, `config` holds the settings, `seeds` the seeds of random choices, `data` the
    fingerprints of what was read, `command` the arguments of the command line and `folder` where it
    was called. Runs of one call share their `batch`; `rerun_of` is the batch that a call repeats.
    """

    name: str
    task: str = ""
    dataset: str = ""
    model: str = ""
    config: Mapping[str, Any] | None = None
    seeds: Mapping[str, Any] | None = None
    data: Mapping[str, Any] | None = None
    tags: Iterable[str] = ()
    notes: str = ""
    command: Iterable[str] = ()
    folder: str = ""
    batch: str = ""
    rerun_of: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be stored, before anything is computed."""
        for key in ("task", "dataset", "model", "batch", "rerun_of"):
            checked_name(getattr(self, key), key, empty=True)
        checked_name(self.name, "name")
        for key in ("notes", "folder"):
            if not isinstance(getattr(self, key), str):
                raise UsageError(f"{key} is a text, found {getattr(self, key)!r}.")
        for key in ("config", "seeds", "data"):
            if not isinstance(getattr(self, key), Mapping | None):
                raise UsageError(f"{key} is a dictionary, found {getattr(self, key)!r}.")
        object.__setattr__(self, "tags", checked_tags(self.tags))
        object.__setattr__(self, "command", tuple(self.command))

    @classmethod
    def of(cls, **given: Any) -> About:
        """The same from keywords; an unknown one is answered with the nearest."""
        known = [field.name for field in fields(cls)]
        for key in given:
            if key not in known:
                near = get_close_matches(key, known, n=1)
                hint = f" Did you mean {near[0]}?" if near else ""
                raise UsageError(f"A run has no {key!r}.{hint} It has: {', '.join(known)}.")
        return cls(**given)


def checked_name(name: Any, what: str, *, empty: bool = False) -> str:
    """A text that can be stored and found."""
    if not isinstance(name, str) or (not name and not empty):
        raise UsageError(f"The {what} of a run is a text, found {name!r}.")
    if len(name) > _LONGEST:
        raise UsageError(
            f"The {what} of a run has {len(name):,} characters; it may have {_LONGEST}. "
            "Longer texts go into the notes."
        )
    return name


def checked_tags(tags: Any) -> tuple[str, ...]:
    """Tags without repetition, in order."""
    if isinstance(tags, str):
        raise UsageError(f"tags is a list of texts, found the text {tags!r}.")
    return tuple(sorted({checked_name(tag, "tag") for tag in tags}))
