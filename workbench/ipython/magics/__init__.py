"""The magics, a file each for objects, storing, remote cells and sessions."""
