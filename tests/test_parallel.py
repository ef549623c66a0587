"""Synchronised batch norm on processes against torch's batch norm on the whole batch; launch, lockstep and cost."""

import copy
import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import distributed_programs as programs
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_utils import norms
from course_utils.parallel import RanksFailed, SyncBatchNorm, convert, launch, merge_ranks, processes, run_ranks
from course_utils.parallel.cost import Traffic, gather, layer_step, reduce
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


def on_ranks(test):
    return pytest.mark.slow(pytest.mark.parametrize("ranks", RANKS)(test))


@on_ranks
@pytest.mark.parametrize("name", [name for name in CASES if name != "in groups"])
def test_shards_are_normalized_as_the_whole_batch_with_equal_statistics_on_every_rank(ranks, name):
    found = [found[name] for found in found_by(ranks)]
    assert_equals_whole_batch(case_named(name, ranks), found, range(ranks))
    for other in found[1:]:
        assert all(torch.equal(found[0]["buffers"][key], other["buffers"][key]) for key in other["buffers"])


@on_ranks
def test_a_process_group_is_a_batch_of_its_own(ranks):
    case = case_named("in groups", ranks)
    found = [rank["in groups"] for rank in found_by(ranks)]
    for members in ([0, 1], list(range(2, ranks))):
        if members:
            assert_equals_whole_batch(case, found, members)


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
def test_one_value_on_all_ranks_is_refused_and_an_empty_batch_counts_and_moves_nothing(ranks):
    reference = nn.BatchNorm1d(3)
    y = reference(torch.ones(0, 3, 2))
    y.sum().backward()
    for found in found_by(ranks):
        message, running_mean = found["refusal"]
        assert message.startswith("Expected more than 1 value per channel when training")
        assert torch.equal(running_mean, torch.zeros(3))
        shape, buffers, gradient = found["nothing"]
        assert shape == tuple(y.shape)
        assert all(torch.equal(buffers[name], buffer) for name, buffer in reference.named_buffers())
        assert torch.equal(gradient, reference.weight.grad)


@pytest.mark.slow
def test_copies_keep_the_group_a_stranger_to_it_is_refused_and_so_is_a_second_derivative():
    found = found_by(3)
    assert [rank["copies"] for rank in found] == [(True, True), (True, True), None]
    assert "process_group must contain this process" in found[2]["outside"]
    assert all("once_differentiable" in rank["second derivative"] for rank in found)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts the bytes that a process writes")
@on_ranks
def test_the_bytes_on_the_wire_are_those_of_the_formula(ranks):
    for found in found_by(ranks):
        for channels, (forward, backward) in found["bytes"].items():
            for counted, cost in ((forward, gather(channels, ranks)), (backward, reduce(channels, ranks))):
                # Gloo puts a header on each message, whose size is its own affair; it does not depend on the message.
                header, rest = divmod(counted - cost.bytes, cost.messages)
                assert rest == 0
                assert 0 < header < 1000


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
            "left alone": nn.ModuleList([nn.LayerNorm(3), nn.InstanceNorm2d(3, affine=True), nn.GroupNorm(1, 3)]),
        }
    ).eval()
    tensors = dict((*model.named_parameters(), *model.named_buffers()))
    keys, before = model.state_dict().keys(), copy.deepcopy(model)
    assert convert(model) is model
    norm = model["stem"][1]
    assert isinstance(norm, SyncBatchNorm)
    assert (norm.eps, norm.momentum, norm.training) == (0.1, None, False)
    assert model["one"] is model["other"]
    assert sum(isinstance(module, SyncBatchNorm) for module in model.modules()) == 4
    assert all(tensor is tensors[name] for name, tensor in (*model.named_parameters(), *model.named_buffers()))
    assert model.state_dict().keys() == keys
    for mine, original in zip(model["left alone"], before["left alone"], strict=True):
        assert type(mine) is type(original)
    converted = convert(shared, process_group="a group")  # a layer by itself
    assert converted.weight is shared.weight
    assert converted.process_group == "a group"


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


def test_in_lockstep_a_rank_may_write_into_the_sum_that_it_got_and_shards_come_from_a_generator():
    results = run_ranks(lambda x, all_reduce: all_reduce(x).add_(x), ((torch.tensor(x),) for x in (1.0, 3.0)))
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
    ],
)
def test_an_impossible_argument_is_refused_by_name(call, argument):
    with pytest.raises(ValueError, match=argument):
        call()


# --- launch -----------------------------------------------------------------------------------------------------

CONTACT = r"LostContact: SyncBatchNorm was {} with 1 other rank"

# Every rank takes the connections of the others late, which a busy machine does now and then.
LATE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
#include <sys/socket.h>

int accept(int listener, struct sockaddr *address, socklen_t *length) {
    int (*real)(int, struct sockaddr *, socklen_t *) = dlsym(RTLD_NEXT, "accept");
    usleep(1500000);
    return real(listener, address, length);
}
"""


@pytest.fixture
def joining_late(tmp_path, monkeypatch):
    """The ranks of this test are slow to join one another, where there is a C compiler to arrange it."""
    source, library = tmp_path / "late.c", tmp_path / "late.so"
    source.write_text(LATE)
    if sys.platform == "linux" and (compiler := shutil.which("cc")):
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        monkeypatch.setenv("LD_PRELOAD", str(library))


@pytest.mark.slow
@pytest.mark.usefixtures("joining_late")
def test_two_launches_side_by_side_use_two_ports_and_one_thread_a_rank_and_wait_for_ranks_that_join_late():
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: launch(programs.port_and_rank, 2), range(2))
    for ranks in (first, second):
        assert [rank for _, rank, _, _ in ranks] == [0, 1]
        assert {(threads, variable) for _, _, threads, variable in ranks} == {(1, "1")}
    assert first[0][0] != second[0][0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "arguments", "first_line", "contact"),
    [
        (
            programs.one_rank_is_killed,
            {"backward": True},
            r"rank 1: died without a word \(killed by SIGKILL\)",
            "adding up gradients",
        ),
        (programs.one_rank_raises, {}, "rank 0: KeyError: 'label'", "exchanging statistics"),
        (programs.one_rank_comes_late, {}, r"rank 1: LostContact", "exchanging statistics"),
    ],
    ids=["killed before backward", "raises", "comes late"],
)
def test_a_rank_that_fails_is_named_first_and_waited_for_no_longer_than_the_timeout(
    program, arguments, first_line, contact
):
    timeout_s = 2 if program is programs.one_rank_comes_late else 60
    with pytest.raises(RanksFailed) as failed:
        launch(program, 2, timeout_s=timeout_s, limit_s=60, **arguments)
    heading, first, *others = str(failed.value).splitlines()
    assert re.match(r"\d of 2 ranks failed", heading)
    assert re.match(first_line, first)
    for other in others:  # torchrun may have stopped it before it could say so
        assert re.search(CONTACT.format(contact), other)


@pytest.mark.slow
def test_a_run_that_does_not_end_is_ended_at_the_limit_with_no_process_left(tmp_path):
    with pytest.raises(RanksFailed, match=r"(still running after|no rank began within) 15 s"):
        launch(programs.never_ends, 2, limit_s=15, folder=str(tmp_path))
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)


@pytest.mark.parametrize("first", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN); "], ids=["asked", "forced"])
def test_what_has_not_begun_within_the_limit_is_ended(tmp_path, monkeypatch, first):
    program = f"import os, pathlib, signal, time; {first}"
    program += f"pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch(); time.sleep(60)"
    monkeypatch.setattr(processes, "_GRACE_S", 1.0)
    monkeypatch.setattr(processes, "command", lambda ranks, folder: [sys.executable, "-c", program])
    with pytest.raises(RanksFailed, match=r"no rank began within 1 s"):
        launch(programs.port_and_rank, 1, timeout_s=0.5, limit_s=1.0)
    (begun,) = tmp_path.iterdir()
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.name), 0)


def test_a_function_of_a_notebook_is_sent_as_its_source(monkeypatch):
    monkeypatch.setattr(programs.port_and_rank, "__module__", "__main__")
    located = processes._locate(programs.port_and_rank)
    assert located.keys() == {"name", "source"}
    assert processes._function(**located).__code__.co_names == programs.port_and_rank.__code__.co_names


def test_every_rank_that_failed_has_a_line_and_those_that_only_lost_contact_come_last(tmp_path):
    stuck = 'Timeout (0:00:25)!\nThread 0x7 (most recent first):\n  File "a.py", line 3 in f\n  File "b.py", line 5'
    for rank, words in enumerate(["LostContact: one died", "", stuck, "KeyError: 'label'", "", ""]):
        (tmp_path / f"rank{rank}.error").write_text(words)
    log = "".join(  # as torchrun puts it
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: 99)\n  error_file: <N/A>\n"
        for rank, code in ((0, 1), (1, -signal.SIGHUP), (3, 1), (4, 1))
    )
    assert processes._explain(tmp_path, 7, 1, log, 25.0).splitlines() == [
        "5 of 7 ranks failed",
        "rank 1: died without a word (killed by SIGHUP)",
        'rank 2: still running after 25 s, in File "a.py", line 3 in f',
        "rank 3: KeyError: 'label'",
        "rank 4: died without a word (exit code 1)",
        "rank 0: LostContact: one died",
    ]
    assert processes._explain(tmp_path / "nowhere", 2, 1, "no such module", 25.0) == "no rank began:\nno such module"


def test_what_cannot_be_sent_is_refused_by_name(tmp_path):
    with pytest.raises(TypeError, match=r"arguments must be tensors.*: got folder \(PosixPath\), n \(int\)"):
        launch(programs.never_ends, 2, folder=tmp_path, n=1)
