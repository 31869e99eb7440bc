"""The operands of one product, in linear form, and everything that follows from them."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch

from mxassay.kernels import Shape
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.properties.reading import ReadsWell
from mxassay.reference import DIALECTS, Expectation, Quantized, dequantize, expectation, quantize


@dataclass(frozen=True, eq=False, repr=False)
class Operands(ReadsWell):
    """Activations and weights of one product.

    Attributes:
        a: bfloat16 (M, K).
        codes: uint8 (N, K/2), packed E2M1 codes of W, row-major.
        scales: uint8 (N, K/32), E8M0 scales of W, row-major.
        dialect: the name of the dialect that quantizes `a`.
        words: how they were made, for people.
    """

    a: torch.Tensor
    codes: torch.Tensor
    scales: torch.Tensor
    dialect: str = "even"
    words: str = ""

    @property
    def shape(self) -> Shape:
        """(M, N, K)."""
        return self.a.shape[0], self.codes.shape[0], self.a.shape[1]

    @cached_property
    def quantized(self) -> Quantized:
        """`a` quantized by the reference."""
        return quantize(self.a, DIALECTS[self.dialect])

    @cached_property
    def expectation(self) -> Expectation:
        """What must come out."""
        return expectation(*self.quantized, self.codes, self.scales)

    @cached_property
    def weights(self) -> torch.Tensor:
        """bfloat16 (N, K): W, dequantized."""
        return dequantize(self.codes, self.scales).to(torch.bfloat16)

    @cached_property
    def preshuffled(self) -> torch.Tensor:
        """uint8 (N, K/2): the codes of W as they lie in memory."""
        return WEIGHT_PRESHUFFLE.apply(self.codes)

    def stored(self, device: str, fill: int = 0xFF) -> tuple[torch.Tensor, torch.Tensor]:
        """W as the kernel reads it, on the device: preshuffled codes, and shuffled scales padded with `fill`."""
        scales = SCALE_SHUFFLE.apply(self.scales, fill=fill)
        return WEIGHT_PRESHUFFLE.apply(self.codes).to(device), scales.to(device)

    def rows(self, index: torch.Tensor) -> "Operands":
        """With these rows of A alone, in this order."""
        return replace(self, a=self.a[index].contiguous(), words=f"{self.words}, rows chosen")

    def columns(self, index: torch.Tensor) -> "Operands":
        """With these rows of W alone, in this order: columns of the output."""
        return replace(
            self,
            codes=self.codes[index].contiguous(),
            scales=self.scales[index].contiguous(),
            words=f"{self.words}, columns chosen",
        )

    def blocks(self, index: torch.Tensor) -> "Operands":
        """With these blocks along K alone, in this order, of A and W alike. `index` may repeat blocks."""
        (m, k), n, groups = self.a.shape, self.codes.shape[0], len(index)
        return replace(
            self,
            a=self.a.reshape(m, k // 32, 32)[:, index].reshape(m, 32 * groups),
            codes=self.codes.reshape(n, k // 32, 16)[:, index].reshape(n, 16 * groups),
            scales=self.scales[:, index].contiguous(),
            words=f"{self.words}, blocks chosen",
        )

    def __repr__(self) -> str:
        m, n, k = self.shape
        return f"<M={m} N={n} K={k}: {self.words}>"
