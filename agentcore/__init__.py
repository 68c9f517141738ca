"""Kernelyard's library and command line: problems, bounds, git store, builds, the judge and the agents.

Nothing here knows Django or the portal; everything here runs on a bare host.
"""

__version__ = "0.1.0"
