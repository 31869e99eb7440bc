"""One module a command; each has `run(options) -> exit code`."""
