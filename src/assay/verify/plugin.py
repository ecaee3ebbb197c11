"""Declare the verify plugin."""

from assay.plugins import CommandEntry, Plugin

_ABOUT = "Recompute a stored result and tell whether it is the same."

PLUGIN = Plugin(
    "verify",
    commands=(CommandEntry("verify", "Evaluate", _ABOUT, "assay.verify.command:command"),),
    schemas="assay.verify:schemas.json",
)
