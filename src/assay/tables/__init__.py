"""Tables as values, and their layouts as text, Markdown, LaTeX and CSV."""
