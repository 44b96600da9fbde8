"""The notebook's side: extension, magics, cell analysis, output routing. Parse, delegate, show."""
