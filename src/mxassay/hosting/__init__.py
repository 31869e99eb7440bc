"""Hosts for code written for a card: contest files, scripts, test suites, aiter checkouts, prebuilt code objects.

Each module is imported by its full name; importing this package loads neither torch nor triton.
"""
