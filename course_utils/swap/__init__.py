"""Put other norms and another RoPE into a model of transformers, in place (chapter 17).

    swapped = swap(model)                                # the course's functions
    swapped = swap(model, rms_norm=mine, rope=mine_too)  # yours, or frequencies=
    compare_layers(model, original, input_ids=ids)       # which layer differs first, and by how
                                                         much

What is replaced keeps its parameters under their names, so that ``state_dict``, gradients and
optimizers go on working.

    replace    swap: norms, recognised by what they compute, and rotary embeddings; the report, and
               the way back
    compare    two copies of a model, layer by layer; or plain, cached, padded, and backwards
"""

from course_utils.rooms import submodules
from course_utils.swap.compare import LayerErrors, compare_layers, compare_runs
from course_utils.swap.replace import Swapped, swap

__all__ = ["LayerErrors", "Swapped", "compare_layers", "compare_runs", "swap"]

__getattr__ = submodules(__name__)
