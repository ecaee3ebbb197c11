// The coarse kernels for AVX2: 6 queries × 16 documents at a time. Products of pairs are summed in
// 16 bits, wrapping round, and widened after every 8 steps: limits on the codes (CoarseLimits) keep
// the true sums within 16 bits, so that they come out of it whole.
#include "coarse_avx2_floats.hpp"

namespace assay {

namespace {

struct Avx2 : Avx2Floats {
    static constexpr size_t rows = 6, steps_in_16_bits = 8, half = kPanel / 2;

    static inline __attribute__((always_inline)) void multiply_panel(const int8_t* queries, const int32_t* start, const uint8_t* panel,
                                                                     size_t steps, int32_t (*sums)[kPanel]) {
        for (size_t side = 0; side < 2; ++side) {
            multiply_half(reinterpret_cast<const int32_t*>(queries), start, panel + side * half * kStep, steps, sums, side * half);
        }
    }

private:
    static inline __attribute__((always_inline)) void multiply_half(const int32_t* query, const int32_t* start, const uint8_t* panel,
                                                                    size_t steps, int32_t (*sums)[kPanel], size_t at) {
        for (size_t row = 0; row < rows; ++row) {
            store_sums(sums[row] + at, _mm256_setzero_si256());
            store_sums(sums[row] + at + 8, _mm256_setzero_si256());
        }
        for (size_t step = 0; step < steps; step += steps_in_16_bits, start += rows) {
            __m256i left[rows], right[rows];
#pragma GCC unroll 6
            for (size_t row = 0; row < rows; ++row) left[row] = right[row] = _mm256_set1_epi32(start[row]);
            const size_t count = steps - step < steps_in_16_bits ? steps - step : steps_in_16_bits;
            for (size_t i = 0; i < count; ++i, query += rows, panel += kPanel * kStep) {
                const __m256i a = load_codes(panel), b = load_codes(panel + 32);
#pragma GCC unroll 6
                for (size_t row = 0; row < rows; ++row) {
                    const __m256i four = _mm256_set1_epi32(query[row]);
                    left[row] = _mm256_add_epi16(left[row], _mm256_maddubs_epi16(a, four));
                    right[row] = _mm256_add_epi16(right[row], _mm256_maddubs_epi16(b, four));
                }
            }
#pragma GCC unroll 6
            for (size_t row = 0; row < rows; ++row) {
                widen(left[row], sums[row] + at);
                widen(right[row], sums[row] + at + 8);
            }
        }
    }

    static inline __attribute__((always_inline)) void widen(__m256i narrow, int32_t* sums) {
        const __m256i wide = _mm256_madd_epi16(narrow, _mm256_set1_epi16(1));
        store_sums(sums, _mm256_add_epi32(wide, _mm256_load_si256(reinterpret_cast<const __m256i*>(sums))));
    }
};

}  // namespace

const CoarseKernels& avx2_coarse_kernels() {
    static const CoarseKernels kernels = {Avx2::rows, kNarrowQueryLimits, Avx2::steps_in_16_bits, scan_panels<Avx2>, quantise, multiply_pairs};
    return kernels;
}

}  // namespace assay
