"""Chapter 17: which of nine mistakes is in each of four models."""

from chapters.c17_a_real_llama import suspects
from course_utils.check.exercise import Exercise

culprits = Exercise("culprits", suspects.culprits, judge=suspects.Judge("culprits"))
