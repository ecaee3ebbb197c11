"""Declare what the crossmodal room offers to the rest of the house."""

from assay.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    "crossmodal",
    commands=(
        CommandEntry(
            "crossmodal",
            "Tasks",
            "Label retrieval across modalities: do neighbours carry the same label?",
            "assay.crossmodal.command:command",
        ),
    ),
    schemas="assay.crossmodal:schemas.json",
    demo_files="assay.crossmodal.demo:write_files",
)
