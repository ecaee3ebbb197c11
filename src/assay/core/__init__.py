"""The values of the straight line, ids, order and conventions; every check of user input."""
