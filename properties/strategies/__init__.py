"""Strategies, each named after what it makes. Those that depend on the kernel under test ask for it when they draw."""

from mxassay.properties.strategies.blocks import any_blocks, blocks, sharp_blocks, special_blocks, usable_blocks
from mxassay.properties.strategies.buffers import placements
from mxassay.properties.strategies.layouts import memory_layouts
from mxassay.properties.strategies.matrices import (
    block_matrices,
    certified_operands,
    ramped_operands,
    wide_operands,
)
from mxassay.properties.strategies.permutations import permutations
from mxassay.properties.strategies.plans import PLANS, every_launch, launches, splits
from mxassay.properties.strategies.shapes import shapes

__all__ = [
    "PLANS",
    "any_blocks",
    "block_matrices",
    "blocks",
    "certified_operands",
    "every_launch",
    "launches",
    "memory_layouts",
    "permutations",
    "placements",
    "ramped_operands",
    "shapes",
    "sharp_blocks",
    "special_blocks",
    "splits",
    "usable_blocks",
    "wide_operands",
]
