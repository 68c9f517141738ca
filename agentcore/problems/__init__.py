"""Problems: what a kernel computes, on which shapes and how closely. Importing this never imports torch.

``tensors`` (not imported here) makes inputs and runs references; only the judge and the bounds need it.
"""

from agentcore.problems.blobs import find_blob, missing_blobs
from agentcore.problems.definition import DTYPE_BYTES, AxisConst, AxisExpr, AxisVar, Definition, TensorSpec
from agentcore.problems.errors import DocumentError, ExpressionError, ProblemError
from agentcore.problems.loading import find_problems, load_problem
from agentcore.problems.problem import Problem
from agentcore.problems.workload import (
    CustomInput,
    InputSource,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    Tolerance,
    Workload,
)

__all__ = [
    "DTYPE_BYTES",
    "AxisConst",
    "AxisExpr",
    "AxisVar",
    "CustomInput",
    "Definition",
    "DocumentError",
    "ExpressionError",
    "InputSource",
    "Problem",
    "ProblemError",
    "RandomInput",
    "SafetensorsInput",
    "ScalarInput",
    "TensorSpec",
    "Tolerance",
    "Workload",
    "find_blob",
    "find_problems",
    "load_problem",
    "missing_blobs",
]
