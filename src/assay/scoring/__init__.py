"""From hits to numbers: scores, their means, chance and ceiling."""
