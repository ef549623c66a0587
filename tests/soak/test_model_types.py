"""All causal model types that transformers knows; chapter 18's tests have one in twelve."""

from model_types import assert_read_or_refused
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES


def test_every_causal_model_type_is_read_layer_by_layer_or_refused_in_a_sentence():
    assert_read_or_refused(list(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
