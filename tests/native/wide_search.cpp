// Stands in for search_avx2.cpp where sanitizers look: the shape of the kernels for AVX-512, 14
// queries × 32 documents at a time, in plain C++, for machines that have no such vectors.
#include <algorithm>

#include "exact/canonical_scores.hpp"
#include "search/fused_scan.hpp"

namespace assay {

namespace {

struct Wide16 {
    static constexpr int width = 16, rows = 14;
    struct Vec {
        float at[width];
    };
    static Vec load(const float* from) {
        Vec v;
        std::memcpy(v.at, from, sizeof v.at);
        return v;
    }
    static Vec load_some(const float* from, size_t count) {
        Vec v = {};
        std::memcpy(v.at, from, std::min<size_t>(count, width) * sizeof(float));
        return v;
    }
    static __m256 folded(Vec v) { return _mm256_add_ps(_mm256_loadu_ps(v.at), _mm256_loadu_ps(v.at + 8)); }
    static Vec add(Vec a, Vec b) {
        for (int i = 0; i < width; ++i) a.at[i] += b.at[i];
        return a;
    }
    static void store(float* to, Vec v) { std::memcpy(to, v.at, sizeof v.at); }
    static Vec spread(float x) {
        Vec v;
        for (float& element : v.at) element = x;
        return v;
    }
    static Vec multiply_add(Vec a, Vec b, Vec c) {
        for (int i = 0; i < width; ++i) c.at[i] = std::fma(a.at[i], b.at[i], c.at[i]);
        return c;
    }
    static uint32_t at_least(Vec left, Vec right, float least) {
        uint32_t mask = 0;
        for (int i = 0; i < width; ++i) {
            mask |= static_cast<uint32_t>(left.at[i] >= least) << i | static_cast<uint32_t>(right.at[i] >= least) << (i + width);
        }
        return mask;
    }
    static uint32_t beyond(Vec left, Vec right, float limit) {
        uint32_t mask = 0;
        for (int i = 0; i < width; ++i) {
            mask |= static_cast<uint32_t>(left.at[i] > limit) << i | static_cast<uint32_t>(right.at[i] > limit) << (i + width);
        }
        return mask;
    }
};

}  // namespace

const SearchKernels& avx2_search_kernels() {
    static const SearchKernels kernels = {Wide16::rows, scan_with<Wide16>, square_norms, score, widen};
    return kernels;
}

}  // namespace assay
