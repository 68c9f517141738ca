"""The version of the measuring harness, stamped on every evaluation.

Not the package's version: raise it when a change to the judge, runner, build or bounds can change a verdict or a time,
so that old and new numbers are kept apart and duplicates are measured again.
"""

HARNESS_VERSION = "7"
