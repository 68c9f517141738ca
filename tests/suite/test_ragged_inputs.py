"""Offsets, page tables and expert choices that generators draw are valid at every shape, the GPU's included."""

from collections.abc import Iterator

import pytest
import torch
from suite_kernels import one_thread, problem

from agentcore.problems.tensors import InputFactory

Tensors = dict[str, torch.Tensor]
# Lengths and indices do not depend on how wide the rows are that they point to.
NARROW = {
    "q_heads": 1, "kv_heads": 1, "heads": 1, "head_dim": 2, "half_dim": 1, "latent_dim": 1, "rope_dim": 1, "hidden": 64,
    "gate_up": 1,
}
PAGED = ("gqa_paged_decode_h32_kv8_d128_ps16", "gqa_paged_prefill_h32_kv8_d128_ps1",
         "gqa_paged_prefill_h32_kv8_d128_ps16", "mla_paged_decode_h16_ckv512_kpe64")


def drawn(name: str, seeds: int = 2, most_tokens: int = 20000) -> Iterator[tuple[dict[str, int], Tensors]]:
    """Axes and inputs of every workload; more tokens than ``most_tokens`` are drawn no differently, only slower."""
    one_thread()
    own = problem(name)
    make = InputFactory(own, "cpu")._module.make_inputs
    for workload in (*own.workloads, *own.cpu_workloads, *own.heldout):
        axes = own.definition.axis_values(workload.axes)
        if axes.get("tokens", 0) > most_tokens:
            continue
        for seed in range(seeds):
            torch.manual_seed(seed)
            yield axes, make({**axes, **{n: v for n, v in NARROW.items() if n in axes}}, torch.device("cpu"))


def lengths(offsets: torch.Tensor, count: int, total: int) -> torch.Tensor:
    """The lengths that ``offsets`` state, which are positive and add up to ``total``."""
    assert offsets.dtype == torch.int32 and offsets.shape == (count + 1,)
    assert int(offsets[0]) == 0 and int(offsets[-1]) == total
    found = offsets.diff()
    assert int(found.min()) >= 1
    return found


@pytest.mark.parametrize("name", PAGED)
def test_pages_are_distinct_and_hold_the_new_tokens(name: str) -> None:
    for axes, made in drawn(name):
        pages = lengths(made["page_offsets"], axes["batch"], axes["kv_pages"])
        table = made["page_table"]
        assert int(table.min()) >= 0 and int(table.max()) < axes["cache_pages"]
        assert table.unique().numel() == axes["kv_pages"] < axes["cache_pages"]
        last = made.get("last_page_len", torch.ones_like(pages))
        assert int(last.min()) >= 1 and int(last.max()) <= axes["page_size"]
        if "q_offsets" in made:
            new = lengths(made["q_offsets"], axes["batch"], axes["total_q"])
            assert bool(((pages - 1) * axes["page_size"] + last >= new).all())


def test_packed_sequences_fill_the_tokens() -> None:
    for axes, made in drawn("varlen_attention_h16_d64"):
        lengths(made["sequence_offsets"], axes["batch"], axes["tokens"])


def test_appended_tokens_fit_their_pages_and_the_tables() -> None:
    for axes, made in drawn("rope_kv_append_ps16"):
        pages = lengths(made["page_offsets"], axes["batch"], axes["pages"])
        tokens = lengths(made["token_offsets"], axes["batch"], axes["tokens"])
        assert torch.equal((tokens + axes["page_size"] - 1) // axes["page_size"], pages)
        assert sorted(made["page_table"].tolist()) == list(range(axes["pages"]))
        start = made["start_position"]
        assert bool((start % axes["page_size"] == 0).all()) and bool((start >= 0).all())
        assert bool((start + tokens <= axes["max_position"]).all())


@pytest.mark.parametrize("name", ["moe_permute_e128_k8_h2048", "moe_nvfp4_gated_qwen3_30b"])
def test_a_token_names_distinct_experts_whose_loads_differ(name: str) -> None:
    for axes, made in drawn(name):
        ids = made["expert_ids"]
        assert int(ids.min()) >= 0 and int(ids.max()) < axes["experts"]
        assert bool((ids.sort(dim=1).values.diff(dim=1) > 0).all())
        if axes["tokens"] >= 256:
            loads = torch.bincount(ids.flatten(), minlength=axes["experts"]).sort().values
            assert int(loads[-1]) > 10 * max(1, int(loads[axes["experts"] // 4]))


def test_router_logits_have_no_ties_that_rounding_could_make() -> None:
    for _, made in drawn("moe_topk_routing_e128_k8", seeds=1, most_tokens=2000):
        probabilities = torch.softmax(made["logits"], dim=1).sort(dim=1).values
        assert float((probabilities.diff(dim=1) / probabilities[:, 1:]).min()) > 1e-5
