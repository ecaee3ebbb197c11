"""Directions such as `text2sensor`, and the protocols of papers. Help reads it: no numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PROTOTYPE: Final = "prototype"


@dataclass(frozen=True)
class Direction:
    """Queries of one modality (or prototypes) search the items of another, or of their own."""

    source: str
    target: str

    @property
    def name(self) -> str:
        """Name such as `text2sensor`."""
        return f"{self.source}2{self.target}"

    @property
    def title(self) -> str:
        """Title such as `Text -> Sensor`."""
        return f"{_title(self.source)} -> {_title(self.target)}"

    @property
    def ends(self) -> tuple[str, str]:
        """Both modalities, that of the queries first."""
        return self.source, self.target

    @property
    def within(self) -> bool:
        """True where a modality searches itself."""
        return self.source == self.target


def _title(name: str) -> str:
    return "Text Prototype" if name == PROTOTYPE else name[:1].upper() + name[1:]


@dataclass(frozen=True)
class Protocol:
    """How pairs stand in the files, and what is averaged; None is left to the files."""

    name: str
    about: str
    captions: int | None = None
    images: int | None = None
    folds: int = 1


PROTOCOLS: Final = {
    protocol.name: protocol
    for protocol in (
        Protocol("coco-5k", "MS-COCO 5K test: 5,000 images, 5 captions each", 5, 5000),
        Protocol("coco-1k", "MS-COCO 1K test: mean over 5 folds of 1,000 images", 5, 5000, 5),
        Protocol("flickr30k", "Flickr30K test: 1,000 images, 5 captions each", 5, 1000),
        Protocol("pairs", "any number of images, any number of texts each"),
    )
}
