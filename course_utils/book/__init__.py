"""The text around the lessons: claims, sources, chapters, words, tables, what a learner has solved."""
