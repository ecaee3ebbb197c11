"""Declare the crossmodal plugin; import without numpy."""

from dataclasses import dataclass

from assay.plugins import CommandEntry, Plugin


@dataclass(frozen=True)
class Protocol:
    """How pairs stand in the files, and what is averaged; None is left to the files."""

    name: str
    about: str
    captions: int | None = None
    images: int | None = None
    folds: int = 1


# The values of --protocol and `protocol=`.
PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("coco-5k", "MS-COCO 5K test: 5,000 images, 5 captions each", 5, 5000),
        Protocol("coco-1k", "MS-COCO 1K test: mean over 5 folds of 1,000 images", 5, 5000, 5),
        Protocol("flickr30k", "Flickr30K test: 1,000 images, 5 captions each", 5, 1000),
        Protocol("pairs", "any number of images, any number of texts each"),
    )
}

_ABOUT = "Evaluate retrieval across modalities: labels, image–text pairs, zero-shot."

PLUGIN = Plugin(
    "crossmodal",
    commands=(CommandEntry("crossmodal", "Tasks", _ABOUT, "assay.crossmodal.command:command"),),
    schemas="assay.crossmodal:schemas.json",
    demo_files="assay.crossmodal.demo:write_files",
)
