"""The seam: what may be asked of a session, whichever engine runs it. No engine's own code."""
