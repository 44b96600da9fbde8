"""What sessions on a cluster have in common, whichever system runs them. Imports none of these."""
