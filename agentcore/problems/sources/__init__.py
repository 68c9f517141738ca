"""Collections of problems in other layouts: found below a path, validated, and written as directories of our own.

Start at ``collect``. Reading: ``discover`` says which layout stands where, ``rows`` takes one problem from one JSON
object, ``tables`` reads parquet, ``traces`` FlashInfer-Trace. Writing: ``staging``. Nothing here runs a reference.
"""

from agentcore.problems.sources.collect import Found, collect

__all__ = ["Found", "collect"]
