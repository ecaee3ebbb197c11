// The search kernels for AVX-512: 14 queries × 32 documents at a time.
#include "exact/canonical_scores.hpp"
#include "search/fused_scan.hpp"

namespace assay {

namespace {

struct Avx512 {
    using Vec = __m512;
    static constexpr int width = 16, rows = 14;
    static Vec load(const float* at) { return _mm512_loadu_ps(at); }
    static Vec load_some(const float* at, size_t count) {
        return count < width ? _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), at) : load(at);
    }
    static Eight folded(Vec v) { return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)); }
    static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
    static void store(float* at, Vec v) { _mm512_storeu_ps(at, v); }
    static Vec spread(float x) { return _mm512_set1_ps(x); }
    static Vec multiply_add(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
    static uint32_t at_least(Vec left, Vec right, float least) {
        const Vec t = spread(least);
        return _mm512_cmp_ps_mask(left, t, _CMP_GE_OQ) | static_cast<uint32_t>(_mm512_cmp_ps_mask(right, t, _CMP_GE_OQ)) << 16;
    }
    static uint32_t beyond(Vec left, Vec right, float limit) {
        const Vec t = spread(limit);
        return _mm512_cmp_ps_mask(left, t, _CMP_GT_OQ) | static_cast<uint32_t>(_mm512_cmp_ps_mask(right, t, _CMP_GT_OQ)) << 16;
    }
};

}  // namespace

const SearchKernels& avx512_search_kernels() {
    static const SearchKernels kernels = {Avx512::rows, scan_with<Avx512>, square_norms, score, widen};
    return kernels;
}

}  // namespace assay
