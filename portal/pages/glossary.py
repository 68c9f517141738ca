"""What the words on the pages mean. Anchors are used by table headers (`Column.term`)."""

from __future__ import annotations

from dataclasses import dataclass

from agentcore.vocabulary import CheckName


@dataclass(frozen=True, slots=True)
class Term:
    anchor: str
    word: str
    meaning: str
    formula: str = ""


TERMS: tuple[Term, ...] = (
    Term("problem", "problem", "A kernel to optimise: axes, inputs, outputs and a PyTorch reference that says what is "
         "right, with the workloads it is measured on."),
    Term("workload", "workload", "Concrete axis values of a problem, where its inputs come from, and how close the "
         "outputs must be."),
    Term("held-out", "held-out workload", "A workload that no agent has seen. It is judged like the others and "
         "reported apart, so that a kernel tuned to the listed shapes only is recognised."),
    Term("tolerance", "tolerance", "How far an output may be from the reference: an absolute and a relative bound that "
         "a required share of the elements must meet (99 % unless the workload says otherwise). It stands in the "
         "problem’s workload list; what that leaves out follows from the dtype of the outputs, as tabled below."),
    Term("hardware", "hardware", "A class of device with one table of peak rates, such as h200 or cpu. Times of "
         "different hardware are never ranked together."),
    Term("attempt", "attempt", "One commit that changes one problem's kernel in one language. Attempts that failed "
         "stay: their branch, result and handoff are part of the record."),
    Term("evaluation", "evaluation", "One judged run of an attempt on one device by one version of the harness. It is "
         "never edited; a later one supersedes it."),
    Term("verdict", "verdict", "How an evaluation ended. Only a passed one carries times that count."),
    Term("check", "check", "One named finding of an evaluation: pass, fail or skip, with a message."),
    Term("latency", "latency, T_k", "Time per call by the judge's own clock, with cold caches and fresh inputs every "
         "call. A GPU kernel that waits for the device inside its call, or has it wait for the host, is timed by the "
         "wall clock (timed by: wall): launching, waiting and the copying of its inputs included, which may leave "
         "these in the cache. For a whole problem: the geometric mean over its workloads."),
    Term("interval", "interval", "The confidence interval of a latency over repeated batches."),
    Term("baseline", "baseline, T_b", "PyTorch that the same judge verified on the same hardware: the reference run "
         "eagerly, under torch.compile, written by hand, optimised by an agent, or a library call. T_b of a workload "
         "is the time of the fastest one that the campaign admits; a score is kept with the T_b it was made with."),
    Term("bound", "bound, T_SOL", "The Speed-of-Light time: what the hardware needs at its peak rates for the "
         "necessary work alone, each input byte read once, each output byte written once, and the arithmetic on the "
         "fastest unit that meets the tolerance. No honest kernel is faster.",
         "T_SOL = max over resources of work / peak rate"),
    Term("necessary", "necessary bytes and operations", "What no kernel can do without: the input elements that the "
         "outputs depend on, each once at its own dtype, every output element, and the multiply-adds of products whose "
         "result is needed. Counted from the reference, followed backwards from the outputs; what is uncertain is left "
         "out, and each bound lists what it assumed."),
    Term("official", "official bound and baseline", "What the benchmark that a problem was imported from states for a "
         "workload, on the hardware it names. Kept beside our own figures to compare with, and used for no score."),
    Term("sol-score", "SOL score, S", "Where a kernel stands between the baseline (0.5) and the limit (1). A problem's "
         "score is the mean over its workloads.", "S = 1 / (1 + (T_k − T_SOL) / (T_b − T_SOL))"),
    Term("headroom", "headroom", "What is left to the limit.", "1 − S"),
    Term("speedup", "speedup", "How many times faster than the baseline: the geometric mean of T_b / T_k over the "
         "workloads, and over the problems for a campaign."),
    Term("unproven", "unproven", "A difference inside the noise of the two measurements: their intervals, and what two "
         "runs of one kernel differ by. The running best moves only for an improvement beyond it."),
    Term("incomparable", "incomparable", "Measured on another device model, by another version of the harness, with "
         "another driver, in another sandbox, or not passed: the times say nothing about one another."),
    Term("ab", "A/B comparison", "Two kernels measured in turn on one device, several rounds in random order, every "
         "check on. The ratio is taken within each round, so it shows smaller differences than two evaluations do. A "
         "merge over a solution takes one."),
    Term("campaign", "campaign", "Work on a set of problems in one language on one hardware, with a budget."),
    Term("handoff", "handoff", "The body of an attempt's commit: what was tried, what was learned, what to try next."),
    Term("lineage", "lineage", "The attempts that an attempt was built on: the commits' parents."),
    Term("solution", "solution", "An attempt that an engineer reviewed and merged into the public repository."),
    Term("claim", "claim", "A worker's taking of an evaluation, under a lease that it must renew. An evaluation that "
         "outlived several claims ends as an infra error."),
    Term("priority", "priority", "Who goes first in the queue: a rerun asked for by an engineer, then baselines, then "
         "agents' attempts."),
    Term("self-test", "self-test", "A run of every known cheat, and of honest kernels that look suspicious, against "
         "the judge of one device: no cheat may pass, no honest kernel may be refused. Results of a device that never "
         "passed one carry a warning; those of one that failed cannot be merged."),
    Term("sanitizer", "sanitizer run", "A kernel run once per small workload under tools that see memory errors, races "
         "and reads of what nothing wrote: AddressSanitizer, UBSan and ThreadSanitizer for C++ on CPUs, "
         "compute-sanitizer for CUDA. It finds mistakes, not cheats, and says nothing about results or times. Before a "
         "merge one is demanded where the tools exist; findings must be mended, or acknowledged with a reason."),
    Term("stamp", "environment stamp", "Device, driver, compiler, clocks and harness behind a number. Numbers with "
         "different stamps are shown together and never silently compared."),
    Term("canary", "canary", "A known kernel timed before and after the candidate. When it is slow, the device was "
         "disturbed or throttled, and the evaluation is not counted."),
)

CHECKS: dict[CheckName, str] = {
    CheckName.COMPILES: "The confined compiler produced the entry point.",
    CheckName.LOADS: "The runner loaded the kernel, and it answered its first call.",
    CheckName.RUNS: "Every call returned 0, and no device error followed.",
    CheckName.IN_TIME: "No build, load or call passed its limit.",
    CheckName.INPUTS_INTACT: "Nothing wrote, or tried to write, an input.",
    CheckName.OUTPUTS_WRITTEN: "Every element of every output was written since it was poisoned.",
    CheckName.GUARDS_INTACT: "No byte around an output changed.",
    CheckName.MATCHES_REFERENCE: "The outputs agree with the reference within the tolerance.",
    CheckName.FRESH_EVERY_CALL: "Results follow the inputs of the very call, not an earlier one's.",
    CheckName.COMPLETE_ON_TIME: "All work of a call was done when the call was counted as done.",
    CheckName.CHANNEL_INTACT: "The runner spoke only the protocol, in turn, and stayed alive.",
    CheckName.STEADY_WORK: "Calls cost the same one by one and in a batch, early and late.",
    CheckName.CLOCK_AGREES: "The runner's own clock agrees with the judge's.",
    CheckName.BELOW_LIGHT_SPEED: "No workload was faster than its bound.",
    CheckName.SANDBOXED: "Build and run were confined, and nothing was left behind.",
    CheckName.INFRASTRUCTURE: "Host, device and problem files did their part.",
    CheckName.QUIET_DEVICE: "The canary says that the device ran undisturbed.",
    CheckName.LANGUAGE_RULES: "Only what the language allows was used.",
    CheckName.SANITIZERS_CLEAN: "No sanitizer found an error (sanitizer runs only).",
}
