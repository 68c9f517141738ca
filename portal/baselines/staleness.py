"""Whether a measured baseline still says how fast it is here: the problem, the harness, its device and the software.

The portal never imports torch: what a device runs now is known from the newest evaluation measured on it. Reads only.
"""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata

from agentcore.judge.version import HARNESS_VERSION
from portal.evaluations import comparisons
from portal.evaluations.models import Device, Evaluation
from portal.problems.models import Problem

_COMPARED = (("driver", "driver"), ("torch", "torch"), ("cuda", "CUDA"), ("device_name", "device model"),
             ("threads", "number of threads"))


def reasons(evaluation: Evaluation, problem: Problem) -> list[str]:
    """Why a finished measurement of a baseline is to be made again, in words; empty where it stands."""
    found = []
    if evaluation.problem_digest != problem.digest:
        found.append("the problem changed")
    if evaluation.harness_version != HARNESS_VERSION:
        found.append(f"measured with harness {evaluation.harness_version or '?'}, now {HARNESS_VERSION}")
    return found + _of_its_device(evaluation) + _of_the_fleet(evaluation)


def _of_its_device(evaluation: Evaluation) -> list[str]:
    """What is another on its device since."""
    then = comparisons.stamp(evaluation)
    newest = (
        Evaluation.objects.filter(
            device_uuid=evaluation.device_uuid, hardware=evaluation.hardware, kind=Evaluation.Kind.MEASURE,
            state=Evaluation.State.DONE, stamp__isnull=False,
        )
        .exclude(device_uuid="").defer("result").order_by("-finished_at", "-id").first()
    )
    now = comparisons.stamp(newest) if newest is not None else then
    found = [
        f"another {word} on its device: {getattr(now, name)}, measured with {getattr(then, name)}"
        for name, word in _COMPARED
        if getattr(now, name) and getattr(then, name) and getattr(now, name) != getattr(then, name)
    ]
    here = _torch_here() if then.host == platform.node() else ""
    if here and then.torch and now.torch == then.torch and then.torch.partition("+")[0] != here:
        found.append(f"another torch on this host: {here}, measured with {then.torch}")
    return found


def _of_the_fleet(evaluation: Evaluation) -> list[str]:
    """Whether kernels are measured on another device model now, on which this baseline never was."""
    newest = Device.objects.filter(hardware=evaluation.hardware).order_by("-last_seen_at").first()
    if newest is None or newest.uuid == evaluation.device_uuid:
        return []
    known = {newest.name, comparisons.stamp(evaluation).device_name}
    if len(known) == 1:
        return []
    models = evaluation.attempt.evaluations.filter(
        kind=Evaluation.Kind.MEASURE, state=Evaluation.State.DONE, hardware=evaluation.hardware,
        harness_version=HARNESS_VERSION, problem_digest=evaluation.problem_digest,
    ).values_list("stamp__device_name", flat=True)
    return [] if newest.name in set(models) else [f"never measured on {newest.name}, which the fleet uses now"]


@cache
def _torch_here() -> str:
    """The version of torch that is installed on this host, without its build's suffix; '' without one."""
    try:
        return metadata.version("torch").partition("+")[0]
    except metadata.PackageNotFoundError:
        return ""
