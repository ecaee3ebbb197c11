"""Declare what the vision room offers to the rest of the house."""

from assay.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    "vision",
    commands=(
        CommandEntry(
            "descriptors",
            "Tasks",
            "Evaluate image descriptors on scenes with known homographies.",
            "assay.vision.command:command",
        ),
    ),
    hooks={"measure_names": "assay.vision.settings:name_measures"},
    schemas="assay.vision:schemas.json",
    demo_files="assay.vision.scenes:write_files",
)
