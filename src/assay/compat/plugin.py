"""Declare the compat plugin."""

from assay.plugins import CommandEntry, Plugin

_ABOUT, _PLACE = "Print what trec_eval prints, by its own flags.", "assay.compat.command:command"

PLUGIN = Plugin(
    "compat", commands=(CommandEntry("trec_eval", "Tools", _ABOUT, _PLACE, multiplies=False),)
)
