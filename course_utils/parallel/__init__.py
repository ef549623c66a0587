"""Batch norm on several machines: moments that merge, processes, and what the exchange costs (chapter 08)."""
