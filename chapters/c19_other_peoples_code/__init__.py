"""Other people's code: what published layers compute, found by calling them."""
