// Sums of products in doubled precision. Compile with -ffp-contract=off.
//
// Element i of a row belongs to lane i mod 8. Each lane holds a running sum and the sum of all
// rounding errors; the lanes are added up in order at the end. Everything is in an unnamed
// namespace, because sources with other vector instructions include it.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "exact/vector_types.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int kWide = 8;
#elif defined(__AVX2__)
constexpr int kWide = 4;
#else
constexpr int kWide = 2;
#endif
constexpr int kLanes = 8, kParts = kLanes / kWide;
using Wide = VectorOf<double, kWide>::type;

inline Wide widened(const float* at) {
#if defined(__AVX512F__)
    return _mm512_cvtps_pd(_mm256_loadu_ps(at));
#elif defined(__AVX2__)
    return _mm256_cvtps_pd(_mm_loadu_ps(at));
#else
    return Wide{at[0], at[1]};
#endif
}
inline Wide widened(const double* at) {
    Wide wide;
    std::memcpy(&wide, at, sizeof wide);
    return wide;
}

// The rounding error of a product, where there is no instruction that tells.
template <class T>
inline T split_error(T a, T b, T product) {
    constexpr double splitter = 134217729.0;  // 2^27 + 1
    const T a_far = splitter * a, a_hi = a_far - (a_far - a), a_lo = a - a_hi;
    const T b_far = splitter * b, b_hi = b_far - (b_far - b), b_lo = b - b_hi;
    return ((a_hi * b_hi - product) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo;
}

inline Wide product_error(Wide a, Wide b, Wide product) {
#if defined(__AVX512F__)
    return _mm512_fmsub_pd(a, b, product);
#elif defined(__FMA__)
    return _mm256_fmsub_pd(a, b, product);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return vfmaq_f64(-product, a, b);
#else
    return split_error(a, b, product);
#endif
}
inline double product_error(double a, double b, double product) {
#if defined(__FMA__) || defined(__aarch64__)
    return std::fma(a, b, -product);
#else
    return split_error(a, b, product);
#endif
}

inline double root_of(double number) { return std::sqrt(number); }
inline Wide root_of(Wide numbers) {
#if defined(__AVX512F__)
    return _mm512_sqrt_pd(numbers);
#elif defined(__AVX2__)
    return _mm256_sqrt_pd(numbers);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return vsqrtq_f64(numbers);
#else
    return Wide{std::sqrt(numbers[0]), std::sqrt(numbers[1])};
#endif
}

// A number, or several, as the unevaluated sum of two.
template <class T>
struct PairOf {
    T hi, lo;
};
using Pair = PairOf<double>;

template <class T>
inline PairOf<T> two_sum(T a, T b) {
    const T sum = a + b, part = sum - a;
    return {sum, (a - (sum - part)) + (b - part)};
}

template <class T>
inline PairOf<T> two_product(T a, T b) {
    const T product = a * b;
    return {product, product_error(a, b, product)};
}

// dot / sqrt(x² · y²), off by less than 48 · 2^-106 of itself.
template <class T>
inline PairOf<T> cosine_of(PairOf<T> dot, PairOf<T> x_square, PairOf<T> y_square) {
    const PairOf<T> product = two_product(x_square.hi, y_square.hi);
    const T product_lo = product.lo + (x_square.hi * y_square.lo + x_square.lo * y_square.hi);
    const T root = root_of(product.hi);
    const PairOf<T> square = two_product(root, root);
    const T root_lo = (((product.hi - square.hi) - square.lo) + product_lo) / (2.0 * root);
    const T quotient = dot.hi / root;
    const PairOf<T> back = two_product(quotient, root);
    const T rest = ((dot.hi - back.hi) - back.lo) + (dot.lo - quotient * root_lo);
    return two_sum(quotient, rest / root);
}

// 2^-exponent in two steps, because one alone may be beyond float64.
struct Scale {
    double first = 1.0, second = 1.0;

    explicit Scale(int exponent) {
        if (exponent == 0) return;
        first = std::ldexp(1.0, -(exponent / 2));
        second = std::ldexp(1.0, -(exponent - exponent / 2));
    }
};

// Of two floats: their product is exact, and neither is ever scaled.
template <class A, class B>
constexpr bool kBothFloat = false;
template <>
constexpr bool kBothFloat<float, float> = true;

struct Lanes {
    Wide sum[kParts] = {}, error[kParts] = {};

    // Adds a term; returns what was lost by rounding.
    inline Wide add(int part, Wide term) {
        const Wide total = sum[part] + term, change = total - sum[part];
        const Wide lost = (sum[part] - (total - change)) + (term - change);
        sum[part] = total;
        return lost;
    }

    Pair total() const {
        double sums[kLanes], errors[kLanes];
        std::memcpy(sums, sum, sizeof sums);
        std::memcpy(errors, error, sizeof errors);
        double hi = sums[0], lo = errors[0];
        for (int lane = 1; lane < kLanes; ++lane) {
            const Pair step = two_sum(hi, sums[lane]);
            hi = step.hi;
            lo = lo + (step.lo + errors[lane]);
        }
        return two_sum(hi, lo);
    }
};

// Adds the terms of eight elements.
template <bool difference, class A, class B>
inline void add_eight(Lanes& lanes, const A* a, Scale a_scale, const B* b, Scale b_scale) {
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) {
        Wide x = widened(a + part * kWide), y = widened(b + part * kWide);
        if constexpr (!kBothFloat<A, B>) {
            x = x * a_scale.first * a_scale.second;
            y = y * b_scale.first * b_scale.second;
        }
        if constexpr (difference) {
            const Wide gap = x - y, shift = gap - x, gap_error = (x - (gap - shift)) + (-y - shift);
            const Wide square = gap * gap;
            const Wide square_error = product_error(gap, gap, square) + (2.0 * gap) * gap_error;
            lanes.error[part] += lanes.add(part, square) + square_error;
        } else {
            const Wide product = x * y;
            if constexpr (kBothFloat<A, B>) {
                lanes.error[part] += lanes.add(part, product);
            } else {
                lanes.error[part] += lanes.add(part, product) + product_error(x, y, product);
            }
        }
    }
}

constexpr int kAnything = 4096;  // zeros are multiples of any power

// The exponent of the lowest bit of all elements: each of them is a multiple of 2 to that power.
template <class T>
int lowest_bit(const T* row, size_t columns) {
    using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
#if defined(ASSAY_EXTENSIONS)
    constexpr size_t width = sizeof(Wide) / sizeof(T);
    using Values = typename VectorOf<T, width>::type;
    using Words = typename VectorOf<Bits, width>::type;
    constexpr Bits none = std::numeric_limits<Bits>::max();  // all bits but the sign
    constexpr Bits fraction = (Bits{1} << (std::numeric_limits<T>::digits - 1)) - 1;
    Words lowest = Words{} + none;  // positive numbers are in the order of their bits
    const auto look_at = [&lowest](Words size) {
        size &= none;
        const Words rest = ((size & fraction) != 0) & size & (size - 1);
        Words bit = (Words)((Values)size - (Values)rest);
        bit |= (bit == 0) & none;
        lowest = bit < lowest ? bit : lowest;
    };
    Words size = {};
    size_t i = 0;
    for (; i + width <= columns; i += width) {
        std::memcpy(&size, row + i, sizeof size);
        look_at(size);
    }
    size = Words{};
    std::memcpy(&size, row + i, (columns - i) * sizeof(T));
    look_at(size);
    Bits least = none;
    for (size_t lane = 0; lane < width; ++lane) least = lowest[lane] < least ? lowest[lane] : least;
    if (least == none) return kAnything;
    T bit;
    std::memcpy(&bit, &least, sizeof bit);
    return std::ilogb(bit);
#else
    int lowest = kAnything;
    for (size_t i = 0; i < columns; ++i) {
        if (row[i] == T{0}) continue;
        Bits bits;
        std::memcpy(&bits, row + i, sizeof bits);
        int zeros = 0;
        while (zeros < std::numeric_limits<T>::digits - 1 && (bits >> zeros & 1) == 0) ++zeros;
        const int top = std::ilogb(row[i]), least = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
        const int bit = top - (std::numeric_limits<T>::digits - 1) + zeros;
        // below the normal range the bits are those of the number itself
        const int here = top < std::numeric_limits<T>::min_exponent - 1 ? least + zeros : bit;
        lowest = here < lowest ? here : lowest;
    }
    return lowest;
#endif
}

// Σ a·b, or Σ (a − b)² where `difference`; a zero beyond the end changes nothing.
template <bool difference, class A, class B>
Pair doubled_sum(const A* a, Scale a_scale, const B* b, Scale b_scale, size_t columns) {
    Lanes lanes;
    size_t i = 0;
    for (; i + kLanes <= columns; i += kLanes) {
        add_eight<difference>(lanes, a + i, a_scale, b + i, b_scale);
    }
    if (i < columns) {
        A a_rest[kLanes] = {};
        B b_rest[kLanes] = {};
        std::memcpy(a_rest, a + i, (columns - i) * sizeof(A));
        std::memcpy(b_rest, b + i, (columns - i) * sizeof(B));
        add_eight<difference>(lanes, a_rest, a_scale, b_rest, b_scale);
    }
    return lanes.total();
}

}  // namespace
