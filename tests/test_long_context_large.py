"""The long-context experiment for a GPU, at toy size on the CPU: resumable, the same on several processes, exact."""

import dataclasses
import json
import os
import signal
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open

from course_utils.experiments import Study, archive, checkpoints, command, find, long_context_large, run_study, study
from course_utils.experiments.checkpoints import CheckpointError
from course_utils.experiments.long_context_large import LARGE, Large, cells, methods, prepare
from course_utils.experiments.resumable import Plan
from course_utils.experiments.tags import Tags
from course_utils.models import decoder, windowed_attention
from course_utils.parallel.processes import launch
from course_utils.recorded import RecordError
from course_utils.rope import apply_rope, rope_cos_sin, rope_inv_freq

TOY = Large(
    task=Tags(window=32, fillers=8, names=4, values=4, questions=8),
    width=32,
    heads=2,
    depth=2,
    hidden=64,
    base=10_000.0,
    streams=2,
    plan=Plan(steps=5, shards=2, learning_rate=1e-3, warm_up=2, save_every=2),
    seeds=(0, 1),
    multiples=(1, 4),
    tested=2,
)


def nothing(cell, progress):
    raise AssertionError("the runs are those that were prepared")


TOY_STUDY = Study(
    "toy-large",
    "does the toy train?",
    lambda size: cells(TOY),
    nothing,
    sizes=("toy",),
    prepare={"toy": lambda folder, progress: prepare(TOY, folder, progress=progress, device_type="cpu")},
)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setitem(study.STUDIES, "toy-large", f"{__name__}:TOY_STUDY")
    yield
    torch.set_num_threads(threads)


def weights_to_be_saved(patch):
    """Return a list that gets the weights of every model whose training ends, before they are rounded to float16."""
    found, save = [], checkpoints.save

    def note_and_save(model, path, facts):
        found.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        save(model, path, facts)

    patch.setattr(checkpoints, "save", note_and_save)
    return found


def same_bits(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@contextmanager
def interrupted_at(monkeypatch, step, number=signal.SIGINT):
    """Send this process a signal while ``step`` of the first model is being taken."""
    draw = Tags.draw

    def draw_and_interrupt(task, streams, length, generator):
        if generator.initial_seed() == (10**6 + step) * 10**3 + 1:
            os.kill(os.getpid(), number)
        return draw(task, streams, length, generator)

    with monkeypatch.context() as patch:
        patch.setattr(Tags, "draw", draw_and_interrupt)
        yield


def test_the_real_sizes_are_those_that_are_promised():
    with torch.device("meta"):
        model = LARGE.new_model(None)
    assert 50e6 < LARGE.parameters == sum(tensor.numel() for tensor in model.state_dict().values()) < 100e6
    assert LARGE.task.window == model.window == 2048
    tokens = LARGE.plan.steps * LARGE.plan.shards * LARGE.streams * 2048
    attention = 3 * LARGE.depth * 4 * 1024 * LARGE.width  # of 1,024 tokens on average; backward is twice forward
    assert tokens == pytest.approx(131e6, rel=0.01)
    assert tokens * (6 * LARGE.parameters + attention) == pytest.approx(6e16, rel=0.03)
    assert max(LARGE.multiples) * LARGE.task.window == 32_768
    assert model.head_dim == 64
    gpu = find("long-context").cells("gpu")
    assert gpu == cells(LARGE)
    assert len(gpu) == len(methods(LARGE)) * 5 * 3
    assert {cell["seed"] for cell in gpu} == {0, 1, 2}


def test_a_run_from_the_command_line_trains_tests_and_records_each_way_of_scaling(tmp_path, capsys):
    out = tmp_path / "toy.json"
    assert command.main(["toy-large", "--size", "toy", "--out", str(out)]) == 0
    assert f"the trained models in {tmp_path / 'toy-kept'}" in capsys.readouterr().out
    rows = archive.read(out)
    assert [{key: row[key] for key in cell} for cell, row in zip(cells(TOY), rows, strict=True)] == cells(TOY)
    assert {path.name for path in (tmp_path / "toy-kept").iterdir()} == {"seed-0.safetensors", "seed-1.safetensors"}
    far = rows.select(multiple=4, seed=0)
    assert len({row["loss"] for row in far}) >= len(far) - 2  # ways of scaling differ, but for those with one factor
    assert len({row["loss"] for row in rows.select(multiple=1, seed=0)}) < 6  # at the trained window most are one


def test_training_lowers_the_loss_as_much_as_plain_float32_training_does():
    task = TOY.task
    losses = {}
    for name in ("bfloat16", "float32"):
        model = TOY.new_model(0)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        device = torch.device("cpu")
        values = []
        for step in range(40):
            tokens = task.draw(2, 32, torch.Generator().manual_seed((10**6 + step) * 10**3)).tokens
            if name == "bfloat16":
                loss = long_context_large._loss(TOY, device, 0, model, step, 0)
            else:
                loss = F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            values.append(loss.item())
        losses[name] = sum(values[-10:]) / 10
        assert losses[name] < values[0] - 0.5
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.01)  # bfloat16 rounds by up to 1 part in 256


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_training_interrupted_and_resumed_is_the_uninterrupted_one_bit_for_bit(tmp_path, monkeypatch, number):
    one, trained = dataclasses.replace(TOY, seeds=(0,)), weights_to_be_saved(monkeypatch)
    prepare(one, tmp_path / "whole", progress=False, device_type="cpu")
    for step in (0, 3):
        with interrupted_at(monkeypatch, step, number), pytest.raises(KeyboardInterrupt):
            prepare(one, tmp_path / "parts", progress=False, device_type="cpu")
        with safe_open(tmp_path / "parts" / "seed-0.state", "pt") as state:
            assert json.loads(state.metadata()["facts"])["step"] == step + 1  # the step that was being taken is there
    prepare(one, tmp_path / "parts", progress=False, device_type="cpu")
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["seed-0.safetensors"]
    assert same_bits(*trained)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_command_says_what_an_interruption_left_and_goes_on_from_there(tmp_path, capsys, monkeypatch):
    arguments = ["toy-large", "--size", "toy", "--out", str(tmp_path / "toy.json")]
    with interrupted_at(monkeypatch, 2):
        assert command.main(arguments) == 130
    assert "toy.json.partial and " in capsys.readouterr().err
    assert command.main(arguments) == 0
    record = json.loads((tmp_path / "toy.json").read_text())
    assert record["provenance"]["seconds"] > 0
    assert not (tmp_path / "toy.json.partial").exists()


def test_a_training_that_diverges_stops_and_keeps_what_was_saved_before(tmp_path, monkeypatch):
    one = dataclasses.replace(TOY, seeds=(0,))
    with interrupted_at(monkeypatch, 1), pytest.raises(KeyboardInterrupt):
        prepare(one, tmp_path, progress=False, device_type="cpu")
    before = (tmp_path / "seed-0.state").read_bytes()
    loss = long_context_large._loss
    monkeypatch.setattr(long_context_large, "_loss", lambda *a: loss(*a) * float("inf"))
    with pytest.raises(RuntimeError, match="gradients must be finite: got a norm of nan at step 4"):
        prepare(one, tmp_path, progress=False, device_type="cpu")
    assert (tmp_path / "seed-0.state").read_bytes() == before


@pytest.mark.parametrize("name", ["seed-0.state", "seed-0.safetensors"])
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("bit", r"is damaged: its weights do not match their checksum; delete it to train"),
        ("cut", r"is damaged or no safetensors file .*; delete it to train"),
        ("foreign", r"was made with width '32', and '48' is needed; delete it to train"),
    ],
)
def test_damaged_and_foreign_files_are_refused_by_name(tmp_path, monkeypatch, name, how, message):
    one = dataclasses.replace(TOY, seeds=(0,), plan=dataclasses.replace(TOY.plan, steps=2))
    if name.endswith("state"):
        with interrupted_at(monkeypatch, 0), pytest.raises(KeyboardInterrupt):
            prepare(one, tmp_path, progress=False, device_type="cpu")
    else:
        prepare(one, tmp_path, progress=False, device_type="cpu")
    content = bytearray((tmp_path / name).read_bytes())
    if how == "bit":
        content[-9] ^= 1
    (tmp_path / name).write_bytes(content[: len(content) // 2] if how == "cut" else content)
    if how == "foreign":
        one = dataclasses.replace(one, width=48)
    with pytest.raises(CheckpointError, match=rf"{name} {message}"):
        prepare(one, tmp_path, progress=False, device_type="cpu")


def test_a_gpu_run_without_a_gpu_is_one_clear_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert command.main(["long-context", "--size", "gpu", "--out", str(tmp_path / "gpu.json")]) == 2
    assert capsys.readouterr().err == (
        "course train: size gpu needs an NVIDIA GPU, and PyTorch finds none here: `course doctor` says why\n"
    )
    assert not any(tmp_path.iterdir())


def test_what_is_trained_needs_a_place_to_be_kept():
    with pytest.raises(ValueError, match="out must be given for size toy"):
        run_study(TOY_STUDY, "toy", progress=False)


def test_a_gpu_record_says_how_many_gpus_it_took(tmp_path, monkeypatch):
    origin = archive.provenance("toy", "full", 1)
    origin |= {"size": "gpu", "device": "NVIDIA", "command": "c", "date": "2026-01-01", "seconds": 1.0}
    with pytest.raises(RecordError, match="no 'ranks' of the right kind"):
        archive.write(origin, [{"seed": 0}], tmp_path / "gpu.json")
    archive.write({**origin, "ranks": 4}, [{"seed": 0}], tmp_path / "gpu.json")
    assert archive.read(tmp_path / "gpu.json").origin.startswith("`c` on 4 × NVIDIA, torch ")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(archive, "device_name", lambda kind: f"a {kind}")
    monkeypatch.setattr(archive, "driver", lambda kind: f"driver of {kind}")
    origin = archive.provenance("toy", "gpu", 1)
    assert (origin["device"], origin["driver"], origin["ranks"]) == ("a cuda", "driver of cuda", 1)


def run_on_a_rank(out):
    """What `course train` is on each process that `torchrun` started, with the toy among its studies."""
    torch.set_num_threads(1)
    study.STUDIES["toy-large"] = f"{__name__}:TOY_STUDY"
    with pytest.MonkeyPatch.context() as patch:
        trained = weights_to_be_saved(patch)
        refused = command.main(["long-context", "--size", "reduced", "--out", out])
        return refused, command.main(["toy-large", "--size", "toy", "--out", out]), trained


def test_two_processes_train_the_same_models_as_one_bit_for_bit_and_the_first_alone_records(tmp_path, monkeypatch):
    alone = weights_to_be_saved(monkeypatch)
    run_study(TOY_STUDY, "toy", tmp_path / "one.json", progress=False)
    (*statuses, first), (*other_statuses, second) = launch(run_on_a_rank, 2, out=str(tmp_path / "two.json"))
    assert statuses == other_statuses == [2, 0]
    assert (len(alone), len(first), len(second)) == (2, 2, 0)
    for one, two in zip(alone, first, strict=True):
        assert same_bits(one, two)  # each gradient is g₀ / 2 + g₁ / 2, in which no order can differ
    assert list(archive.read(tmp_path / "two.json")) == list(archive.read(tmp_path / "one.json"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one-kept", "one.json", "two-kept", "two.json"]


def test_processes_that_cannot_share_a_batch_evenly_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("course_utils.experiments.ranks.count", lambda: 3)
    monkeypatch.setattr("course_utils.experiments.ranks.require_same", lambda value, what: None)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    with pytest.raises(ValueError, match="processes must divide the 2 shards of a batch: got 3"):
        prepare(TOY, tmp_path, progress=False, device_type="cpu")


@pytest.mark.parametrize(("length", "window"), [(64, 16), (64, 1), (50, 16), (16, 16), (10, 16), (33, 32)])
def test_attention_in_pieces_of_the_window_equals_attention_under_a_mask(length, window):
    q, k, v = torch.randn(3, 2, 3, length, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    q, k, v = (tensor.requires_grad_() for tensor in (q, k, v))
    back = torch.arange(length)[:, None] - torch.arange(length)
    scores = (q @ k.mT / 8**0.5).masked_fill((back < 0) | (back >= window), float("-inf"))
    wanted, got = scores.softmax(-1) @ v, windowed_attention.windowed_attention(q, k, v, window)
    torch.testing.assert_close(got, wanted)
    upstream = torch.randn(wanted.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for one, other in zip(*(torch.autograd.grad(y, (q, k, v), upstream) for y in (got, wanted)), strict=True):
        torch.testing.assert_close(one, other)


def test_the_sliding_window_never_makes_a_mask_of_the_length_squared(monkeypatch):
    attention, largest = F.scaled_dot_product_attention, []
    monkeypatch.setattr(
        F,
        "scaled_dot_product_attention",
        lambda q, k, v, mask: largest.append(mask.numel()) or attention(q, k, v, mask),
    )
    model = TOY.new_model(0).set_attention_window(32)
    model(TOY.task.draw(1, 64 * 32, torch.Generator().manual_seed(0)).tokens)
    assert max(largest) == 2 * 32**2
    with pytest.raises(ValueError, match="position must not be one of t5, alibi for a window: got 'alibi'"):
        decoder.Decoder(8, position="alibi").set_attention_window(4)


def test_angles_are_not_rounded_to_bfloat16_under_autocast(monkeypatch):
    given, length, far = [], 32_768, slice(32_704, None)
    monkeypatch.setattr(
        decoder, "apply_rope", lambda x, cos, sin: given.append((x, cos, sin)) or apply_rope(x, cos, sin)
    )
    model = dataclasses.replace(TOY, heads=1, depth=1).new_model(0).set_attention_window(32)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        logits = model(torch.zeros(1, length, dtype=torch.long))
        x, cos, sin = given[0]
        rotated = apply_rope(x, cos, sin)[:, :, far].double()
    assert (logits.dtype, x.dtype, cos.dtype, sin.dtype) == (
        torch.bfloat16,
        torch.bfloat16,
        torch.float32,
        torch.float32,
    )
    exact = rope_cos_sin(torch.arange(length)[far], rope_inv_freq(32), dtype=torch.float64)
    wanted = apply_rope(x[:, :, far].double(), *exact)
    scale = x[:, :, far].double().abs().amax()
    assert (rotated - wanted).abs().amax() < scale * 2**-7  # one rounding of the result; the pair is up to √2 larger
    rounded = rope_cos_sin(torch.arange(length)[far].bfloat16(), rope_inv_freq(32))
    assert (apply_rope(x[:, :, far].double(), *rounded) - wanted).abs().amax() > scale  # what bfloat16 angles would do


def test_fillers_found_at_once_are_those_found_one_after_the_other():
    for task, length in ((Tags(), 48), (Tags(noise=0.0), 500), (Tags(window=256, fillers=32, lag=5), 259)):
        tokens = task.draw(8, length, torch.Generator().manual_seed(3)).tokens
        free = torch.where(tokens < task.fillers, -1, tokens)
        generator = torch.Generator().manual_seed(4)
        drawn = torch.randint(task.fillers, free.shape, generator=generator)
        noisy = torch.rand(free.shape, generator=generator) < task.noise
        one_by_one = free.clone()
        for b in range(len(free)):
            for t in range(length):
                if free[b, t] < 0:
                    follows = not (t < task.lag or noisy[b, t])
                    one_by_one[b, t] = task.rule[one_by_one[b, t - task.lag]] if follows else drawn[b, t]
        task._fill(free, torch.Generator().manual_seed(4))
        assert torch.equal(free, one_by_one)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_on_a_gpu_the_toy_gives_finite_rows_and_the_window_at_32k_needs_no_square_mask(tmp_path):
    run = prepare(TOY, tmp_path, progress=False)
    assert all(run(cell, lambda fraction: None)["loss"] < 10 for cell in cells(TOY))
    model = dataclasses.replace(LARGE, depth=1).new_model(0).cuda().set_attention_window(2048)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with torch.autocast("cuda", torch.bfloat16), torch.no_grad():
        model(torch.zeros(1, 32_768, dtype=torch.long, device="cuda"))
    assert torch.cuda.max_memory_allocated() - before < 32_768**2  # bytes; a mask would be at least a byte a place
