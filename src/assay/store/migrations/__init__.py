"""Scripts that lead a store from one schema to the next, in `versions`."""
