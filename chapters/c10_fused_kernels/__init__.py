"""Chapter 10, Fused kernels: what its notebook alone needs."""

from chapters import checks_of, claims_of
from chapters.c10_fused_kernels import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("10")
