// Scale, bias and bound of a document by its square norm, in float32. They are in an unnamed namespace, because
// sources with other vector instructions include it.
#pragma once

#include <cmath>

#include "search/kernels.hpp"

namespace {

using assay::Measuring;
using assay::Metric;

// Square norms within these limits are off by rounding alone, and their products stay in range.
constexpr float kLeastSquare = 0x1p-60f, kMostSquare = 0x1p60f;

// Fills in the numbers of one document.
inline void measure(const Measuring& measuring, size_t doc, float square) {
    if (!(square > kLeastSquare && square < kMostSquare)) __atomic_store_n(measuring.odd, 1, __ATOMIC_RELAXED);
    const float norm = std::sqrt(square), bias = measuring.bias_unit * square;
    const bool cosine = measuring.metric == Metric::cosine;
    measuring.scale[doc] = cosine ? 1.0f / norm : 1.0f;
    measuring.bias[doc] = -bias;
    measuring.square[doc] = square;
    measuring.bound[doc] = measuring.factor * (cosine ? 1.0f : norm + bias) + measuring.rounding;
}

}  // namespace
