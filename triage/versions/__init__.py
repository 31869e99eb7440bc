"""Two versions of one kernel: compare them, bisect between them, remember every verdict."""
