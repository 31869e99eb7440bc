"""The chapters of the specification, made from the objects that the code uses. `docs/generate.py` writes them."""
