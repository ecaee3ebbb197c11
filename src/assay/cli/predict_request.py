"""What the options of `assay predict` ask for."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from assay.cli.group_files import path_of
from assay.cli.scored import unique_names
from assay.conventions import Conventions, preset
from assay.errors import UsageError

__all__ = ["Request"]

_OF_CLASSES: Final = ("accuracy", "f1", "f1_macro", "f1_weighted", "f1_micro", "f1-score")


@dataclass(frozen=True)
class Request:
    """What the options ask for."""

    files: tuple[str, ...]
    targets: str | None = None
    candidates: tuple[str, ...] = ()
    target: str | None = None
    ids: str | None = None
    measures: tuple[str, ...] = ()
    ks: tuple[int, ...] = ()
    by: str | None = None
    train: str | None = None
    train_users: str | None = None
    previous: str | None = None
    n_classes: int | None = None
    per_class: bool = False
    histogram: bool = False
    ties: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        """Refuse options that would change nothing, and measures that are always shown."""
        for name in self.measures:
            if re.split(r"[(@]", name)[0].lower() in _OF_CLASSES:
                raise UsageError(
                    f"-m {name}: Accuracy, F1, precision and recall over classes are always shown, "
                    "under every average. Leave it out."
                )
        for name in ("train_users", "previous"):
            if getattr(self, name) and not self.train:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} changes nothing without --train. Add it.")

    @property
    def rules(self) -> Conventions:
        """Document 001's conventions, with other ties if asked for."""
        return preset("document_001").but(ties=self.ties)

    def named_files(self) -> list[tuple[str, str]]:
        """(model, path) of each file; without a name the file's own is taken."""
        plain = unique_names([_split(text)[1] for text in self.files])
        return [
            (_split(text)[0] or name, _split(text)[1])
            for text, name in zip(self.files, plain, strict=True)
        ]

    def paths(self) -> list[str | None]:
        """All files that are read."""
        others = (self.train, self.train_users, self.previous, self.by)
        return [
            *(path for _, path in self.named_files()),
            self.targets,
            *(None if text is None else path_of(text) for text in others),
        ]


def _split(text: str) -> tuple[str, str]:
    """NAME=FILE; a file whose own name holds = is meant as it is."""
    name, equals, path = text.partition("=")
    return ("", text) if not equals or os.path.exists(text) else (name, path)
