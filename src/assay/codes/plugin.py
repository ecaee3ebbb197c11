"""Declare the codes plugin."""

from assay.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    "codes",
    commands=(
        CommandEntry(
            "codes", "Tasks", "Measure what compressed vectors lose.", "assay.codes.command:command"
        ),
    ),
    schemas="assay.codes:schemas.json",
    demo_files="assay.codes.demo:write_files",
)
