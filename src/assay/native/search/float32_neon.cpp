// The search kernels for NEON: 12 queries × 8 documents at a time.
#include <arm_neon.h>

#include "exact/canonical_scores.hpp"
#include "search/fused_scan.hpp"

namespace assay {

namespace {

struct Neon {
    using Vec = float32x4_t;
    static constexpr int width = 4, rows = 12;
    static Vec load(const float* at) { return vld1q_f32(at); }
    static Vec load_some(const float* at, size_t count) {
        float some[width] = {};
        std::memcpy(some, at, (count < width ? count : width) * sizeof(float));
        return load(some);
    }
    static Eight folded(Vec v) { return Eight{v[0], v[1], v[2], v[3]}; }
    static Vec add(Vec a, Vec b) { return vaddq_f32(a, b); }
    static void store(float* at, Vec v) { vst1q_f32(at, v); }
    static Vec spread(float x) { return vdupq_n_f32(x); }
    static Vec multiply_add(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
    static uint32_t mask(uint32x4_t left, uint32x4_t right) {
        constexpr uint32_t bits[8] = {1, 2, 4, 8, 16, 32, 64, 128};
        return vaddvq_u32(vorrq_u32(vandq_u32(left, vld1q_u32(bits)), vandq_u32(right, vld1q_u32(bits + 4))));
    }
    static uint32_t at_least(Vec left, Vec right, float least) {
        const Vec t = spread(least);
        return mask(vcgeq_f32(left, t), vcgeq_f32(right, t));
    }
    static uint32_t beyond(Vec left, Vec right, float limit) {
        const Vec t = spread(limit);
        return mask(vcgtq_f32(left, t), vcgtq_f32(right, t));
    }
};

}  // namespace

const SearchKernels& neon_search_kernels() {
    static const SearchKernels kernels = {Neon::rows, scan_with<Neon>, square_norms, score, widen};
    return kernels;
}

}  // namespace assay
