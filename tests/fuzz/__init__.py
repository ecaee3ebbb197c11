"""Mutated files through every reader and command: only named errors, never an internal one."""
