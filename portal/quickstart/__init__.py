"""The quick start: everything on one machine, from an empty directory to a merged solution. See `run.py`.

Not a Django app and not used by a fleet: it only starts and watches what an operator would start one by one.
"""
