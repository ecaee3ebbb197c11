"""One file, or family of files, for each kind of evaluation; import the one you need."""
