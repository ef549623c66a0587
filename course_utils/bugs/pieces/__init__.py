"""The pieces as a learner reads them: a file each, named by its letter, and nothing in it says what is wrong."""
