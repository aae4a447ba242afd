"""HolE (Nickel et al. 2016): φ = r · (h ⋆ t), with (h ⋆ t)_k = Σ_i h_i t_{(i+k) mod d}, circular correlation.

Each query is a circular correlation or convolution too, computed through the Fourier transform in O(d log d).
"""

from __future__ import annotations

import torch
from torch import Tensor

from staypositive.models.contract import BilinearModel


class HolE(BilinearModel):
    def max_score(self) -> float:
        return self.dim**2  # each of the dim² products h_i t_j meets one relation coordinate

    def tail_query(self, head_rows: Tensor, relation_rows: Tensor) -> Tensor:
        """Return the convolution h * r: q_j = Σ_i h_i r_{(j-i) mod d}."""
        return self._transformed(_spectrum(head_rows) * _spectrum(relation_rows))

    def head_query(self, tail_rows: Tensor, relation_rows: Tensor) -> Tensor:
        """Return the correlation r ⋆ t: q_i = Σ_k r_k t_{(i+k) mod d}."""
        return self._transformed(_spectrum(relation_rows).conj() * _spectrum(tail_rows))

    def relation_query(self, head_rows: Tensor, tail_rows: Tensor) -> Tensor:
        return self._transformed(_spectrum(head_rows).conj() * _spectrum(tail_rows))

    def _transformed(self, spectrum: Tensor) -> Tensor:
        if not spectrum.numel():
            return spectrum.real.new_zeros(*spectrum.shape[:-1], self.dim)
        result: Tensor = self.scale * torch.fft.irfft(spectrum, n=self.dim)
        return result


def _spectrum(rows: Tensor) -> Tensor:
    """Return the Fourier coefficients of rows; not every FFT library accepts that there are no rows."""
    if rows.numel():
        coefficients: Tensor = torch.fft.rfft(rows)
        return coefficients
    return torch.complex(rows, rows)[..., : rows.shape[-1] // 2 + 1]
