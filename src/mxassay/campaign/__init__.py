"""Campaigns: many kernels on many shapes, plans and dialects, dealt to many workers, each job done once."""
