"""Whether every model type is read layer by layer, or refused in a sentence."""

from chapters.c18_models_of_today.published_models import read_layers


def assert_read_or_refused(model_types):
    unread = []
    for model_type in model_types:
        try:
            layers = read_layers({"model_type": model_type, "num_hidden_layers": 4}, length=2**16)
        except ValueError:  # anything else is an error of read_layers
            unread.append(model_type)
        else:
            assert [layer.index for layer in layers] == list(range(len(layers))), model_type
    assert len(unread) < 0.5 * len(model_types), unread
