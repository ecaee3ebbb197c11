"""Declare what the models room offers to the rest of the house."""

from assay.plugins import Plugin

PLUGIN = Plugin("models")
