// The search kernels for AVX2 with FMA: 6 queries × 16 documents at a time.
#include "exact/canonical_scores.hpp"
#include "search/fused_scan.hpp"

namespace assay {

namespace {

struct Avx2 {
    using Vec = __m256;
    static constexpr int width = 8, rows = 6;
    static Vec load(const float* at) { return _mm256_loadu_ps(at); }
    static Vec load_some(const float* at, size_t count) {
        const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), end = _mm256_set1_epi32(count < width ? static_cast<int>(count) : width);
        return _mm256_maskload_ps(at, _mm256_cmpgt_epi32(end, places));
    }
    static Eight folded(Vec v) { return v; }
    static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
    static void store(float* at, Vec v) { _mm256_storeu_ps(at, v); }
    static Vec spread(float x) { return _mm256_set1_ps(x); }
    static Vec multiply_add(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
    static uint32_t mask(Vec left, Vec right) {
        return static_cast<uint32_t>(_mm256_movemask_ps(left)) | static_cast<uint32_t>(_mm256_movemask_ps(right)) << 8;
    }
    static uint32_t at_least(Vec left, Vec right, float least) {
        const Vec t = spread(least);
        return mask(_mm256_cmp_ps(left, t, _CMP_GE_OQ), _mm256_cmp_ps(right, t, _CMP_GE_OQ));
    }
    static uint32_t beyond(Vec left, Vec right, float limit) {
        const Vec t = spread(limit);
        return mask(_mm256_cmp_ps(left, t, _CMP_GT_OQ), _mm256_cmp_ps(right, t, _CMP_GT_OQ));
    }
};

}  // namespace

const SearchKernels& avx2_search_kernels() {
    static const SearchKernels kernels = {Avx2::rows, scan_with<Avx2>, square_norms, score, widen};
    return kernels;
}

}  // namespace assay
