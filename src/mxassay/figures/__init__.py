"""Figures: what `mxassay bench` measures, each with its bar and its peer."""
