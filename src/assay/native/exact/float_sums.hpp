// Sums of products of floats, which are exact as doubles, of one row with several others at a time; with FMA
// of doubles, too. Everything is in an unnamed namespace: sources with other vector instructions include it.
//
// High sums start from a number so large that they stay multiples of its last bit, U: each takes on a
// product's nearest multiple of that, without error, and the rest, at most U / 2, goes into low sums.
// Given `size` ≥ Σ |a·b|, U is at most 8 · 2^-52 · size. A low sum of m terms loses at most
// m² / 2 · 2^-53 · U / 2. There are at least 4 of them, m ≤ (columns + 15) / 4, and adding them up loses at most
// 2 · columns · 2^-53 · U: in all less than (columns + 64)² · 2^-105 · size. Of doubles each rest is rounded, too,
// which loses columns · 2^-54 · U; they have 16 low sums, so that m ≤ (columns + 15) / 16, and the bound holds.
#pragma once

#include "exact/doubled_sums.hpp"

namespace {

constexpr int kMostRows = 4;  // rows

// The error bound of sums of floats, as a share of `size`.
inline double float_sum_error(size_t columns) {
    const double steps = static_cast<double>(columns) + 64.0;
    return 1.01 * steps * steps * 0x1p-105;
}

// x · y + z, rounded once: products are exact.
inline Wide product_sum(Wide x, Wide y, Wide z) {
#if defined(__AVX512F__)
    return _mm512_fmadd_pd(x, y, z);
#elif defined(__FMA__)
    return _mm256_fmadd_pd(x, y, z);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return vfmaq_f64(z, x, y);
#else
    return x * y + z;
#endif
}

// x · y − z, without error where z is what a high sum took of the product.
inline Wide product_rest(Wide x, Wide y, Wide z) {
#if defined(__FMA__) || (defined(__ARM_NEON) && defined(__aarch64__))
    return product_error(x, y, z);
#else
    return x * y - z;
#endif
}

inline double folded(Wide lanes) {
#if defined(__AVX2__)
#if defined(__AVX512F__)
    const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(lanes), _mm512_extractf64x4_pd(lanes, 1));
#else
    const __m256d four = lanes;
#endif
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
#else
    return lanes[0] + lanes[1];
#endif
}

inline double power_of_two(int exponent) {
    const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
    double power;
    std::memcpy(&power, &bits, sizeof power);
    return power;
}

// The power of two at or below a positive number.
inline double power_below(double size) {
    uint64_t bits;
    std::memcpy(&bits, &size, sizeof bits);
    bits &= uint64_t{0x7ff} << 52;
    std::memcpy(&size, &bits, sizeof bits);
    return size;
}

// Sums of one row with `rows` others, or of these with themselves where `squares`. With fewer rows each has
// more sums, so that none waits for the one before it.
template <int rows, bool squares, class A = float, class B = float>
class FloatSums {
public:
    explicit FloatSums(const double* sizes) {
        for (int row = 0; row < rows; ++row) {
            start_[row] = 12.0 * power_below(sizes[row]);
            for (Wide& each : high_[row]) each = Wide{} + start_[row];
        }
    }

    void add_all(const A* a, const B* const* others, size_t columns) {
        size_t i = 0;
        for (; i + kStep <= columns; i += kStep) add(a + i, [=](int row) { return others[row] + i; });
        if (i == columns) return;
        // a zero beyond the end changes nothing
        A a_rest[kStep] = {};
        B rest[rows][kStep] = {};
        std::memcpy(a_rest, a + i, (columns - i) * sizeof(A));
        for (int row = 0; row < rows; ++row) std::memcpy(rest[row], others[row] + i, (columns - i) * sizeof(B));
        add(a_rest, [&rest](int row) { return rest[row]; });
    }

    Pair total(int row) const {
        Wide high = high_[row][0] - start_[row], low = low_[row][0];
        for (int part = 1; part < kEach; ++part) {
            high += high_[row][part] - start_[row];
            low += low_[row][part];
        }
        return two_sum(folded(high), folded(low));
    }

private:
    static constexpr int kEach = 16 / rows > kWide ? 16 / rows / kWide : 1, kStep = kEach * kWide;

    template <class At>
    ASSAY_ALWAYS_INLINE void add(const A* a, At at) {
#pragma GCC unroll 8
        for (int part = 0; part < kEach; ++part) {
            const Wide x = widened(a + part * kWide);
#pragma GCC unroll 4
            for (int row = 0; row < rows; ++row) {
                const Wide y = widened(at(row) + part * kWide), factor = squares ? y : x;
                const Wide next = product_sum(factor, y, high_[row][part]), added = next - high_[row][part];
                low_[row][part] += product_rest(factor, y, added);
                high_[row][part] = next;
            }
        }
    }

    double start_[rows];
    Wide high_[rows][kEach], low_[rows][kEach] = {};
};

template <int rows, bool squares>
void sum_floats(const float* a, const float* const* others, size_t columns, const double* sizes, double* hi, double* lo) {
    FloatSums<rows, squares> sums(sizes);
    sums.add_all(a, others, columns);
    for (int row = 0; row < rows; ++row) {
        const Pair total = sums.total(row);
        hi[row] = total.hi;
        lo[row] = total.lo;
    }
}

// The sums of one row with 1 to kMostRows others, of which sizes[i] ≥ Σ |a·b|, or of these with themselves.
template <bool squares>
void sum_floats(const float* a, const float* const* others, size_t count, size_t columns, const double* sizes, double* hi, double* lo) {
    constexpr void (*each[])(const float*, const float* const*, size_t, const double*, double*, double*) = {
        sum_floats<1, squares>, sum_floats<2, squares>, sum_floats<3, squares>, sum_floats<4, squares>};
    each[count - 1](a, others, columns, sizes, hi, lo);
}

}  // namespace
