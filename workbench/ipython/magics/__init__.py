"""The magics: one file each for objects, storing, remote cells and sessions."""
