"""The record of the layer in TensorFlow is of the published code; chapter 20 runs the others."""

import json

from chapters.c20_on_trial.tensorflow_layer import PUBLISHED, REQUIREMENTS
from chapters.contents import chapter_of


def test_the_record_is_of_the_published_code():
    record = json.loads((chapter_of("20").folder / "tensorflow_layer.json").read_text())
    assert record["source"] == PUBLISHED
    assert [
        f"{name}=={record['versions'][name.split('-')[0]]}" for name in ("tensorflow-cpu", "keras")
    ] == REQUIREMENTS
