"""The seam: what a session can be asked, whichever engine runs it. No code of any one engine."""
