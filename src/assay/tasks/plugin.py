"""Declare what the tasks room offers to the rest of the house."""

from assay.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    "tasks",
    commands=(
        CommandEntry(
            "tasks",
            "Evaluate",
            "Compare systems on many tasks: means, ranks and Borda counts.",
            "assay.tasks.command:command",
        ),
    ),
    schemas="assay.tasks:schemas.json",
)
