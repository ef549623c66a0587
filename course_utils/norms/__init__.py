"""Layer, RMS, group, instance and batch norm from scratch: drop-in for ``torch.nn.functional`` and ``torch.nn``.

core              x̂ and the three numerical decisions behind it
functional        the five norms on top of it (chapters 02, 03 and 06)
modules           the norms with parameters and running statistics; dynamic tanh, which does without statistics
builtin_errors    what PyTorch refuses
backward          the gradients by hand (chapter 05); intermediates: each of their steps beside autograd's
statistics        moving averages, Precise BN (chapter 04), moments that merge (08)

Every norm of the repository:

norm                                      file                              what it is for
----------------------------------------  --------------------------------  -----------------------------------------
layer, RMS, group, instance, batch norm   norms/functional.py               use, as torch.nn.functional's
LayerNorm … InstanceNorm3d                norms/modules.py                  use, as torch.nn's
layer, batch, RMS norm, gradient by hand  norms/backward.py                 read the gradient; the least is saved
layer and RMS norm in Triton              kernels/norm_kernels.py           speed on a GPU: kernels.layer_norm
SyncBatchNorm                             parallel/sync_batch_norm.py       one batch on several processes
a function in place of a model's norm     swap/replace.py                   models of transformers
loops, one pass, two passes               timing/ladder.py                  be timed
the course's layer and RMS norm           check/exercises/trailing.py       hold answers to chapters 02 and 06 against
the course's norms over channels          check/exercises/channels.py       the same, chapters 03 and 06
a norm kernel, its backward pass          check/exercises/kernels.py        the same, in Triton
five layer norms of write-ups             models/source_layers.py           compare what they divide by
pieces with a bug each                    bugs/pieces/*.py                  be found out

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
from course_utils.rooms import submodules

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

__getattr__ = submodules(__name__)
