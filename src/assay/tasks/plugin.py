"""Declare the tasks plugin."""

from assay.plugins import CommandEntry, Plugin

_ABOUT = "Compare systems on many tasks: means, ranks and Borda counts."

PLUGIN = Plugin(
    "tasks",
    commands=(CommandEntry("tasks", "Evaluate", _ABOUT, "assay.tasks.command:command"),),
    schemas="assay.tasks:schemas.json",
)
