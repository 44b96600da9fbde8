"""The seam to what runs the work: one small protocol, and one module per engine behind it."""
