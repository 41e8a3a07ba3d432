"""What callers, members and strangers can cost an edge, one kind of request a file."""
