"""A decoder of transformers, called with what it remembers of the tokens before (chapters 17, 18).

transformers 5.24 gave the argument ``past_key_values`` the name ``cache``, and the output's field
too.
"""

import inspect
from typing import Any

from torch import Tensor

__all__ = ["with_cache"]


def with_cache(model: Any, ids: Tensor, cache: Any = None, **inputs: Any) -> tuple[Any, Any]:
    """Return what ``model`` gives for ``ids`` (B, T), the tokens after those in ``cache``, and the
    cache with them. ``inputs`` are further arguments, such as ``position_ids``."""
    named = inspect.signature(model.forward).parameters
    name = "cache" if "cache" in named else "past_key_values"
    output = model(input_ids=ids, **{name: cache, "use_cache": True, **inputs})
    return output, getattr(output, name)
