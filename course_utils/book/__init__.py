"""The text around the lessons: claims, sources, chapters, words, tables, what a learner has solved."""

from course_utils.rooms import submodules

__getattr__ = submodules(__name__)
