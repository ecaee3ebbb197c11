// The coarse kernels for AVX-512 with VNNI: 14 queries × 32 documents at a time.
#include "coarse_scan.hpp"

namespace assay {

namespace {

struct Avx512Vnni {
    using Vec = __m512;
    static constexpr size_t width = 16, rows = 14, steps_in_16_bits = 0;
    static Vec load(const float* at) { return _mm512_loadu_ps(at); }
    static Vec spread(float x) { return _mm512_set1_ps(x); }
    static Vec multiply(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
    static Vec multiply_add(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
    static Vec to_float(const int32_t* sums) { return _mm512_cvtepi32_ps(_mm512_load_si512(sums)); }
    static uint32_t at_least(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }

    static inline __attribute__((always_inline)) void multiply_panel(const int8_t* queries, const int32_t* start, const uint8_t* panel,
                                                                     size_t steps, int32_t (*sums)[kPanel]) {
        __m512i left[rows], right[rows];
        const int32_t* query = reinterpret_cast<const int32_t*>(queries);
#pragma GCC unroll 14
        for (size_t row = 0; row < rows; ++row) left[row] = right[row] = _mm512_set1_epi32(start[row]);
        for (size_t step = 0; step < steps; ++step, query += rows, panel += kPanel * kStep) {
            const __m512i a = _mm512_loadu_si512(panel), b = _mm512_loadu_si512(panel + 64);
#pragma GCC unroll 14
            for (size_t row = 0; row < rows; ++row) {
                const __m512i four = _mm512_set1_epi32(query[row]);
                left[row] = _mm512_dpbusd_epi32(left[row], a, four);
                right[row] = _mm512_dpbusd_epi32(right[row], b, four);
            }
        }
#pragma GCC unroll 14
        for (size_t row = 0; row < rows; ++row) {
            _mm512_store_si512(sums[row], left[row]);
            _mm512_store_si512(sums[row] + 16, right[row]);
        }
    }
};

}  // namespace

const CoarseKernels& avx512vnni_coarse_kernels() {
    static const CoarseKernels kernels = {Avx512Vnni::rows, kNoLimits, Avx512Vnni::steps_in_16_bits, scan_panels<Avx512Vnni>, quantise, multiply_pairs};
    return kernels;
}

}  // namespace assay
