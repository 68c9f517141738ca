# case: control
# problem: rmsnorm_h4096
# language: torch
# hardware: gpu
# family: honest
#
# Replays a CUDA graph for each set of buffers it has met; the inputs are read live.
import torch


def compute(x, weight):
    values = x.float()
    return (values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(torch.bfloat16)


graphs = {}


def run(x, weight, y):
    key = (x.data_ptr(), weight.data_ptr(), y.data_ptr(), x.shape)
    if key not in graphs:
        if torch.cuda.is_current_stream_capturing() or len(graphs) >= 2:
            y.copy_(compute(x, weight))  # a capture would wait for the device behind the gate
            return
        y.copy_(compute(x, weight))
        torch.cuda.synchronize()
        graphs[key] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[key], capture_error_mode="thread_local"):
            y.copy_(compute(x, weight))
    graphs[key].replay()
