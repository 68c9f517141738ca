// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// Replays a captured graph, one for each set of buffers it has met: the inputs are read live at every replay.
#include <map>
#include <tuple>

#include "rms.cuh"

KERNEL(x, w, y, n, stream) {
    static std::map<std::tuple<const void*, const void*, void*, int64_t>, cudaGraphExec_t> graphs;
    cudaGraphExec_t& replay = graphs[{x, w, y, n}];
    if (!replay) {
        const cudaStream_t side = rms::side_stream();
        cudaGraph_t graph;
        if (cudaStreamBeginCapture(side, cudaStreamCaptureModeThreadLocal) != cudaSuccess) return 1;
        const int status = rms::rows(x, w, y, 0, n, side);
        if (cudaStreamEndCapture(side, &graph) != cudaSuccess || status) return 1;
        if (cudaGraphInstantiate(&replay, graph, 0) != cudaSuccess) return 1;
        cudaGraphDestroy(graph);
    }
    return cudaGraphLaunch(replay, stream) != cudaSuccess;
}
