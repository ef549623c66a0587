"""``python chapters/c20_on_trial/tensorflow_layer.py``: run Road to ML's layer as published,
in TensorFlow, and record what it does.

TensorFlow and Keras go into an environment of their own, made for this run and thrown away after
it: nothing of the course needs them. The record, ``tensorflow_layer.json`` beside this file, is
what chapter 20 shows.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

# the only place where these versions stand
REQUIREMENTS = ["tensorflow-cpu==2.21.0", "keras==3.15.1"]
RECORD = Path(__file__).with_suffix(".json")

# The code of an article on layer normalization in the series "Road to ML Engineer"; the
# indentation is restored.
PUBLISHED = """\
class LayerNormalization(layers.Layer):
    def __init__(self, embed_dim, epsilon=1e-5):
        super(LayerNormalization, self).__init__()
        self.gamma = tf.Variable(tf.ones((1, embed_dim)), trainable=True, name="gamma")
        self.beta = tf.Variable(tf.zeros((1, embed_dim)), trainable=True, name="beta")
        self.epsilon = epsilon
    def call(self, x):
        mean = tf.expand_dims(tf.reduce_mean(x, axis=-1), axis=-1)
        var = tf.expand_dims(tf.math.reduce_variance(x, axis=-1), axis=-1)
        normalized = (x - mean) / tf.math.sqrt(var + self.epsilon)
        out = self.gamma * normalized + self.beta
        return out
"""
MENDED = PUBLISHED  # what Keras 3 asks for in place of a tf.Variable, and nothing else
for values, name in {"ones": "gamma", "zeros": "beta"}.items():
    old = f'tf.Variable(tf.{values}((1, embed_dim)), trainable=True, name="{name}")'
    MENDED = MENDED.replace(
        old, f'self.add_weight(shape=(1, embed_dim), initializer="{values}", name="{name}")'
    )


def main() -> None:
    """Make the environment, run this file in it, and let it write the record."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
        quiet = {
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TF_ENABLE_ONEDNN_OPTS": "0",
            "CUDA_VISIBLE_DEVICES": "",
        }
        subprocess.run([python, __file__, "inside", RECORD], check=True, env=quiet)


def inside(out: Path) -> None:
    """Run the layer and write what it did; only here is TensorFlow at hand."""
    import keras
    import numpy as np
    import tensorflow as tf

    def layer_class(source: str) -> type:
        namespace = {"tf": tf, "layers": keras.layers}
        exec(source, namespace)
        return namespace["LayerNormalization"]

    def built(source: str, *, frozen: bool = False) -> keras.Model:
        keras.utils.set_random_seed(0)
        after = keras.layers.Dense(1, trainable=not frozen)
        model = keras.Sequential([keras.Input((8,)), layer_class(source)(8), after])
        model.compile(keras.optimizers.Adam(0.01), "mse")
        return model

    def lived(source: str, folder: Path) -> dict:
        (model, other), before = (built(source), built(source)), built(source).layers[1].kernel
        norm, dense = model.layers
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(rows) - target) ** 2)
        gradient = tape.gradient(loss, norm.gamma)
        four, alone = {"batch_size": len(rows), "verbose": 0}, built(source, frozen=True)
        losses = model.fit(rows, target, epochs=200, **four).history["loss"]
        losses_alone = alone.fit(rows, target, epochs=200, **four).history["loss"]
        fit = {
            "loss, first and last": losses[:: len(losses) - 1],
            "the same, the layer after it frozen": losses_alone[:: len(losses) - 1],
            "trainable_weights": [weight.name for weight in norm.trainable_weights],
            "gradient of gamma": float(tf.norm(gradient)),
            "gamma moved by": float(tf.norm(norm.gamma - 1.0)),
            "beta moved by": float(tf.norm(norm.beta)),
            "the layer after it moved by": float(tf.norm(dense.kernel - before)),
        }
        norm.gamma.assign(tf.fill((1, 8), 2.0))
        model.save_weights(folder / "model.weights.h5")
        other.load_weights(folder / "model.weights.h5")
        gamma = float(tf.reduce_max(other.layers[0].gamma))
        saved = {"a gamma of 2, saved and loaded": gamma}
        return {"fit": fit, "saved": saved}

    rows = np.sin(np.arange(32.0) ** 2).reshape(4, 8)  # (B, C), from -1 to 1
    target = np.sin(np.arange(4.0))[:, None]
    inputs = {
        "ordinary": ("float32", rows),
        "quiet: spread 0.001": ("float32", 1e-3 * rows),
        "constant rows": ("float32", np.repeat([[0.1], [0.7], [3.3], [9.7]], 8, axis=1)),
        "far from zero: 10,000 ± 1": ("float32", 1e4 + rows),
        "float16, spread 300": ("float16", 300 * rows),
        "bfloat16, 8 ± 1": ("bfloat16", 8 + rows),
    }
    outputs, layer = {}, layer_class(PUBLISHED)(8)
    for name, (dtype, values) in inputs.items():
        x = tf.cast(tf.constant(values), dtype)
        as_lists = (tf.cast(part, tf.float64).numpy().tolist() for part in (x, layer(x)))
        outputs[name] = dict(zip(("dtype", "x", "y"), (dtype, *as_lists), strict=True))
    record = {
        "command": "python chapters/c20_on_trial/tensorflow_layer.py",
        "source": PUBLISHED,
        "outputs": outputs,
    }
    record["versions"] = {
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
    }
    rows, target = rows.astype("float32"), target.astype("float32")
    for name, source in {"as published": PUBLISHED, "with add_weight": MENDED}.items():
        with tempfile.TemporaryDirectory() as folder:
            record[name] = lived(source, Path(folder))
    lines = (
        f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in record.items()
    )
    out.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    inside(Path(sys.argv[2])) if sys.argv[1:2] == ["inside"] else main()
