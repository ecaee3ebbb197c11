"""Two or more systems on the same queries: pairs, verdicts, gate, sensitivity."""
