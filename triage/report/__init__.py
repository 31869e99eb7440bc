"""The report of a diagnosis: one HTML page, text for the terminal, JSON."""
