"""HolE (Nickel et al. 2016): φ = r · (h ⋆ t), with (h ⋆ t)_k = Σ_i h_i t_{(i+k) mod d}, circular correlation.

Each query is a circular correlation or convolution too, computed through the Fourier transform in O(d log d).
"""

from __future__ import annotations

import torch
from torch import Tensor

from staypositive.models.contract import BilinearModel


class HolE(BilinearModel):
    """Entity and relation rows are vectors of dim."""

    def entity_width(self) -> int:
        """One vector."""
        return self.dim

    def relation_width(self) -> int:
        """One vector."""
        return self.dim

    def peak(self) -> float:
        """Each of the dim² products h_i t_j meets one relation coordinate."""
        return self.dim**2

    def tail_query(self, head_rows: Tensor, relation_rows: Tensor) -> Tensor:
        """Return the convolution h * r: q_j = Σ_i h_i r_{(j-i) mod d}."""
        return self._transformed(torch.fft.rfft(head_rows) * torch.fft.rfft(relation_rows))

    def head_query(self, tail_rows: Tensor, relation_rows: Tensor) -> Tensor:
        """Return the correlation r ⋆ t: q_i = Σ_k r_k t_{(i+k) mod d}."""
        return self._transformed(torch.fft.rfft(relation_rows).conj() * torch.fft.rfft(tail_rows))

    def relation_query(self, head_rows: Tensor, tail_rows: Tensor) -> Tensor:
        """Return the correlation h ⋆ t."""
        return self._transformed(torch.fft.rfft(head_rows).conj() * torch.fft.rfft(tail_rows))

    def _transformed(self, spectrum: Tensor) -> Tensor:
        result: Tensor = self.scale * torch.fft.irfft(spectrum, n=self.dim)
        return result
