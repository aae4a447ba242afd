"""The device that a training runs on."""

from __future__ import annotations

import torch

from staypositive.errors import SettingError


def resolve_device(name: str) -> torch.device:
    """Return the device of that name; `auto` takes CUDA where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise SettingError(f"expected a device such as auto, cpu, cuda or cuda:1, got {name!r}") from None
    if device.type not in ("cpu", "cuda"):
        raise SettingError(f"expected a device such as auto, cpu, cuda or cuda:1, got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SettingError(f"no CUDA device {name!r} is available here; use --device cpu")
    return device
