"""Layer, RMS, group, instance and batch norm from scratch: drop-in for ``torch.nn.functional`` and ``torch.nn``.

core             x̂ and the three numerical decisions behind it
functional       the five norms on top of it
modules          layer, RMS and group norm with their parameters
running_modules  batch and instance norm with parameters and running statistics
dynamic_tanh     the layer that does without statistics
contract         what PyTorch refuses, in PyTorch's words

The modules are no subclasses of ``torch.nn``'s. A tool that asks ``isinstance(module, nn.BatchNorm2d)``, such as
``torch.optim.swa_utils.update_bn``, ``convert_sync_batchnorm`` or a list of what gets no weight decay, passes them by
without a word: ``statistics.precise_batch_norm`` and ``distributed.convert`` are for these. A `torch.fx` tracer must
take them for leaves, as it does ``torch.nn``'s (``Tracer.is_leaf_module``).
"""

from course_utils.norms.dynamic_tanh import DynamicTanh
from course_utils.norms.functional import batch_norm, group_norm, instance_norm, layer_norm, rms_norm
from course_utils.norms.modules import GroupNorm, LayerNorm, RMSNorm
from course_utils.norms.running_modules import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
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
