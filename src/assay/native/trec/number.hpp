// Decimal text to double: the nearest double, whatever the locale.
// Grammar: [+-]? (digits [. digits?] | . digits) ([eE] [+-]? digits)?
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>
#if !defined(__cpp_lib_to_chars)
#include <locale.h>
#include <stdlib.h>
#include <string>
#endif

#if defined(ASSAY_X86_KERNELS)
#include <immintrin.h>
#endif

#include "trec/compiler.hpp"
#include "trec/digits.hpp"
#include "trec/hashing.hpp"

namespace assay {

enum class NumberFault { none, syntax, overflow };

// A number as the grammar reads it: value = ±digits × 10^exponent, if `digits` did not overflow.
struct Decimal {
    bool negative = false;
    bool zero = true;           // no digit other than 0
    uint64_t digits = 0;        // the significant digits, while they fit
    int significant = 0;        // how many there are
    int64_t exponent = 0;       // of the last significant digit
    const char* unsigned_begin = nullptr;
};

// Takes digits from `p`; each digit after the point lowers the exponent by one.
inline const char* take_digits(const char* p, const char* end, bool after_point, Decimal& out) {
    for (; p != end && is_digit(*p); ++p) {
        if (*p != '0') out.zero = false;
        if (!out.zero) ++out.significant;
        if (out.significant <= 18) out.digits = 10 * out.digits + static_cast<uint64_t>(*p - '0');
        if (after_point) --out.exponent;
    }
    return p;
}

// The exponent part after 'e'; nullptr if it holds no digit. Saturates far beyond any double.
inline const char* take_exponent(const char* p, const char* end, Decimal& out) {
    bool negative = false;
    if (p != end && (*p == '+' || *p == '-')) negative = *p++ == '-';
    if (p == end) return nullptr;
    int64_t value = 0;
    for (; p != end && is_digit(*p); ++p) {
        if (value < 1000000000) value = 10 * value + (*p - '0');
    }
    out.exponent += negative ? -value : value;
    return p;
}

// False if the text does not follow the grammar.
inline bool scan_decimal(std::string_view text, Decimal& out) {
    const char* p = text.data();
    const char* end = p + text.size();
    if (p != end && (*p == '+' || *p == '-')) out.negative = *p++ == '-';
    out.unsigned_begin = p;
    const char* whole = p;
    p = take_digits(p, end, false, out);
    auto count = p - whole;
    if (p != end && *p == '.') {
        const char* fraction = ++p;
        p = take_digits(p, end, true, out);
        count += p - fraction;
    }
    if (count == 0) return false;
    if (p != end && (*p == 'e' || *p == 'E')) p = take_exponent(p + 1, end, out);
    return p == end;
}

// Any decimal, by the library. Out of range means too large, or so small that it rounds to 0.
inline NumberFault convert_slowly(std::string_view text, const Decimal& decimal, double& out) {
    const char* end = text.data() + text.size();
#if defined(__cpp_lib_to_chars)
    const auto result = std::from_chars(decimal.unsigned_begin, end, out);
    const bool out_of_range = result.ec == std::errc::result_out_of_range;
#else
    const std::string digits(decimal.unsigned_begin, end);
#if defined(_WIN32)
    static const _locale_t plain = _create_locale(LC_ALL, "C");
    out = _strtod_l(digits.c_str(), nullptr, plain);
#else
    static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
    out = strtod_l(digits.c_str(), nullptr, plain);
#endif
    const bool out_of_range = out > 1.7976931348623157e308;
#endif
    if (out_of_range) {
        if (decimal.significant + decimal.exponent > 0) return NumberFault::overflow;
        out = 0.0;
    }
    if (decimal.negative) out = -out;
    return NumberFault::none;
}

// The powers of ten that are exact doubles.
inline constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

inline constexpr uint64_t kTens[] = {1u,          10u,          100u,          1000u,          10000u,          100000u,
                                     1000000u,    10000000u,    100000000u,    1000000000u,    10000000000u,    100000000000u,
                                     1000000000000u, 10000000000000u, 100000000000000u, 1000000000000000u, 10000000000000000u};
constexpr uint64_t kExact = uint64_t{1} << 53;  // up to here every number is a double

// Such a number and a power of ten up to 22 are exact doubles, so one multiplication or
// division rounds once, and correctly.
inline bool convert_exactly(const Decimal& decimal, double& out) {
    if (decimal.significant > 18 || decimal.digits > kExact || decimal.exponent < -22 || decimal.exponent > 22) return false;
    const auto digits = static_cast<double>(decimal.digits);
    out = decimal.exponent < 0 ? digits / kPowers[-decimal.exponent] : digits * kPowers[decimal.exponent];
    if (decimal.negative) out = -out;
    return true;
}

constexpr size_t kShortNumber = 24;  // bytes that parse_short may read

// The value of one to eight digits; false if one is none. Reads eight bytes.
ASSAY_INLINE bool read_digits(const char* p, size_t count, uint64_t& value) {
    return add_digits((load8(p) ^ kZeros) << (64 - 8 * count), value);
}

// The digits after the point, at most 16 of them.
ASSAY_INLINE bool read_fraction(const char* p, size_t count, uint64_t& value) {
    if (count <= 8) return read_digits(p, count, value);
    uint64_t first, last;
    const bool fine_first = read_digits(p, count - 8, first), fine_last = read_digits(p + count - 8, 8, last);
    value = first * 100000000 + last;
    return fine_first && fine_last;
}

// The common case, quickly: up to 16 digits with at most a sign and a point. kShortNumber bytes may be looked at.
// False if the text is anything else, not only if it is wrong.
ASSAY_INLINE bool parse_short(std::string_view text, double& out) {
    const char* p = text.data();
    const char* end = p + text.size();
    if (!first_byte_is_lowest() || text.size() > 18 || p == end) return false;
    const bool negative = *p == '-';
    if (negative) ++p;
    const char* begin = p;
    uint64_t digits = 0, fraction = 0;
    for (; p != end && is_digit(*p); ++p) digits = 10 * digits + static_cast<uint64_t>(*p - '0');
    auto count = static_cast<size_t>(p - begin), places = size_t{0};
    if (p != end) {
        if (*p++ != '.') return false;
        places = static_cast<size_t>(end - p);
        if (places > 16 || (places != 0 && !read_fraction(p, places, fraction))) return false;
        digits = digits * kTens[places] + fraction;
    }
    count += places;
    if (count == 0 || count > 16 || digits > kExact) return false;
    out = static_cast<double>(digits);
    if (places != 0) out /= kPowers[places];
    if (negative) out = -out;
    return true;
}

// Reads short numbers by instructions that every machine has. kShortNumber bytes may be looked at.
struct NarrowNumbers {
    static ASSAY_INLINE bool parse(std::string_view text, double& out) { return parse_short(text, out); }
};

#if defined(ASSAY_X86_KERNELS)

// The same by vectors of 128 bits, all digits at once; also 0 and a point before 16 digits.
struct WideNumbers {
    __attribute__((target("avx2,bmi,bmi2"))) static inline bool parse(std::string_view text, double& out) {
        const char *p = text.data(), *end = p + text.size();
        const bool negative = *p == '-';
        p += negative;
        const bool is_fraction = p[0] == '0' && p[1] == '.';
        p += is_fraction ? 2 : 0;
        const auto size = static_cast<size_t>(end - p);
        if (size - 1 >= 16) return parse_short(text, out);
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
        const int all_points = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('.')));
        const unsigned points = is_fraction ? 0 : static_cast<unsigned>(all_points);  // a second one is no digit
        const auto point = static_cast<size_t>(lowest_bit(points | 1u << size));
        const size_t count = size - (point != size);
        // The digits end where the vector does; zeros are before them, and the point is left out.
        const __m128i places = _mm_add_epi8(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                            _mm_set1_epi8(static_cast<char>(static_cast<int>(count) - 16)));
        const __m128i past = _mm_cmpgt_epi8(places, _mm_set1_epi8(static_cast<char>(static_cast<int>(point) - 1)));
        const __m128i digits = _mm_shuffle_epi8(_mm_sub_epi8(bytes, _mm_set1_epi8('0')), _mm_sub_epi8(places, past));
        const __m128i fine = _mm_cmpeq_epi8(_mm_min_epu8(digits, _mm_set1_epi8(9)), digits);
        if (_mm_movemask_epi8(fine) != 0xFFFF || count == 0) return false;
        const __m128i pairs = _mm_maddubs_epi16(digits, _mm_set1_epi16(10 + (1 << 8)));
        const __m128i fours = _mm_madd_epi16(pairs, _mm_set1_epi32(100 + (1 << 16)));
        const __m128i eights = _mm_madd_epi16(_mm_packus_epi32(fours, fours), _mm_set1_epi32(10000 + (1 << 16)));
        const auto both = static_cast<uint64_t>(_mm_cvtsi128_si64(eights));
        const uint64_t value = (both & 0xFFFFFFFF) * 100000000 + (both >> 32);
        if (value > kExact) return false;
        out = static_cast<double>(value) / kPowers[is_fraction ? count : count - point];
        if (negative) out = -out;
        return true;
    }
};

#endif

// Any number.
inline NumberFault parse_long(std::string_view text, double& out) {
    Decimal decimal;
    if (!scan_decimal(text, decimal)) return NumberFault::syntax;
    if (decimal.zero) {
        out = decimal.negative ? -0.0 : 0.0;
        return NumberFault::none;
    }
    if (convert_exactly(decimal, out)) return NumberFault::none;
    return convert_slowly(text, decimal, out);
}

// `readable` bytes may be looked at, from the first of the text on.
inline NumberFault parse_number(std::string_view text, size_t readable, double& out) {
    return readable >= kShortNumber && parse_short(text, out) ? NumberFault::none : parse_long(text, out);
}

}  // namespace assay
