"""Predictions of one class for each sample."""
