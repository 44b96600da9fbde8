"""Variables in one file, read where they lie: the format, and what is in it. Knows no shell."""
