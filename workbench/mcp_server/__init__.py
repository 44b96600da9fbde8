"""`workbench mcp`: a session for programs that speak the Model Context Protocol. No decisions."""
