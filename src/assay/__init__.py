"""How good a ranking is, and how sure you can be."""
