"""Settings of a process beside variables: read, compared, sent, set. Knows no cell, no session."""
