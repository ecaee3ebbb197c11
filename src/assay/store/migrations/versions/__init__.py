"""One script for each schema, named after it; a script never changes once it is published."""
