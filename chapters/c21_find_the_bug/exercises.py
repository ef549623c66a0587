"""The puzzles of chapter 21 as exercises, A to N: an input is the answer, and a judge looks at
it."""

from chapters.c21_find_the_bug.bugs.judge import FIND_BUG

globals().update({puzzle.name: puzzle for puzzle in FIND_BUG})
