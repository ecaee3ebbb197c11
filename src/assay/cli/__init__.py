"""The command line: `assay COMMAND`, one module for each command; `main` runs them."""
