"""The words of normalization, and of what it costs."""

from course_utils.book.glossary.entry import Entry

__all__ = ["NORM_WORDS"]

NORM_WORDS = (
    Entry(
        "all-reduce",
        "every process ends up with the sum of what all of them hold",
        ("08",),
        names=("torch.distributed.all_reduce",),
    ),
    Entry(
        "arithmetic intensity", "operations for each byte that crosses the memory bus; a norm does about one", ("09",)
    ),
    Entry(
        "autograd.Function",
        "a forward and a backward pass written by hand",
        ("05",),
        names=("torch.autograd.Function",),
    ),
    Entry(
        "bandwidth", "bytes a second between memory and processor; the limit of every norm", ("09", "10"), symbol="W"
    ),
    Entry(
        "batch norm",
        "centre and scale each channel over the batch, and over space",
        ("03", "04", "08"),
        names=("torch.nn.functional.batch_norm", "torch.nn.BatchNorm1d"),
    ),
    Entry("bias", "the learned offset of a norm, from 0", ("02", "03"), symbol="\\beta"),
    Entry("biased variance", "the mean squared deviation: divided by n", ("03",), names=("torch.var",)),
    Entry("centring", "take the mean off", ("00", "01")),
    Entry(
        "channel",
        "the second dimension, which batch, group and instance norm have a weight for",
        ("03", "01"),
        symbol="C",
    ),
    Entry("claim", "a sentence with the cell that tests it, and the verdict", ("00",)),
    Entry(
        "data parallel",
        "each process holds a part of the batch; gradients are averaged",
        ("08",),
        names=("torch.nn.parallel.DistributedDataParallel",),
    ),
    Entry("dynamic tanh", "tanh of a learned multiple in place of a norm", ("06",), symbol="\\mathrm{DyT}"),
    Entry(
        "evaluation",
        "batch norm with running statistics; in training it takes those of the batch",
        ("03", "04"),
        names=("torch.nn.Module.train", "torch.nn.Module.eval"),
    ),
    Entry(
        "exponential moving average",
        "a new value's share, and the rest of the old average",
        ("04",),
        symbol="a",
        names=("torch.optim.swa_utils.AveragedModel",),
    ),
    Entry(
        "folding",
        "batch norm in evaluation, merged into the convolution before it",
        ("03",),
        names=("torch.nn.utils.fusion.fuse_conv_bn_eval",),
    ),
    Entry("fused kernel", "one kernel that does several steps on a row while it is in the chip", ("10", "09")),
    Entry("gain", "what a layer multiplies the size of a signal by", ("01",)),
    Entry(
        "gradcheck", "a gradient against finite differences, in float64", ("05",), names=("torch.autograd.gradcheck",)
    ),
    Entry(
        "group norm",
        "centre and scale groups of a sample's channels",
        ("06", "01"),
        names=("torch.nn.functional.group_norm", "torch.nn.GroupNorm"),
    ),
    Entry(
        "instance norm",
        "centre and scale each channel of each sample",
        ("06", "01"),
        names=("torch.nn.functional.instance_norm", "torch.nn.InstanceNorm2d"),
    ),
    Entry(
        "layer norm",
        "centre and scale each sample over its own features",
        ("02", "01"),
        symbol="\\mathrm{LN}",
        names=("torch.nn.functional.layer_norm", "torch.nn.LayerNorm"),
    ),
    Entry("mean", "over the dimensions that are normalized", ("02", "01"), symbol="\\mu", names=("torch.mean",)),
    Entry(
        "moments",
        "count, mean and sum of squared deviations; those of two parts merge exactly",
        ("04", "08"),
        symbol="M_2",
    ),
    Entry(
        "momentum",
        "the new value's share of a running average in PyTorch, the old one's in Keras",
        ("04", "03"),
        symbol="\\alpha",
    ),
    Entry("momentum=None", "a running average that gives every batch the same share", ("04",)),
    Entry("normalized value", "centred, and divided by the standard deviation", ("02", "05"), symbol="\\hat x"),
    Entry("normalized_shape", "the last dimensions, which layer norm shares a mean over", ("02",)),
    Entry("padding", "what fills a short sequence up to the length of the longest", ("03",)),
    Entry(
        "pre-norm",
        "the norm stands inside the residual branch; post-norm stands after the sum",
        ("07",),
        names=("torch.nn.TransformerEncoderLayer",),
    ),
    Entry(
        "Precise batch norm",
        "statistics measured over the data, in place of running ones",
        ("04",),
        names=("torch.optim.swa_utils.update_bn",),
    ),
    Entry(
        "QK norm",
        "an RMS norm on each query and key, which bounds the scores",
        ("06", "15"),
        names=("transformers.models.qwen3.modeling_qwen3.Qwen3Attention",),
    ),
    Entry(
        "rank", "the number of a process among those that work together", ("08",), names=("torch.distributed.get_rank",)
    ),
    Entry(
        "recompute",
        "a value of the forward pass made again in the backward pass instead of being saved",
        ("05",),
        names=("torch.utils.checkpoint.checkpoint",),
    ),
    Entry(
        "RMS norm",
        "divide each sample by its root mean square; no mean is taken off",
        ("06", "05"),
        symbol="\\mathrm{RMS}",
        names=("torch.nn.functional.rms_norm", "torch.nn.RMSNorm"),
    ),
    Entry("roofline", "the time that bytes and operations allow, whichever is longer", ("09",)),
    Entry(
        "rstd",
        "one over the standard deviation, ε included; what a backward pass wants saved",
        ("05", "10"),
        symbol="r",
        names=("torch.rsqrt",),
    ),
    Entry("running statistics", "the averages that batch norm keeps for evaluation", ("04", "03")),
    Entry("scan", "a recurrence of T linear steps in log₂ T rounds", ("07",)),
    Entry(
        "synchronised batch norm",
        "batch norm whose statistics are those of all processes together",
        ("08",),
        names=("torch.nn.SyncBatchNorm",),
    ),
    Entry("Triton", "a language for GPU kernels in Python, and its interpreter for machines without a GPU", ("10",)),
    Entry(
        "two passes",
        "the mean first, then the mean of squared differences; E[x²] − E[x]² is the one that fails",
        ("02", "04"),
    ),
    Entry(
        "unbiased variance",
        "the squared deviations divided by n − 1; what running_var stores",
        ("03", "04"),
        names=("torch.var",),
    ),
    Entry(
        "variance", "the mean squared distance from the mean", ("02", "03"), symbol="\\sigma^2", names=("torch.var",)
    ),
    Entry("weight", "the learned scale of a norm, from 1", ("02", "05"), symbol="\\gamma"),
    Entry(
        "ε",
        "what is added to the variance under the root, so that a constant row does not divide by 0",
        ("02", "05"),
        symbol="\\varepsilon",
    ),
)
