"""The hostile side: the process that loads and calls candidate code inside the sandbox.

Everything in this package is standard library only, is visible (read-only) to candidates, and decides nothing. A
candidate shares this process's memory and may rewrite any of it; the judge therefore believes only what it sees in
its own buffers and on its own clock.
"""
