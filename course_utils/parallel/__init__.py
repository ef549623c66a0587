"""Batch norm across processes (chapter 08).

sync_batch_norm     one batch in shards on several processes, normalized as the one batch that it is
processes           run a function on several processes of this machine
lockstep            several ranks in one process, one after the other
cost                bytes, messages and time of a step
"""

from course_utils.parallel.lockstep import simulate_ranks
from course_utils.parallel.processes import RanksFailed, run_processes
from course_utils.parallel.sync_batch_norm import LostContact, SyncBatchNorm, convert, merge_ranks
from course_utils.rooms import submodules

__all__ = ["LostContact", "RanksFailed", "SyncBatchNorm", "convert", "merge_ranks", "run_processes", "simulate_ranks"]

__getattr__ = submodules(__name__)
