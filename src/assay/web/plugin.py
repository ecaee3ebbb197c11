"""The plugin of the web room."""

from assay.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    "web",
    commands=(
        CommandEntry(
            "serve",
            "Keep and show",
            "Show a store of runs in the browser.",
            "assay.web.command:command",
        ),
    ),
)
