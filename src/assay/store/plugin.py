"""Declare the store plugin."""

from assay.plugins import CommandEntry, Plugin

_ABOUT = "List, show, compare, tag, export and repeat the runs that --save stored."

PLUGIN = Plugin(
    "store",
    commands=(CommandEntry("runs", "Keep and show", _ABOUT, "assay.store.command:command"),),
    hooks={"open_store": "assay.store:open", "write_records": "assay.store.files:write_records"},
    schemas="assay.store:schemas.json",
)
