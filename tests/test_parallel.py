"""Synchronised batch norm on processes against torch's batch norm on the whole batch; launch, lockstep and cost."""

import copy
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Lock

import distributed_programs as programs
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_utils import norms
from course_utils.parallel import RanksFailed, SyncBatchNorm, convert, launch, merge_ranks, processes, run_ranks
from course_utils.parallel.cost import Traffic, gather, layer_step
from course_utils.session import generator

RANKS = (2, 3)
STEPS = 3
PLAIN = {1: nn.BatchNorm1d, 2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}

# name: (shape after N and C, sizes of four shards of which the first P are used, options, dtype)
CASES = {
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
# float64 is the course's bound; float32 and bfloat16 round sums of up to 90 values and the result: a few units each.
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
    return case | {"state": state}


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


def on_ranks(test):
    return pytest.mark.slow(pytest.mark.parametrize("ranks", RANKS)(test))


@on_ranks
@pytest.mark.parametrize("name", CASES)
def test_shards_are_normalized_as_the_whole_batch_of_their_group_with_equal_statistics_on_every_rank(ranks, name):
    found = [found[name] for found in found_by(ranks)]
    groups = ([0, 1], list(range(2, ranks))) if name == "in groups" else (list(range(ranks)),)
    for members in filter(None, groups):
        assert_equals_whole_batch(case_named(name, ranks), found, members)
        first = found[members[0]]["buffers"]
        assert all(torch.equal(value, found[rank]["buffers"][key]) for rank in members for key, value in first.items())


@on_ranks
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


@on_ranks
def test_one_value_and_a_group_of_others_are_refused_and_an_empty_batch_counts_and_moves_nothing(ranks):
    reference = nn.BatchNorm1d(3)
    y = reference(torch.ones(0, 3, 2))
    y.sum().backward()
    for rank, found in enumerate(found_by(ranks)):
        message, running_mean = found["one value"]
        assert message.startswith("Expected more than 1 value per channel when training")
        assert torch.equal(running_mean, torch.zeros(3))
        assert rank < 2 or "process_group must contain this process" in found["outside"][0]
        shape, buffers, gradient = found["nothing"]
        assert shape == tuple(y.shape)
        assert all(torch.equal(buffers[name], buffer) for name, buffer in reference.named_buffers())
        assert torch.equal(gradient, reference.weight.grad)


# --- in one process ---------------------------------------------------------------------------------------------


def test_on_a_single_process_it_is_batch_norm_with_torchs_arguments_and_state(monkeypatch):
    x = torch.randn(4, 3, 5, generator=generator(0))
    mine, reference = SyncBatchNorm(3), nn.BatchNorm1d(3)
    for module in (mine, reference):
        module(x)
        module.eval()
    torch.testing.assert_close(mine(x), reference(x))
    options = {"eps": 1e-3, "momentum": None, "affine": True, "track_running_stats": True, "bias": False}
    mine, reference = SyncBatchNorm(5, **options), nn.SyncBatchNorm(5, **options)
    assert not any(mine.load_state_dict(reference.state_dict(), strict=True))
    assert repr(mine) == repr(reference)
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    monkeypatch.delattr(torch.distributed, "is_initialized")  # such a build has nothing but is_available
    torch.testing.assert_close(SyncBatchNorm(3)(x), F.batch_norm(x, None, None, training=True))


def test_convert_replaces_every_batch_norm_and_keeps_its_tensors():
    shared = nn.BatchNorm1d(4)
    model = nn.ModuleDict(
        {
            "stem": nn.Sequential(nn.Conv2d(1, 3, 3, bias=False), nn.BatchNorm2d(3, eps=0.1, momentum=None)),
            "course": norms.BatchNorm3d(2, affine=False),
            "torch": nn.SyncBatchNorm(6, track_running_stats=False, bias=False),
            "one": shared,
            "other": shared,
            "left alone": nn.InstanceNorm2d(3, affine=True),
        }
    ).eval()
    tensors, keys = dict((*model.named_parameters(), *model.named_buffers())), model.state_dict().keys()
    assert convert(model, process_group="a group") is model
    norm = model["stem"][1]
    assert (norm.eps, norm.momentum, norm.training, norm.process_group) == (0.1, None, False, "a group")
    assert model["one"] is model["other"]
    assert sum(isinstance(module, SyncBatchNorm) for module in model.modules()) == 4
    assert type(model["left alone"]) is nn.InstanceNorm2d
    assert all(tensor is tensors[name] for name, tensor in (*model.named_parameters(), *model.named_buffers()))
    assert model.state_dict().keys() == keys
    assert convert(shared).weight is shared.weight  # a layer by itself


def test_a_copy_shares_the_process_group_and_nothing_else():
    layer = SyncBatchNorm(3, process_group=Lock())  # a connection cannot be copied either
    twin = copy.deepcopy(layer)
    assert twin.process_group is layer.process_group
    assert twin.weight is not layer.weight


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


def test_in_lockstep_a_rank_may_write_into_the_sum_that_it_got():
    results = run_ranks(lambda x, all_reduce: all_reduce(x).add_(x), [(torch.tensor(x),) for x in (1.0, 3.0)])
    assert torch.equal(torch.stack(results), torch.tensor([5.0, 7.0]))


def test_a_step_of_a_layer_is_in_float32_unless_told_otherwise():
    assert layer_step(64, 8) == Traffic(messages=7 + 14, bytes=7 * 129 * 4 + 14 / 8 * 128 * 4)
    assert gather(1, 2, itemsize=0.5) == Traffic(messages=1, bytes=1.5)  # count, mean and M2
    assert Traffic(messages=3, bytes=2e6).time_ms(latency_us=0, bandwidth_gbps=2) == 1.0


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: layer_step(64, 8).time_ms(10, 0), "bandwidth_gbps"),
        (lambda: Traffic(1, 1.0).time_ms(-1, 1), "latency_us"),
        (lambda: gather(64, 0), "ranks"),
        (lambda: gather(64, 2, route="star"), "route"),
        (lambda: run_ranks(lambda all_reduce: None, iter(())), "shards"),
        (lambda: SyncBatchNorm(3)(torch.ones(4, 5)), "input"),
        (lambda: SyncBatchNorm(3)(torch.ones(1, 3)), "more than 1 value per channel"),
        (lambda: convert(nn.Sequential(nn.LazyBatchNorm1d())), "before converting"),
        (lambda: launch(programs.port_and_rank, 0), "ranks"),
        (lambda: launch(programs.port_and_rank, 2.0), "ranks"),
        (lambda: launch(programs.port_and_rank, 2, limit_s=0), "limit_s"),
        (lambda: launch(programs.port_and_rank, 2, timeout_s=-1.0), "timeout_s"),
        (lambda: launch(lambda: None, 2), "function"),
        (lambda: launch(programs.never_ends, 2, folder=Path()), "folder"),
    ],
)
def test_an_impossible_argument_is_refused_by_name(call, argument):
    with pytest.raises((ValueError, TypeError), match=argument):
        call()


# --- launch -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_launches_side_by_side_use_two_ports_and_one_thread_a_rank():
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: launch(programs.port_and_rank, 2), range(2))
    for ranks in (first, second):
        assert [rank for _, rank, _, _ in ranks] == [0, 1]
        assert {(threads, variable) for _, _, threads, variable in ranks} == {(1, "1")}
    assert first[0][0] != second[0][0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "timeout_s", "first_line"),
    [
        (programs.one_rank_is_killed, 60, r"rank 1: died without a word \(killed by SIGKILL\)"),
        (programs.one_rank_raises, 60, "rank 0: KeyError: 'label'"),
        (programs.one_rank_comes_late, 2, "rank 1: LostContact: SyncBatchNorm was exchanging statistics with 1 other"),
    ],
)
def test_a_rank_that_fails_is_named_first_and_waited_for_no_longer_than_the_timeout(program, timeout_s, first_line):
    with pytest.raises(RanksFailed, match=rf"^\d of 2 ranks failed\n{first_line}"):
        launch(program, 2, timeout_s=timeout_s, limit_s=60)


# Every rank takes the connections of the others late, which a busy machine does now and then.


@pytest.mark.slow
def test_a_run_that_does_not_end_is_ended_at_the_limit_with_no_process_left(tmp_path):
    with pytest.raises(RanksFailed, match=r"(still running after|no rank began within) 15 s"):
        launch(programs.never_ends, 2, limit_s=15, folder=str(tmp_path))
    assert_all_ended(tmp_path)


def test_what_has_not_begun_within_the_limit_is_ended_even_if_it_does_not_want_to(tmp_path, monkeypatch):
    program = "import os, pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    program += f"pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch(); time.sleep(60)"
    monkeypatch.setattr(processes, "_GRACE_S", 1.0)
    monkeypatch.setattr(processes, "command", lambda ranks, folder: [sys.executable, "-c", program])
    with pytest.raises(RanksFailed, match="no rank began within 1 s"):
        launch(programs.port_and_rank, 1, timeout_s=0.5, limit_s=1.0)
    assert_all_ended(tmp_path)


def assert_all_ended(folder):
    """No process is left of those that put a file of their number into the folder."""
    for path in folder.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)
