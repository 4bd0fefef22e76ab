"""A fit's constants in the words of other tools, one format a file; `registry` has the list."""
