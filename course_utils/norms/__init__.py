"""Layer, RMS, group, instance and batch norm from scratch: drop-in for ``torch.nn.functional`` and ``torch.nn``.

core            x̂ and the three numerical decisions behind it
functional      the five norms on top of it (chapters 02, 03 and 06)
modules         the norms with parameters and running statistics; dynamic tanh, which does without statistics
contract        what PyTorch refuses
backward        the gradients by hand (chapter 05); intermediates: each of their steps beside autograd's
statistics      moving averages, Precise BN (chapter 04), moments that merge (08)
compiled        layer and RMS norm for PyTorch's compiler (chapter 09)

A `torch.fx` tracer must take the modules for leaves, as it does ``torch.nn``'s (``Tracer.is_leaf_module``).
"""

from course_utils.norms.functional import batch_norm, group_norm, instance_norm, layer_norm, rms_norm
from course_utils.norms.modules import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    DynamicTanh,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    RMSNorm,
)

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "DynamicTanh",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "RMSNorm",
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "rms_norm",
]
