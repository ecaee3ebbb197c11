// Instructions that the coarse kernels for AVX2 and AVX-VNNI share: eight numbers of 32 bits at a time, of 6
// queries × 16 documents.
#pragma once

#include <immintrin.h>

#include "search/coarse_scan.hpp"

namespace {

struct Avx2Floats {
    using Vec = __m256;
    using Sums = __m256i;
    static constexpr size_t width = 8, rows = 6;
    static constexpr bool raised = true;
    static Vec load(const float* at) { return _mm256_loadu_ps(at); }
    static Vec spread(float x) { return _mm256_set1_ps(x); }
    static Vec multiply(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
    static Vec multiply_add(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
    static Vec to_float(const int32_t* sums) { return _mm256_cvtepi32_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(sums))); }
    static Vec larger(Vec a, Vec b) { return _mm256_max_ps(a, b); }
    static float largest(Vec a) {
        const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
        return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
    }
    static uint32_t at_least(Vec a, Vec b) { return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ))); }

    static Sums begin(int32_t start) { return _mm256_set1_epi32(start); }
    static __m256i codes(const uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
    static const int32_t* fours(const uint8_t* queries) { return reinterpret_cast<const int32_t*>(queries); }
};

}  // namespace
