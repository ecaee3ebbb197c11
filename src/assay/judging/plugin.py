"""Declare what the judging room offers to the rest of the house."""

from assay.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    "judging",
    commands=(
        CommandEntry(
            "pool",
            "Judge",
            "Choose the pairs of query and document to label.",
            "assay.judging.command:pool_command",
            multiplies=False,
        ),
    ),
    schemas="assay.judging:schemas.json",
    demo_files="assay.judging.demo:write_files",
)
