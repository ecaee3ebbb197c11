"""The plugin of the web room."""

from assay.plugins import CommandEntry, Plugin

_ABOUT = "Show a store of runs in the browser."

PLUGIN = Plugin(
    "web", commands=(CommandEntry("serve", "Keep and show", _ABOUT, "assay.web.command:command"),)
)
