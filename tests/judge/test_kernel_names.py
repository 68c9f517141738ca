"""Launched kernels by name: whose they are, and what a runner's claim about them is worth."""

from __future__ import annotations

import pytest

from agentcore.judge.kernel_names import foreign_kernels, read_claim


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel(at::TensorIteratorBase&)>",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16>",
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        "nvjet_hsh_64x32_64x16_1x4_h_bz_TNT",
        "cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4",
        "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4, false, false>",
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 64, 64, 4>>",
        "void cub::DeviceReduceKernel<float>",
        "triton_red_fused_mean_mul_pow_rsqrt_0",
    ],
)
def test_kernels_of_torch_and_of_libraries_are_foreign(name: str) -> None:
    assert foreign_kernels([name]) == [name[:160]]


@pytest.mark.parametrize(
    "name",
    [
        "rmsnorm_kernel", "gemm", "gemv_kernel", "layer_norm_fwd", "_attn_fwd", "flash_fwd_kernel", "softmax_kernel_4",
        "triton_softmax", "sm90_norm", "kernel_cutlass_kernel_tensorptrbf16gmemalign16o4096101_tensorptrbf16_0",
        "kernel_cutlass_rmsnorm_kernel___main__",
        "void at::native::vectorized_elementwise_kernel<8, at::native::FillFunctor<float>, std::array<char*, 1>>",
        "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>",
    ],
)
def test_a_kernels_own_name_and_plain_copies_are_not(name: str) -> None:
    assert foreign_kernels([name]) == []


@pytest.mark.parametrize("claim", [{}, {"names": "gemm"}, {"names": [1]}, {"names": None}])
def test_a_claim_that_is_no_list_of_names_is_none(claim: dict[str, object]) -> None:
    assert read_claim(claim) is None


def test_a_claim_is_bounded() -> None:
    claim = read_claim({"names": ["void at::" + "x" * 100_000] * 1000})
    assert claim is not None and len(claim) == 64
    assert all(len(name) == 160 for name in foreign_kernels(claim))
