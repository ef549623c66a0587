"""A converter of checkpoints: a query or key projection from half to interleaved layout."""


def to_interleaved(weight, num_heads, num_kv_heads=None):
    """weight (R, C), head after head; for a key projection, num_kv_heads is given too."""
    if num_kv_heads is not None and num_heads != num_kv_heads:
        num_heads //= num_kv_heads
    rows, columns = weight.shape
    halves = weight.reshape(num_heads, 2, rows // num_heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)
