"""Layer, RMS, group, instance and batch norm from scratch: drop-in for ``torch.nn.functional`` and
``torch.nn``.

core              x̂ and the three numerical decisions behind it
functional        the five norms on top of it (chapters 02, 03 and 06), L2 and scale norm (07)
modules           the norms with parameters and running statistics; dynamic tanh, which does without
                  statistics
builtin_errors    what PyTorch refuses
backward          the gradients by hand (chapter 05)
statistics        moving averages, Precise BN (chapter 04), moments that merge (09)

Every norm of the repository:

norm                                     file                                   what it is for
---------------------------------------  -------------------------------------  --------------------
layer, RMS, group, instance, batch norm  course_utils/norms/functional.py       use, as F.layer_norm
L2 norm (QK norm), scale norm            course_utils/norms/functional.py       use, as F.normalize
LayerNorm … InstanceNorm3d               course_utils/norms/modules.py          use, as nn.LayerNorm
gradients by hand                        course_utils/norms/backward.py         read; least is saved
layer and RMS norm in Triton             course_utils/kernels/norm_kernels.py   speed on a GPU
a function in place of a model's norm    course_utils/swap/replace.py           transformers' models
SyncBatchNorm                            chapters/c09_*/sync_batch_norm.py      many processes
loops, one pass, two passes              chapters/c10_*/ladder/*_norm.py        be timed
right answers, their mistakes beside it  chapters/c*/exercises.py               hold answers against
five layer norms of write-ups            chapters/c20_*/writeup_layer_norms.py  compare divisors
pieces with a bug each                   chapters/c21_*/bugs/pieces/*.py        be found out

A `torch.fx` tracer must take the modules for leaves, as it does ``torch.nn``'s
(``Tracer.is_leaf_module``).
"""

from course_utils.norms.functional import (
    batch_norm,
    group_norm,
    instance_norm,
    l2_norm,
    layer_norm,
    rms_norm,
    scale_norm,
)
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
    "l2_norm",
    "layer_norm",
    "rms_norm",
    "scale_norm",
]

__getattr__ = submodules(__name__)
