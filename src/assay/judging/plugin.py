"""Declare the judging plugin."""

from importlib.resources import files
from typing import Final

from assay.plugins import CommandEntry, Plugin

METHODS: Final = ("drawn", "depth", "all")
AIMS: Final = ("differences", "means")
QUERY_KINDS: Final = ("title", "heading", "sentence")
_COMMANDS = {
    "queries": "Create queries from a log, documents, or a model.",
    "pool": "Choose the pairs of query and document to label.",
    "label": "Label the pairs of a pool, on a local page or in the terminal.",
    "judge": "Let a model label the pairs of a pool.",
    "agreement": "Measure how labellers agree, and whether a judge favours a system.",
}
PLUGIN = Plugin(
    "judging",
    commands=tuple(
        CommandEntry(name, "Judge", summary, f"assay.judging.command:{name}_command", False)
        for name, summary in _COMMANDS.items()
    ),
    hooks={
        "bound_scores": "assay.judging.holes:bound_scores",
        "bound_differences": "assay.judging.holes:bound_differences",
        **{
            name: f"assay.judging.command:{name}"
            for name in ("estimate_labels", "report_sections", "dashboard_views")
        },
    },
    schemas="assay.judging:schemas.json",
    demo_files="assay.judging.demo:write_files",
)


def read_asset(name: str) -> str:
    """Return the text of a file of this room: a prompt, or a part of the page."""
    return files(__package__).joinpath("assets", name).read_text("utf-8")
