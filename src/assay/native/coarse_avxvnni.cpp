// The coarse kernels for AVX-VNNI: 6 queries × 16 documents at a time, summed in 32 bits.
#include "coarse_avx2_floats.hpp"

namespace assay {

namespace {

struct AvxVnni : Avx2Floats {
    static constexpr size_t rows = 6, steps_in_16_bits = 0, half = kPanel / 2;

    static inline __attribute__((always_inline)) void multiply_panel(const int8_t* queries, const int32_t* start, const uint8_t* panel,
                                                                     size_t steps, int32_t (*sums)[kPanel]) {
        for (size_t side = 0; side < 2; ++side) {
            multiply_half(reinterpret_cast<const int32_t*>(queries), start, panel + side * half * kStep, steps, sums, side * half);
        }
    }

private:
    static inline __attribute__((always_inline)) void multiply_half(const int32_t* query, const int32_t* start, const uint8_t* panel,
                                                                    size_t steps, int32_t (*sums)[kPanel], size_t at) {
        __m256i left[rows], right[rows];
#pragma GCC unroll 6
        for (size_t row = 0; row < rows; ++row) left[row] = right[row] = _mm256_set1_epi32(start[row]);
        for (size_t step = 0; step < steps; ++step, query += rows, panel += kPanel * kStep) {
            const __m256i a = load_codes(panel), b = load_codes(panel + 32);
#pragma GCC unroll 6
            for (size_t row = 0; row < rows; ++row) {
                const __m256i four = _mm256_set1_epi32(query[row]);
                left[row] = _mm256_dpbusd_avx_epi32(left[row], a, four);
                right[row] = _mm256_dpbusd_avx_epi32(right[row], b, four);
            }
        }
#pragma GCC unroll 6
        for (size_t row = 0; row < rows; ++row) {
            store_sums(sums[row] + at, left[row]);
            store_sums(sums[row] + at + 8, right[row]);
        }
    }
};

}  // namespace

const CoarseKernels& avxvnni_coarse_kernels() {
    static const CoarseKernels kernels = {AvxVnni::rows, kNoLimits, AvxVnni::steps_in_16_bits, scan_panels<AvxVnni>, quantise, multiply_pairs};
    return kernels;
}

}  // namespace assay
