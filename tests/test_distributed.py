"""Synchronised batch norm on processes started by torchrun: torch's own batch norm on the whole batch is the truth."""

import copy
import sys
from functools import cache

import distributed_programs as programs
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_utils import norms
from course_utils.parallel.processes import RanksFailed, launch
from course_utils.parallel.sync_batch_norm import SyncBatchNorm, convert, merge_ranks, sync_batch_norm
from course_utils.session import generator

RANKS = (2, 3, 4)
STEPS = 3
PLAIN = {1: nn.BatchNorm1d, 2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}

# name: (shape after N and C, sizes of four shards of which the first P are used, options, dtype)
CASES = {
    "equal shards": ((), (3, 3, 3, 3), {}, torch.float64),
    "uneven shards": ((5,), (1, 6, 2, 4), {}, torch.float64),
    "the first shard empty": ((2, 3), (0, 4, 3, 2), {}, torch.float64),
    "the last shard alone not": ((2, 2, 2), None, {}, torch.float64),
    "one value on each rank": ((), (1, 1, 1, 1), {}, torch.float64),
    "momentum=None": ((4,), (2, 5, 0, 3), {"momentum": None}, torch.float64),
    "momentum=0.3, eps=0.1": ((4,), (2, 5, 1, 3), {"momentum": 0.3, "eps": 0.1}, torch.float64),
    "affine=False": ((4,), (2, 5, 1, 3), {"affine": False}, torch.float64),
    "bias=False": ((4,), (2, 5, 1, 3), {"bias": False}, torch.float64),
    "track_running_stats=False": ((4,), (4, 4, 4, 4), {"track_running_stats": False}, torch.float64),
    "images, channels last": ((3, 2), (2, 3, 0, 1), {}, torch.float64),
    "float32": ((3, 2), (2, 0, 3, 1), {}, torch.float32),
    "bfloat16": ((3, 2), (2, 0, 3, 1), {}, torch.bfloat16),
    "in groups": ((3,), (2, 3, 0, 4), {}, torch.float64),
}
# float64 is the bound; float32 and bfloat16 round sums of up to 90 values and the result: a few units each.
WITHIN = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 6e-2}
CHANNELS = 4


def case_named(name, ranks):
    positions, sizes, options, dtype = CASES[name]
    sizes = [0] * (ranks - 1) + [5] if sizes is None else list(sizes[:ranks])
    rng = generator(sum(map(ord, name)))

    def draw(scale, offset):
        values = torch.randn(STEPS, sum(sizes), CHANNELS, *positions, generator=rng, dtype=torch.float64)
        values = (offset + scale * values).to(dtype)
        return values.movedim(2, -1).contiguous().movedim(-1, 2) if "channels last" in name else values

    case = {"x": draw(3.0, 2.0), "upstream": draw(1.0, 0.5), "sizes": sizes, "options": options}
    state = built_in(case).state_dict()
    for key, value in state.items():
        if value.is_floating_point():  # in [0.5, 1.5): values that no default can imitate
            state[key] = (0.5 + torch.rand(CHANNELS, generator=rng, dtype=torch.float64)).to(dtype)
    return case | {"state": state} | ({"in groups": True} if name == "in groups" else {})


def built_in(case):
    return PLAIN[case["x"].dim() - 1](CHANNELS, **case["options"]).to(case["x"].dtype)


def network_case(ranks):
    rng, sizes = generator(7), [3, 0, 5, 2][:ranks]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        state = programs.small_network().state_dict()
    x = torch.randn(STEPS, sum(sizes), 2, 6, 6, generator=rng, dtype=torch.float64)
    upstream = torch.randn(STEPS, sum(sizes), 5, generator=rng, dtype=torch.float64)
    return {"state": state, "x": x, "upstream": upstream, "sizes": sizes}


@cache
def launched(ranks):
    """What every rank found, or why they failed: one launch serves all tests of that number of ranks."""
    cases = {name: case_named(name, ranks) for name in CASES}
    try:
        return launch(programs.everything, ranks, cases=cases, network=network_case(ranks))
    except RanksFailed as failed:
        return failed


def found_by(ranks):
    found = launched(ranks)
    if isinstance(found, RanksFailed):
        raise found
    return found


def whole_batch(case, members, dtype=torch.float64):
    """Torch's batch norm, in float64, on the shards of ``members`` put together."""
    layer = built_in(case).to(dtype)
    layer.load_state_dict(case["state"])
    pieces = [slice(sum(case["sizes"][:rank]), sum(case["sizes"][: rank + 1])) for rank in members]
    seen = {"outputs": [], "input gradients": []}
    for x, upstream in zip(case["x"], case["upstream"], strict=True):
        batch = torch.cat([x[piece] for piece in pieces]).to(dtype).requires_grad_()
        y = layer(batch)
        y.backward(torch.cat([upstream[piece] for piece in pieces]).to(dtype))
        sizes = [case["sizes"][rank] for rank in members]
        seen["outputs"].append(dict(zip(members, y.detach().split(sizes), strict=True)))
        seen["input gradients"].append(dict(zip(members, batch.grad.split(sizes), strict=True)))
    first = [case["x"][0][piece].to(dtype) for piece in pieces]
    return seen | {
        "parameter gradients": {name: parameter.grad for name, parameter in layer.named_parameters()},
        "buffers": dict(layer.named_buffers()),
        "evaluated": {rank: layer.eval()(x).detach() for rank, x in zip(members, first, strict=True)},
    }


def assert_equals_whole_batch(case, found, members):
    truth = whole_batch(case, members)
    dtype = case["x"].dtype
    close = {"atol": WITHIN[dtype], "rtol": WITHIN[dtype] if dtype != torch.float64 else 0, "check_dtype": False}
    for rank in members:
        mine = found[rank]
        for quantity in ("outputs", "input gradients"):
            for step in range(STEPS):
                assert mine[quantity][step].dtype == dtype
                torch.testing.assert_close(mine[quantity][step], truth[quantity][step][rank], **close)
        for quantity in ("parameter gradients", "buffers"):
            assert mine[quantity].keys() == truth[quantity].keys()
            for name, value in truth[quantity].items():
                torch.testing.assert_close(mine[quantity][name], value, **close)
        torch.testing.assert_close(mine["evaluated"], truth["evaluated"][rank], **close)


@pytest.mark.parametrize("name", [name for name in CASES if name != "in groups"])
@pytest.mark.parametrize("ranks", RANKS)
def test_shards_are_normalized_as_the_whole_batch(ranks, name):
    case = case_named(name, ranks)
    assert_equals_whole_batch(case, [found[name] for found in found_by(ranks)], range(ranks))


@pytest.mark.parametrize("ranks", RANKS)
def test_every_rank_has_the_same_running_statistics_to_the_bit(ranks):
    for name in CASES:
        if name != "in groups":
            first, *others = [found[name]["buffers"] for found in found_by(ranks)]
            for other in others:
                assert all(torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("ranks", RANKS)
def test_a_process_group_is_a_batch_of_its_own(ranks):
    case = case_named("in groups", ranks)
    found = [rank["in groups"] for rank in found_by(ranks)]
    for members in ([0, 1], list(range(2, ranks))):
        if members:
            assert_equals_whole_batch(case, found, members)


@pytest.mark.parametrize("ranks", RANKS)
def test_a_converted_network_in_distributed_data_parallel_trains_as_one_process_on_the_whole_batch(ranks):
    case = network_case(ranks)
    network = programs.small_network()
    network.load_state_dict(case["state"])
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for x, upstream in zip(case["x"], case["upstream"], strict=True):
        optimizer.zero_grad()
        network(x).backward(upstream)
        optimizer.step()
    for found in found_by(ranks):
        assert found["network"].keys() == network.state_dict().keys()
        for name, value in network.state_dict().items():
            torch.testing.assert_close(found["network"][name], value, atol=1e-12, rtol=0)


@pytest.mark.parametrize("ranks", RANKS)
def test_one_value_on_all_ranks_together_is_refused_on_all_and_moves_nothing(ranks):
    for found in found_by(ranks):
        message, running_mean = found["refusal"]
        assert message.startswith("Expected more than 1 value per channel when training")
        assert torch.equal(running_mean, torch.zeros(3))


@pytest.mark.parametrize("ranks", RANKS)
def test_a_batch_that_is_empty_everywhere_counts_and_moves_nothing_as_in_torch(ranks):
    reference = nn.BatchNorm1d(3)
    y = reference(torch.ones(0, 3, 2))
    y.sum().backward()
    for found in found_by(ranks):
        shape, buffers, gradient = found["nothing"]
        assert shape == tuple(y.shape)
        for name, buffer in reference.named_buffers():
            assert torch.equal(buffers[name], buffer)
        assert torch.equal(gradient, reference.weight.grad)


def test_a_copy_of_a_layer_keeps_the_group_and_shares_nothing_else():
    assert [found["copies"] for found in found_by(3)] == [(True, True), (True, True), None]


@pytest.mark.parametrize("ranks", RANKS)
def test_a_second_derivative_is_refused_on_every_rank_instead_of_wrong(ranks):
    assert all("once_differentiable" in found["second derivative"] for found in found_by(ranks))


def test_a_rank_outside_of_the_group_is_told_so():
    assert "process_group must contain this process" in found_by(3)[2]["outside"]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts the bytes that a process writes")
@pytest.mark.parametrize("ranks", RANKS)
def test_the_bytes_on_the_wire_are_those_of_the_formula(ranks):
    from course_utils.parallel.cost import gather, reduce

    for found in found_by(ranks):
        for channels, (forward, backward) in found["bytes"].items():
            for counted, cost in ((forward, gather(channels, ranks)), (backward, reduce(channels, ranks))):
                # Gloo puts a header on each message, whose size is its own affair; it does not depend on the message.
                header, rest = divmod(counted - cost.bytes, cost.messages)
                assert rest == 0
                assert 0 < header < 1000


def test_on_a_single_process_it_is_batch_norm():
    x = torch.randn(4, 3, 5, generator=generator(0))
    mine, reference = SyncBatchNorm(3), nn.BatchNorm1d(3)
    for module in (mine, reference):
        module(x)
        module.eval()
    torch.testing.assert_close(mine(x), reference(x))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        mine.train()(x[:1, :, 0])


def test_it_takes_the_arguments_and_the_state_of_torchs_layer():
    options = {"eps": 1e-3, "momentum": None, "affine": True, "track_running_stats": True, "bias": False}
    mine, reference = SyncBatchNorm(5, **options), nn.SyncBatchNorm(5, **options)
    reference.running_var.fill_(2.0)
    mine.load_state_dict(reference.state_dict(), strict=True)
    reference.load_state_dict(mine.state_dict(), strict=True)
    assert mine.running_var[0] == 2
    assert repr(mine) == repr(reference)
    assert list(mine.state_dict()) == list(reference.state_dict())


@pytest.mark.parametrize(
    ("x", "message"),
    [(torch.ones(3), "expected at least 2D input"), (torch.ones(4, 5), r"input must be \(N, 3, \*\).*got \(4, 5\)")],
)
def test_an_input_of_another_shape_is_refused(x, message):
    with pytest.raises(ValueError, match=message):
        SyncBatchNorm(3)(x)


def test_convert_replaces_every_batch_norm_and_keeps_its_tensors():
    shared = nn.BatchNorm1d(4)
    model = nn.ModuleDict(
        {
            "stem": nn.Sequential(nn.Conv2d(1, 3, 3, bias=False), nn.BatchNorm2d(3, eps=0.1, momentum=None)),
            "course": norms.BatchNorm3d(2, affine=False),
            "torch": nn.SyncBatchNorm(6, track_running_stats=False, bias=False),
            "one": shared,
            "other": shared,
            "left alone": nn.ModuleList([nn.LayerNorm(3), nn.InstanceNorm2d(3, affine=True), nn.GroupNorm(1, 3)]),
        }
    ).eval()
    tensors = dict((*model.named_parameters(), *model.named_buffers()))
    state, before = copy.deepcopy(model.state_dict()), copy.deepcopy(model)
    model.register_module("absent", None)
    assert convert(model) is model

    norm = model["stem"][1]
    assert isinstance(norm, SyncBatchNorm)
    assert (norm.eps, norm.momentum, norm.training) == (0.1, None, False)
    assert model["one"] is model["other"]
    assert sum(isinstance(module, SyncBatchNorm) for module in model.modules()) == 4
    assert not any(isinstance(m, (nn.modules.batchnorm._BatchNorm, norms.BatchNorm3d)) for m in model.modules())
    assert all(tensor is tensors[name] for name, tensor in (*model.named_parameters(), *model.named_buffers()))
    assert model.state_dict().keys() == state.keys()
    for mine, original in zip(model["left alone"], before["left alone"], strict=True):
        assert type(mine) is type(original)


def test_convert_returns_a_new_layer_for_a_batch_norm_by_itself_and_refuses_a_lazy_one():
    layer = nn.BatchNorm2d(3)
    converted = convert(layer, process_group="a group")
    assert isinstance(converted, SyncBatchNorm)
    assert converted.weight is layer.weight
    assert converted.process_group == "a group"
    assert convert(converted, process_group="another").process_group == "another"
    with pytest.raises(ValueError, match="call it once before converting"):
        convert(nn.Sequential(nn.LazyBatchNorm1d()))


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8, 13])
def test_merging_ranks_is_the_moments_of_all_their_values(ranks):
    rng = generator(ranks)
    shards = [torch.randn(size % 4, 3, generator=rng, dtype=torch.float64) + 100 for size in range(1, ranks + 1)]
    count = torch.tensor([[len(shard)] for shard in shards])
    mean = torch.stack([shard.mean(0) for shard in shards])  # NaN where a shard is empty
    m2 = torch.stack([(shard - shard.mean(0)).square().sum(0) for shard in shards])
    merged, values = merge_ranks(count, mean, m2), torch.cat(shards)
    assert merged.count.tolist() == [len(values)]
    torch.testing.assert_close(merged.mean, values.mean(0), atol=1e-13, rtol=0)
    torch.testing.assert_close(merged.variance(), values.var(0, correction=0), atol=1e-13, rtol=0)


def test_the_function_on_a_single_process_is_torchs_in_training():
    x, weight = torch.randn(4, 3, 2, generator=generator(3)), torch.rand(3, generator=generator(4))
    mine, reference = (torch.zeros(3), torch.ones(3)), (torch.zeros(3), torch.ones(3))
    torch.testing.assert_close(
        sync_batch_norm(x, *mine, weight, momentum=0.2), F.batch_norm(x, *reference, weight, None, True, 0.2)
    )
    torch.testing.assert_close(sync_batch_norm(x, *mine), F.batch_norm(x, *reference, training=True))  # its defaults
    torch.testing.assert_close(mine, reference)
    torch.testing.assert_close(sync_batch_norm(x, None, None), F.batch_norm(x, None, None, training=True))


def test_a_build_of_torch_without_distributed_is_a_single_process(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    monkeypatch.delattr(torch.distributed, "is_initialized")  # such a build has nothing but is_available
    x = torch.randn(4, 3, generator=generator(5))
    torch.testing.assert_close(SyncBatchNorm(3)(x), F.batch_norm(x, None, None, training=True))
