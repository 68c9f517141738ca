"""Baselines: the PyTorch that a problem's kernels are compared with, by kind, as kernels for the judge.

Not for choosing which one counts (the portal's rules do that) nor for judging. Imports neither torch nor Django.
"""

from agentcore.baselines.kinds import BaselineKind
from agentcore.baselines.sources import NoBaseline, baseline_source

__all__ = ["BaselineKind", "NoBaseline", "baseline_source"]
