"""Sanitizers: run a kernel once per small workload under a checker, and say what it found with kernel, file and line.

compute-sanitizer's four tools on GPUs, g++'s AddressSanitizer, UBSan and ThreadSanitizer on the CPU target. For honest
authors and reviewers, not against cheats: a kernel can see that it is watched. Inputs are no secret and outputs are not
compared; the judge does that. Start at ``evaluate``; ``report`` alone is safe to import anywhere.
"""
