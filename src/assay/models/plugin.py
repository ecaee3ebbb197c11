"""Declare the models plugin."""

from assay.plugins import Plugin

PLUGIN = Plugin("models")
