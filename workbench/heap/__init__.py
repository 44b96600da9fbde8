"""Where this process's own memory is: who holds how much of it. Knows no session and no store."""
