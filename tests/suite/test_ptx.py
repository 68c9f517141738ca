"""The PTX interpreter of the CuTe DSL kernels' tests: what it computes, and that it refuses what a GPU gets wrong."""

from __future__ import annotations

import numpy as np
import ptx
import pytest

THREADS = 64
HEAD = """
.visible .entry twice(
	.param .align 8 .b8 twice_param_0[16],
	.param .f32 twice_param_1
)
.reqntid 64, 1, 1
{
	.reg .b64 %rd<9>;
	ld.param.b64 	%rd1, [twice_param_0];
	ld.param.b64 	%rd2, [twice_param_0+8];
	ld.param.b32 	%r9, [twice_param_1];
	mov.u32 	%r1, %tid.x;
	mul.wide.u32 	%rd3, %r1, 4;
	add.s64 	%rd4, %rd1, %rd3;
	add.s64 	%rd5, %rd2, %rd3;
	ld.global.b32 	%r2, [%rd4];
"""
TAIL = """
	st.global.b32 	[%rd5], %r3;
	ret;
}
"""
REVERSED = """
	shl.b32 	%r4, %r1, 2;
	st.shared.b32 	[%r4], %r2;
	bar.sync 	0;
	sub.s32 	%r5, 252, %r4;
	ld.shared.b32 	%r6, [%r5];
	mul.f32 	%r3, %r6, %r9;
"""


def run(body: str, *, writable: bool = True) -> np.ndarray:
    x, y = np.arange(THREADS, dtype=np.float32), np.zeros(THREADS, np.float32)
    base = {"x": 0x10000, "y": 0x20000}
    memory = ptx.Memory([(base["x"], x.view(np.uint8), False), (base["y"], y.view(np.uint8), writable)])
    kernel = ptx.parse(HEAD + body + TAIL)["twice"]
    assert kernel.parameters == {"twice_param_0": 16, "twice_param_1": 4}
    pointers = np.array([base["x"], base["y"]], np.uint64).tobytes()
    arguments = {"twice_param_0": pointers, "twice_param_1": np.float32(3).tobytes()}
    ptx.Block(kernel, memory, arguments, block=0, threads=THREADS, shared_bytes=256).run()
    return y


def test_values_pass_between_threads_through_shared_memory() -> None:
    assert (run(REVERSED) == 3 * np.arange(THREADS)[::-1]).all()


def test_threads_that_part_meet_again_and_loop_for_as_long_as_each_of_them_wants() -> None:
    counting = """
	mov.b32 	%r3, 0f00000000;
	mov.b32 	%r4, 0;
$L_1:
	setp.ge.s32 	%p1, %r4, %r1;
	@%p1 bra 	$L_2;
	add.f32 	%r3, %r3, %r9;
	add.s32 	%r4, %r4, 1;
	bra 	$L_1;
$L_2:
	shfl.sync.bfly.b32 	%r3, %r3, 1, 31, -1;
"""
    assert (run(counting) == 3 * (np.arange(THREADS) ^ 1)).all()


def test_bfloat16_is_rounded_to_nearest_even() -> None:
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F800000, 0x7FC00001], np.uint32)
    assert [hex(b) for b in ptx._bfloat16(bits)] == ["0x3f80", "0x3f82", "0x3f81", "0x7f80", "0x7fff"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("ld.global.b32 %r3, [%rd4+4];", "4 bytes past a tensor"),
        ("ld.global.v4.b32 {%r3, %r4, %r5, %r6}, [%rd4];", "an access of 16 bytes that is not aligned"),
        ("st.global.b32 [%rd4], %r2;", "a write to an input"),
        ("ld.global.b32 %r3, [%rd3];", "in no tensor"),
        ("add.s32 %r4, %r1, 4096; ld.shared.b32 %r3, [252+4];", "outside the 256 bytes of shared memory"),
        ("setp.lt.s32 %p1, %r1, 7; @%p1 shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;", "a shuffle from a lane that is"),
        ("setp.lt.s32 %p1, %r1, 7; @%p1 bra $L_9; bar.sync 0;\n$L_9:\nmov.b32 %r3, %r2;", "a barrier that not every"),
        ("wgmma.fence.sync.aligned;", "not known here"),
    ],
    ids=["past", "unaligned", "input", "nowhere", "shared", "shuffle", "barrier", "unknown"],
)
def test_what_a_gpu_would_get_wrong_is_refused(body: str, said: str) -> None:
    with pytest.raises(ptx.PtxError, match=said):
        run(body + "\n")
