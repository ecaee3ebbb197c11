// The search kernels for any machine: canonical scores only; products come from numpy's BLAS.
#include "exact/canonical_scores.hpp"

namespace assay {

const SearchKernels& plain_search_kernels() {
    static const SearchKernels kernels = {1, nullptr, square_norms, score, widen};
    return kernels;
}

}  // namespace assay
