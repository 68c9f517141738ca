# case: fault
# problem: rmsnorm_h4096
# language: torch
# hardware: cpu
# family: honest
# caught-by: runs
# verdict: runtime_error
#
# Raises an exception.
def run(x, weight, y):
    raise ValueError("no plan for this shape")
