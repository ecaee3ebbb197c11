// The coarse kernels for any machine: rows are quantised, so that a corpus can be prepared; there is no
// product of them.
#include "search/quantisation.hpp"

namespace assay {

const CoarseKernels& plain_coarse_kernels() {
    static const CoarseKernels kernels = {1,
                                          {kStep, kNoLimits, 0, true, nullptr, quantise<int8_t>, fill_panel<int8_t>},
                                          {kStep / 2, kNoLimits, 0, false, nullptr, quantise<int16_t>, fill_panel<int16_t>},
                                          nullptr,
                                          nullptr,
                                          nullptr,
                                          nullptr,
                                          nullptr};
    return kernels;
}

}  // namespace assay
