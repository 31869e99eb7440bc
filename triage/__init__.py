"""From a failure to its cause: shrink it, name the wrong rule, find the first wrong value in the machine code."""
