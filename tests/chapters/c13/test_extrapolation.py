"""The extrapolation experiment: the task is what it says, the scores are exact, training is
repeatable."""

import pytest
import torch
import torch.nn.functional as F

from chapters.c13_why_position import extrapolation
from chapters.c13_why_position.extrapolation import (
    GUESSING,
    IGNORED,
    NOTE,
    QUESTION,
    SYMBOLS,
    VALUES,
    WINDOW,
    draw,
)
from course_utils import generator


def answers(tokens, lag):
    """Solve one sequence by reading it from left to right: what to echo and what to recall at each
    token."""
    echo, recall, notes = [], [], {}
    for t, token in enumerate(tokens):
        earlier = tokens[t - lag] if t >= lag else None
        echo.append(
            earlier if token < SYMBOLS and earlier is not None and earlier < SYMBOLS else IGNORED
        )
        if NOTE <= token < QUESTION:
            name, value = divmod(token - NOTE, VALUES)
            assert name not in notes
            notes[name] = value
        recall.append(notes[token - QUESTION] if token >= QUESTION else IGNORED)
    return echo, recall


@pytest.mark.parametrize("lag", [1, 3])
@pytest.mark.parametrize("length", [11, WINDOW, 16 * WINDOW])
def test_what_is_asked_for_is_found_by_reading_from_left_to_right(lag, length):
    tokens, echo, recall, back = draw(20, length, lag, generator(0))
    for row in range(20):
        assert answers(tokens[row].tolist(), lag) == (echo[row].tolist(), recall[row].tolist())
    assert torch.equal(back > 0, tokens >= QUESTION)
    for row, at in (back > 0).nonzero().tolist():
        assert (tokens[row, at - back[row, at]] - NOTE) // VALUES == tokens[row, at] - QUESTION


class Solver:
    """Says at each token what ``answers`` says, or always the same."""

    def __init__(self, lag, always=None):
        self.lag, self.always = lag, always

    def __call__(self, tokens):
        said = [
            [max(pair) for pair in zip(*answers(row, self.lag), strict=True)]
            for row in tokens.tolist()
        ]
        said = (
            torch.tensor(said).clamp(min=0)
            if self.always is None
            else torch.full_like(tokens, self.always)
        )
        return F.one_hot(said, extrapolation.VOCABULARY)


def test_a_perfect_reader_scores_one_and_a_parrot_what_guessing_gives():
    assert extrapolation.score(Solver(3), 64, 3, 32) == (
        {"echo": 1.0, "recall": 1.0},
        {"echo": [1.0, 1.0], "recall": [1.0, 1.0]},
    )
    parrot, _ = extrapolation.score(Solver(1, always=2), 64, 1, 2048)
    # 1e5 echoes and 8,192 questions: three standard deviations of a share of 1/16 and of 1/8
    assert parrot["echo"] == pytest.approx(GUESSING["echo"], abs=0.003)
    assert parrot["recall"] == pytest.approx(GUESSING["recall"], abs=0.011)


def test_echo_is_told_apart_by_where_it_stands_and_recall_by_how_far_back_its_note_is():
    class Forgets(Solver):
        def __call__(self, tokens):
            said = super().__call__(tokens)
            said[:, 64:] = 0  # class 0 nearly everywhere after the second window
            return said

    overall, by_place = extrapolation.score(Forgets(1), 128, 1, 32)
    assert by_place["echo"][:2] == [1.0, 1.0]
    assert by_place["echo"][2] == pytest.approx(GUESSING["echo"], abs=0.05)
    assert by_place["echo"][2] < overall["echo"] < 1
    near, middle, far = by_place["recall"]
    assert near > middle > far  # a far note has its question late


def test_training_never_touches_a_learned_row_beyond_the_window():
    start = extrapolation.train("learned", 1, 0, seed=1).places.weight
    trained = extrapolation.train("learned", 1, 4, seed=1).places.weight
    # weight decay shrinks every number alike, and that is all that happens
    shrunk = trained / start
    torch.testing.assert_close(shrunk[WINDOW:], shrunk[-1, -1].expand_as(shrunk[WINDOW:]))
    assert len(shrunk) == 16 * WINDOW  # a row for the last token of the longest test
    assert shrunk[-1, -1] > 0.999
    assert (shrunk[:WINDOW] - shrunk[-1, -1]).abs().amax(1).min() > 0.01
