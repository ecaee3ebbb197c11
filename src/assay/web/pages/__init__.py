"""The pages of the dashboard, one to a file."""
