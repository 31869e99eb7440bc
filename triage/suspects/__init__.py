"""Suspects: wrong rules, each a variant of the reference."""
