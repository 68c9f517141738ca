"""Building kernels: ``build()`` gives a report and, for compiled languages, a shared object. Start at ``compile``.

``header`` alone is safe to import anywhere; it only makes text.
"""

from agentcore.build.cache import BuildCache, CacheError
from agentcore.build.compile import Build, build
from agentcore.build.toolchain import ToolMissing, missing_tools

__all__ = ["Build", "BuildCache", "CacheError", "ToolMissing", "build", "missing_tools"]
