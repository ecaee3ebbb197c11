"""Looking at one number or one input: explain and check."""
