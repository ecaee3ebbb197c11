"""Exact search, other engines under one contract, and fusion of rankings."""
