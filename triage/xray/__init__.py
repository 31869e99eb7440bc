"""X-ray: what the failing tile looks like at each point of its way through the code object."""
