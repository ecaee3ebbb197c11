"""One file for each kind of encoder; its package is imported when it is used."""
