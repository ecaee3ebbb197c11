"""Does a stored result come out again? Compute it from its inputs and compare every value."""
