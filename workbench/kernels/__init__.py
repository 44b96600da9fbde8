"""A Jupyter kernel that a program drives: started or joined, and what is sent to it."""
