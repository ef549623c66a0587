"""How long things take and what they move: timers, bytes, the roofline, the ladder (chapters 09 and 10)."""
