"""The pieces as a learner reads them, each under a name that no learner sees; nothing in it says
what is wrong."""
