// Rows rotated and rounded to 8 bits, or rounded to 16: the same bits from every source that includes this, whatever
// it is compiled for, because each sum is made in an order that is written out.
//
// The rotation R turns blocks of 64 columns (the rest by 16 and by 4) by a Hadamard matrix over its
// root, after random signs; both factors are powers of two. No column then dominates a row, so that
// steps are fine. It is orthogonal: products and norms stay as they are. What all rows share is taken
// off before: it would be most of every row where all point nearly the same way.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "search/coarse_kernels.hpp"
#include "search/eight_floats.hpp"

namespace {

using assay::CoarseLimits;
using assay::CoarseRows;
using assay::kPanel;
using assay::kStep;
using assay::Turn;

constexpr float kRoundoff = 0x1p-24f;

// The sums and differences of `Count` vectors of `Width` numbers each, over all pairs in turn.
template <int Count, int Width>
ASSAY_ALWAYS_INLINE void butterflies(float* x) {
    for (int half = 1; half < Count; half *= 2) {
        for (int i = 0; i < Count; i += 2 * half) {
            for (int j = i; j < i + half; ++j) {
                float *a = x + j * Width, *b = a + half * Width;
                for (int lane = 0; lane < Width; ++lane) {
                    const float sum = a[lane] + b[lane], difference = a[lane] - b[lane];
                    a[lane] = sum;
                    b[lane] = difference;
                }
            }
        }
    }
}

// A block of Side² columns: along one side of the square, then along the other, which is left
// turned over: the order of the columns does not matter as long as it is always the same.
template <int Side>
ASSAY_ALWAYS_INLINE void rotate_square(float* x) {
    butterflies<Side, Side>(x);
    float turned[Side * Side];
    for (int i = 0; i < Side; ++i) {
        for (int j = 0; j < Side; ++j) turned[i * Side + j] = x[j * Side + i];
    }
    butterflies<Side, Side>(turned);
    for (int i = 0; i < Side * Side; ++i) x[i] = turned[i] * (1.0f / Side);
}

ASSAY_ALWAYS_INLINE void butterflies(Eight* x) {
#pragma GCC unroll 3
    for (int half = 1; half < 8; half *= 2) {
#pragma GCC unroll 4
        for (int pair = 0; pair < 4; ++pair) {
            const int i = pair / half * 2 * half + pair % half;
            const Eight sum = x[i] + x[i + half];
            x[i + half] = x[i] - x[i + half];
            x[i] = sum;
        }
    }
}

// The same sums and differences, in registers.
template <>
ASSAY_ALWAYS_INLINE void rotate_square<8>(float* x) {
    Eight rows[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) rows[i] = eight_at(x + 8 * i);
    butterflies(rows);
    transpose(rows);
    butterflies(rows);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) put_eight(x + 8 * i, rows[i] * 0.125f);
}

inline void rotate(float* x, size_t width) {
    for (; width >= 64; x += 64, width -= 64) rotate_square<8>(x);
    for (; width >= 16; x += 16, width -= 16) rotate_square<4>(x);
    for (; width >= 4; x += 4, width -= 4) {
        butterflies<4, 1>(x);
        for (int i = 0; i < 4; ++i) x[i] *= 0.5f;
    }
}

inline float largest_size(const float* x, size_t padded) {
    Eight sizes = {};
    for (size_t at = 0; at < padded; at += kTogether) {
        const Eight value = eight_at(x + at);
        sizes = larger(larger(value, -value), sizes);
    }
    return largest(sizes);
}

// The largest norm of 16 numbers that are summed up in 16 bits, squared: of blocks of 32 columns the
// first two of every four, or the last two.
inline float largest_block(const float* x, size_t padded, float factor) {
    Eight most = {};
    for (size_t at = 0; at < padded; at += 32) {
        Eight squares = {};
        for (size_t i = 0; i < 32; i += kTogether) {
            const Eight value = eight_at(x + at + i) * factor;
            squares += value * value;
        }
        const Eight swapped = {squares[4], squares[5], squares[6], squares[7], squares[0], squares[1], squares[2], squares[3]};
        const Eight halves = squares + swapped;
        const Eight turned = {halves[1], halves[0], halves[3], halves[2], halves[5], halves[4], halves[7], halves[6]};
        most = larger(halves + turned, most);
    }
    return largest(most);
}

inline float largest_pair(const float* x, size_t padded, float factor) {
    float pair = 0.0f;
    for (size_t i = 0; i < padded; i += 2) {
        const float sum = std::fabs(x[i] * factor) + std::fabs(x[i + 1] * factor);
        pair = sum > pair ? sum : pair;
    }
    return pair;
}

// By how much codes must be smaller than 127 / largest makes them.
inline float excess(const float* x, size_t padded, float factor, CoarseLimits limits) {
    const float by_block = std::sqrt(largest_block(x, padded, factor)) / limits.block;
    const float by_pair = limits.pair < 2 * 127 ? largest_pair(x, padded, factor) / limits.pair : 0.0f;
    const float more = by_block > by_pair ? by_block : by_pair;
    return more > 1.0f ? more : 1.0f;
}

// Adding 1.5 · 2^23 rounds to the nearest whole number, halves to the
// even one, and leaves it in the lowest bits.
constexpr float kWhole = 12582912.0f;

// Whole numbers that fit in 16 bits.
inline void put_codes(Eight raised, int16_t* codes) {
#if defined(__AVX2__)
    const __m256i whole = _mm256_sub_epi32(_mm256_castps_si256(raised), _mm256_castps_si256(_mm256_set1_ps(kWhole)));
    const __m128i packed = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), packed);
#else
    uint32_t bits[kTogether];
    std::memcpy(bits, &raised, sizeof bits);
    for (size_t i = 0; i < kTogether; ++i) codes[i] = static_cast<int16_t>(bits[i] & 0xffff);
#endif
}

inline void put_codes(Eight raised, int8_t* codes) {
    uint32_t bits[kTogether];
    std::memcpy(bits, &raised, sizeof bits);
    for (size_t i = 0; i < kTogether; ++i) codes[i] = static_cast<int8_t>(bits[i] & 0xff);
}

// The numbers of a quantised row beside its codes.
struct Measured {
    float step, residual, norm;
};

// Of rotation, of the steps here and of what follows, generously: sums of squares round by a share of this.
inline float rounding_of(size_t columns) { return 1.0f + static_cast<float>(columns + 128) * kRoundoff; }

// A row of sizes that are not rounded: all is left over.
template <class Code>
inline Measured leave(float most, size_t padded, size_t columns, Code* codes) {
    std::memset(codes, 0, padded * sizeof(Code));
    const float norm = most * std::sqrt(static_cast<float>(columns)) * rounding_of(columns);
    return {0.0f, norm, norm};
}

inline Measured measured(float step, float squares, float rests, float norm_unit, size_t columns) {
    const float more = rounding_of(columns), norm = norm_unit * std::sqrt(squares) * more;
    return {step, step * std::sqrt(rests) * more + 32 * kRoundoff * norm, norm};
}

// `x` and `codes` are padded to whole blocks of 32. Squares are of multiples of the step: those of the
// numbers themselves might leave the range of float32.
inline Measured quantise_row(const float* x, size_t padded, size_t columns, CoarseLimits limits, int8_t* codes) {
    const float most = largest_size(x, padded);
    if (!(most > 0x1p-110f && most < 0x1p110f)) return leave(most, padded, columns, codes);
    const float top = most * excess(x, padded, 127.0f / most, limits), factor = 127.0f / top, step = top / 127.0f;
    Eight squares = {}, rests = {};
    for (size_t at = 0; at < padded; at += kTogether) {
        const Eight value = eight_at(x + at) * factor, raised = value + kWhole, rest = value - (raised - kWhole);
        squares += value * value;
        rests += rest * rest;
        put_codes(raised, codes + at);
    }
    return measured(step, sum_of(squares), sum_of(rests), step, columns);
}

// In 16 bits steps are a share of the norm: no sum of products is then beyond 32 bits.
inline Measured quantise_row(const float* x, size_t padded, size_t columns, CoarseLimits, int16_t* codes) {
    Eight sizes = {}, squares[4] = {}, rests[4] = {};
    for (size_t at = 0; at < padded; at += 4 * kTogether) {
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; ++i) {
            const Eight value = eight_at(x + at + i * kTogether);
            sizes = larger(larger(value, -value), sizes);
            squares[i] += value * value;
        }
    }
    const float most = largest(sizes), square = sum_of((squares[0] + squares[1]) + (squares[2] + squares[3]));
    if (!(most > 0x1p-50f && most < 0x1p50f)) return leave(most, padded, columns, codes);  // nor would squares be in range
    const float by_norm = std::sqrt(square) / assay::kWideNorm, by_size = most / 32767.0f, step = by_norm > by_size ? by_norm : by_size;
    const float factor = 1.0f / step;
    for (size_t at = 0; at < padded; at += 4 * kTogether) {
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; ++i) {
            const Eight value = eight_at(x + at + i * kTogether) * factor, raised = value + kWhole, rest = value - (raised - kWhole);
            rests[i] += rest * rest;
            put_codes(raised, codes + at + i * kTogether);
        }
    }
    return measured(step, square, sum_of((rests[0] + rests[1]) + (rests[2] + rests[3])), 1.0f, columns);
}

// Takes off a row what lies along the axis, and says how much that was.
inline float take_off(float* x, size_t padded, const float* axis) {
    Eight sums = {};
    for (size_t at = 0; at < padded; at += kTogether) sums += eight_at(x + at) * eight_at(axis + at);
    const float lean = sum_of(sums);
    for (size_t at = 0; at < padded; at += kTogether) put_eight(x + at, eight_at(x + at) - eight_at(axis + at) * lean);
    return lean;
}

// Turns a row, and says what was taken off it.
inline float turn_row(const float* row, size_t columns, Turn turn, float* turned, size_t padded) {
    for (size_t i = 0; i < columns; ++i) turned[i] = row[i] * turn.signs[i];
    for (size_t i = columns; i < padded; ++i) turned[i] = 0.0f;
    const float lean = turn.axis == nullptr ? 0.0f : take_off(turned, padded, turn.axis);
    rotate(turned, (columns + kStep - 1) / kStep * kStep);
    return lean;
}

template <class Code>
inline void quantise(const float* rows, size_t count, size_t columns, Turn turn, CoarseLimits limits, const CoarseRows& out) {
    constexpr size_t per_step = kStep / sizeof(Code);
    const size_t bytes = (columns + per_step - 1) / per_step * kStep, padded = (columns + 31) / 32 * 32;
    std::vector<float> turned(padded);
    std::vector<Code> codes(padded);
    for (size_t row = 0; row < count; ++row, rows += columns) {
        out.lean[row] = 0.0f;
        if constexpr (sizeof(Code) == 1) {
            out.lean[row] = turn_row(rows, columns, turn, turned.data(), padded);
        } else {
            std::memcpy(turned.data(), rows, columns * sizeof(float));
        }
        const Measured measured = quantise_row(turned.data(), padded, columns, limits, codes.data());
        out.step[row] = measured.step;
        out.residual[row] = measured.residual;
        out.norm[row] = measured.norm;
        std::memcpy(out.codes + row * bytes, codes.data(), bytes);
    }
}

// Steps of eight rows become eight rows of steps, four bytes of each document.
template <uint32_t raise>
inline void turn_over(const uint8_t* codes, size_t stride, uint8_t* panel) {
    Eight rows[kTogether];
#pragma GCC unroll 8
    for (size_t i = 0; i < kTogether; ++i) std::memcpy(&rows[i], codes + i * stride, sizeof rows[i]);
    transpose(rows);
#pragma GCC unroll 8
    for (size_t i = 0; i < kTogether; ++i, panel += kPanel * kStep) {
        uint32_t fours[kTogether];
        std::memcpy(fours, &rows[i], sizeof fours);
        for (uint32_t& four : fours) four ^= raise;
        std::memcpy(panel, fours, sizeof fours);
    }
}

template <class Code>
inline void fill_panel(const uint8_t* codes, size_t count, size_t steps, uint8_t* panel) {
    constexpr uint32_t raise = sizeof(Code) == 1 ? 0x80808080u : 0;  // by 128
    const size_t stride = steps * kStep, whole = count == kPanel ? steps / kTogether * kTogether : 0;
    for (size_t step = 0; step < whole; step += kTogether) {
        for (size_t row = 0; row < kPanel; row += kTogether) {
            turn_over<raise>(codes + row * stride + step * kStep, stride, panel + (step * kPanel + row) * kStep);
        }
    }
    for (size_t step = whole; step < steps; ++step) {
        for (size_t row = 0; row < kPanel; ++row) {
            uint32_t four = 0;
            if (row < count) std::memcpy(&four, codes + row * stride + step * kStep, kStep);
            four ^= raise;
            std::memcpy(panel + (step * kPanel + row) * kStep, &four, kStep);
        }
    }
}

}  // namespace
