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

namespace assay {

enum class NumberFault { none, syntax, overflow };

// What the grammar finds: value = ±digits × 10^exponent, if `digits` did not overflow.
struct Decimal {
    bool negative = false;
    bool zero = true;           // no digit other than 0
    uint64_t digits = 0;        // the significant digits, while they fit
    int significant = 0;        // how many there are
    int64_t exponent = 0;       // of the last significant digit
    const char* unsigned_begin = nullptr;
};

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

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

// Up to 15 digits and a power of ten up to 22 are exact doubles, so one multiplication or
// division rounds once, and correctly.
inline bool convert_exactly(const Decimal& decimal, double& out) {
    if (decimal.significant > 15 || decimal.exponent < -22 || decimal.exponent > 22) return false;
    const auto digits = static_cast<double>(decimal.digits);
    out = decimal.exponent < 0 ? digits / kPowers[-decimal.exponent] : digits * kPowers[decimal.exponent];
    if (decimal.negative) out = -out;
    return true;
}

// The common case, quickly: up to 15 digits with at most a sign and a point.
// False if the text is anything else, not only if it is wrong.
inline bool parse_short(std::string_view text, double& out) {
    const char* p = text.data();
    const char* end = p + text.size();
    if (text.size() > 16 || p == end) return false;
    const bool negative = *p == '-';
    if (negative) ++p;
    uint64_t digits = 0;
    const char* point = nullptr;
    const char* begin = p;
    for (; p != end; ++p) {
        const auto digit = static_cast<unsigned char>(*p - '0');
        if (digit <= 9) digits = 10 * digits + digit;
        else if (*p == '.' && point == nullptr) point = p;
        else return false;
    }
    const auto count = end - begin - (point != nullptr);
    if (count == 0 || count > 15) return false;
    out = static_cast<double>(digits);
    if (point != nullptr) out /= kPowers[end - point - 1];
    if (negative) out = -out;
    return true;
}

inline NumberFault parse_number(std::string_view text, double& out) {
    if (parse_short(text, out)) return NumberFault::none;
    Decimal decimal;
    if (!scan_decimal(text, decimal)) return NumberFault::syntax;
    if (decimal.zero) {
        out = decimal.negative ? -0.0 : 0.0;
        return NumberFault::none;
    }
    if (convert_exactly(decimal, out)) return NumberFault::none;
    return convert_slowly(text, decimal, out);
}

}  // namespace assay
