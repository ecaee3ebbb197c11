// The coarse kernels for any machine: rows are quantised, so that a corpus can be prepared; there is no
// product of them.
#include "quantise.hpp"

namespace assay {

const CoarseKernels& plain_coarse_kernels() {
    static const CoarseKernels kernels = {1, kNoLimits, 0, true, nullptr, quantise, nullptr, nullptr};
    return kernels;
}

}  // namespace assay
