"""The same operations in libraries that others publish, where they are installed: what the ladder is compared with."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

__all__ = ["Peer", "installed", "version", "versions"]

EPS = 1e-5  # added to the variance or the mean square in every implementation of the ladder


@dataclass(frozen=True)
class Peer:
    """A library's function for one operation; it is called with what ``arrange``, not timed, makes of the inputs."""

    library: str
    distribution: str
    operation: str
    fn: Callable[..., Any]
    needs_cuda: bool = True
    in_place: bool = False
    arrange: Callable[..., tuple[Any, ...]] | None = None


def installed(operation: str, device: str) -> Iterator[Peer]:
    """Yield each library's function for ``operation`` that is installed and runs on ``device``.

    Args:
        operation: "layer_norm" (x, weight, bias, EPS), "rms_norm" (x, weight, eps) or "rope" (q, k, cos, sin).
        device: "cpu" or "cuda".
    """
    for peer in _PEERS:
        if peer.operation == operation and (device == "cuda" or not peer.needs_cuda) and find_spec(peer.library):
            yield peer


def versions() -> dict[str, str]:
    """Return the version of each of these libraries that is installed."""
    return {peer.library: version(peer.distribution) for peer in _PEERS if find_spec(peer.library)}


def version(distribution: str) -> str:
    """Return the version that is installed; "unknown" for a library that came under another name, as in a nightly."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "unknown"


def _liger_layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return import_module("liger_kernel.ops.layer_norm").LigerLayerNormFunction.apply(x, weight, bias, EPS)


def _liger_rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    # offset 0, Llama's order of casts, and not in place: its default writes dx over the gradient that it was given
    return import_module("liger_kernel.ops.rms_norm").LigerRMSNormFunction.apply(x, weight, EPS, 0.0, "llama", False)


def _liger_rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return import_module("liger_kernel.ops.rope").LigerRopeFunction.apply(q, k, cos, sin)


def _quack_rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return import_module("quack").rmsnorm(x, weight, eps=EPS)


def _flash_layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return import_module("flash_attn.ops.triton.layer_norm").layer_norm_fn(x, weight, bias, eps=EPS)


def _flash_rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return import_module("flash_attn.ops.triton.layer_norm").rms_norm_fn(x, weight, None, eps=EPS)


def _transformers_rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return import_module("transformers.models.llama.modeling_llama").apply_rotary_pos_emb(q, k, cos, sin)


def _angles_as_in_llama(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """Prepare the angles as a model does once for all its layers: (1, T, D), each twice, in the dtype of ``q``."""
    return q, k, torch.cat((cos, cos), -1).to(q.dtype)[None], torch.cat((sin, sin), -1).to(q.dtype)[None]


_PEERS = (
    Peer("liger_kernel", "liger-kernel", "layer_norm", _liger_layer_norm),
    Peer("liger_kernel", "liger-kernel", "rms_norm", _liger_rms_norm),
    Peer("liger_kernel", "liger-kernel", "rope", _liger_rope, in_place=True, arrange=_angles_as_in_llama),
    Peer("quack", "quack-kernels", "rms_norm", _quack_rms_norm),
    Peer("flash_attn", "flash-attn", "layer_norm", _flash_layer_norm),
    Peer("flash_attn", "flash-attn", "rms_norm", _flash_rms_norm),
    Peer("transformers", "transformers", "rope", _transformers_rope, False, arrange=_angles_as_in_llama),
)
