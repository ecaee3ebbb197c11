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

#include "lanes.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

// A number as the unevaluated sum of two.
struct Pair {
    double hi, lo;
};

inline Pair two_sum(double a, double b) {
    const double sum = a + b, part = sum - a;
    return {sum, (a - (sum - part)) + (b - part)};
}

inline Pair two_product(double a, double b) {
    const double product = a * b;
#if defined(__FMA__) || defined(__aarch64__)
    return {product, std::fma(a, b, -product)};
#else
    constexpr double splitter = 134217729.0;  // 2^27 + 1
    const double a_far = splitter * a, a_hi = a_far - (a_far - a), a_lo = a - a_hi;
    const double b_far = splitter * b, b_hi = b_far - (b_far - b), b_lo = b - b_hi;
    return {product, ((a_hi * b_hi - product) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo};
#endif
}

// dot / sqrt(x² · y²), off by less than 48 · 2^-106 of itself.
inline Pair cosine_of(Pair dot, Pair x_square, Pair y_square) {
    const Pair product = two_product(x_square.hi, y_square.hi);
    const double product_lo = product.lo + (x_square.hi * y_square.lo + x_square.lo * y_square.hi);
    const double root = std::sqrt(product.hi);
    const Pair square = two_product(root, root);
    const double root_lo = (((product.hi - square.hi) - square.lo) + product_lo) / (2.0 * root);
    const double quotient = dot.hi / root;
    const Pair back = two_product(quotient, root);
    const double rest = ((dot.hi - back.hi) - back.lo) + (dot.lo - quotient * root_lo);
    return two_sum(quotient, rest / root);
}

#if defined(__AVX512F__)
constexpr int kWide = 8;
#elif defined(__AVX2__)
constexpr int kWide = 4;
#else
constexpr int kWide = 2;
#endif
constexpr int kLanes = 8, kParts = kLanes / kWide;
using Wide = LanesOf<double, kWide>::type;

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

// What a product lost by rounding.
inline Wide product_error(Wide a, Wide b, Wide product) {
#if defined(__AVX512F__)
    return _mm512_fmsub_pd(a, b, product);
#elif defined(__FMA__)
    return _mm256_fmsub_pd(a, b, product);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return vfmaq_f64(-product, a, b);
#else
    constexpr double splitter = 134217729.0;
    const Wide a_far = splitter * a, a_hi = a_far - (a_far - a), a_lo = a - a_hi;
    const Wide b_far = splitter * b, b_hi = b_far - (b_far - b), b_lo = b - b_hi;
    return ((a_hi * b_hi - product) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo;
#endif
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
    using Values = typename LanesOf<T, width>::type;
    using Words = typename LanesOf<Bits, width>::type;
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
Pair exact_sum(const A* a, Scale a_scale, const B* b, Scale b_scale, size_t columns) {
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

// All lanes together, by halves: no sum waits for more than two before it.
inline double folded(Wide lanes) {
    double sums[kWide];
    std::memcpy(sums, &lanes, sizeof sums);
#pragma GCC unroll 3
    for (int half = kWide / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
        for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    return sums[0];
}

// Sums of products of floats, which are exact, in half of the time. High sums start from a number so
// large that they stay multiples of its last bit, U: each takes on a product's nearest multiple of
// that, without error, and the rest, at most U / 2, goes into low sums. Given `size` ≥ Σ |a·b|, U is at
// most 8 · 2^-52 · size. A low sum of m terms loses at most m² / 2 · 2^-53 · U / 2, and adding up the 16 of
// them, m = columns / 16, less than as much again: in all less than (columns + 64)² · 2^-105 · size.
class FloatSums {
public:
    explicit FloatSums(double size) : start_(12.0 * power_below(size)) {
        for (Wide& each : high_) each = Wide{} + start_;
    }

    void add(const float* a, const float* b) {
#pragma GCC unroll 8
        for (int part = 0; part < kSixteen; ++part) {
            const Wide x = widened(a + part * kWide), y = widened(b + part * kWide);
            const Wide next = product_sum(x, y, high_[part]), taken = next - high_[part];
            low_[part] += product_sum(x, y, -taken);
            high_[part] = next;
        }
    }

    Pair total() const {
        Wide high = {}, low = {};
        for (int part = 0; part < kSixteen; ++part) {
            high += high_[part] - start_;
            low += low_[part];
        }
        return two_sum(folded(high), folded(low));
    }

private:
    static constexpr int kSixteen = 16 / kWide;

    // The power of two at or below a positive number.
    static double power_below(double size) {
        uint64_t bits;
        std::memcpy(&bits, &size, sizeof bits);
        bits &= uint64_t{0x7ff} << 52;
        std::memcpy(&size, &bits, sizeof bits);
        return size;
    }

    // x · y + z, rounded once: products are exact.
    static Wide product_sum(Wide x, Wide y, Wide z) {
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

    double start_;
    Wide high_[kSixteen], low_[kSixteen] = {};
};

// Calls add(a, b) for all elements, 16 at a time; a zero beyond the end changes nothing.
template <class Add>
inline void for_sixteens(const float* a, const float* b, size_t columns, Add add) {
    size_t i = 0;
    for (; i + 16 <= columns; i += 16) add(a + i, b + i);
    if (i == columns) return;
    float a_rest[16] = {}, b_rest[16] = {};
    std::memcpy(a_rest, a + i, (columns - i) * sizeof(float));
    std::memcpy(b_rest, b + i, (columns - i) * sizeof(float));
    add(a_rest, b_rest);
}

// Σ a·b, of which `size` ≥ Σ |a·b|.
inline Pair float_sum(const float* a, const float* b, size_t columns, double size) {
    FloatSums sums(size);
    for_sixteens(a, b, columns, [&](const float* x, const float* y) { sums.add(x, y); });
    return sums.total();
}

// Σ b², about.
inline double rough_square(const float* b, size_t columns) {
    Wide sums[16 / kWide] = {};
    for_sixteens(b, b, columns, [&](const float* x, const float*) {
        for (int part = 0; part < 16 / kWide; ++part) sums[part] += widened(x + part * kWide) * widened(x + part * kWide);
    });
    Wide sum = sums[0];
    for (int part = 1; part < 16 / kWide; ++part) sum += sums[part];
    return folded(sum);
}

// Σ a·b and Σ b·b in the time of one: neither waits for the other. `a_square` is Σ a·a.
inline void float_sums(const float* a, double a_square, const float* b, size_t columns, Pair& product, Pair& square) {
    const double size = rough_square(b, columns) * (1 + 0x1p-20);
    FloatSums products(std::sqrt(a_square * size)), squares(size);
    for_sixteens(a, b, columns, [&](const float* x, const float* y) {
        products.add(x, y);
        squares.add(y, y);
    });
    product = products.total();
    square = squares.total();
}

}  // namespace
