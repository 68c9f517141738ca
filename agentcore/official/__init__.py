"""``solution.json``, the kernel format of SOL-ExecBench and FlashInfer-Bench: read, staged for the judge, and written.

``solution`` is the validated model, ``reading`` gets it from a file or a directory, ``staging`` and ``extension`` turn
it into what the judge's runner loads, ``export`` and ``binding`` write our kernels in the format. Nothing here runs a
candidate, and importing this never imports torch.
"""

from agentcore.official.export import ExportError, Origin, export_solution, to_json
from agentcore.official.reading import SolutionError, read_solution
from agentcore.official.solution import OfficialSolution

__all__ = [
    "ExportError",
    "OfficialSolution",
    "Origin",
    "SolutionError",
    "export_solution",
    "read_solution",
    "to_json",
]
