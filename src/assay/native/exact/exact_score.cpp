// Scores in exact arithmetic, for the few pairs whose rounding doubled precision leaves open.
#include <algorithm>
#include <cmath>
#include <vector>

#include "search/kernels.hpp"

namespace assay {

namespace {

// Numbers of 128 bits; where the compiler has none, as much of them as exact sums need.
#if defined(__SIZEOF_INT128__) && !defined(ASSAY_NO_EXTENSIONS)
__extension__ typedef unsigned __int128 DoubleWord;
#else
struct DoubleWord {
    uint64_t low, high;

    DoubleWord(uint64_t number) : low(number), high(0) {}
    explicit operator uint64_t() const { return low; }

    DoubleWord& operator+=(const DoubleWord& other) {
        low += other.low;
        high += other.high + (low < other.low ? 1 : 0);
        return *this;
    }
    DoubleWord& operator>>=(unsigned bits) {  // at most 64
        low = bits == 64 ? high : bits == 0 ? low : low >> bits | high << (64 - bits);
        high = bits == 64 ? 0 : high >> bits;
        return *this;
    }
    friend DoubleWord operator+(DoubleWord a, const DoubleWord& b) { return a += b; }
    friend DoubleWord operator>>(DoubleWord a, unsigned bits) { return a >>= bits; }
    friend bool operator!=(const DoubleWord& a, uint64_t b) { return a.high != 0 || a.low != b; }
    friend bool operator<(uint64_t a, const DoubleWord& b) { return b.high != 0 || a < b.low; }

    // Of two numbers of 64 bits.
    friend DoubleWord operator*(const DoubleWord& a, uint64_t b) {
        const uint64_t a_low = a.low & 0xffffffff, a_high = a.low >> 32, b_low = b & 0xffffffff, b_high = b >> 32;
        const uint64_t first = a_low * b_low, middle = a_high * b_low + (first >> 32), other = a_low * b_high + (middle & 0xffffffff);
        DoubleWord product(other << 32 | (first & 0xffffffff));
        product.high = a_high * b_high + (middle >> 32) + (other >> 32);
        return product;
    }
};
#endif

// A natural number, 64 bits at a time from the lowest on, without zeros at the upper end.
using Natural = std::vector<uint64_t>;

// (−1)^negative · size · 2^exponent; a size of no words is 0.
struct Number {
    bool negative;
    Natural size;
    int exponent;
};

Natural trimmed(Natural number) {
    while (!number.empty() && number.back() == 0) number.pop_back();
    return number;
}

int length_of(const Natural& number) {
    if (number.empty()) return 0;
    int length = static_cast<int>(64 * number.size());
    for (uint64_t last = number.back(); last >> 63 == 0; last <<= 1) --length;
    return length;
}

bool is_less(const Natural& a, const Natural& b) {
    if (a.size() != b.size()) return a.size() < b.size();
    for (size_t i = a.size(); i-- > 0;) {
        if (a[i] != b[i]) return a[i] < b[i];
    }
    return false;
}

// a − b, where b is not larger.
Natural difference_of(Natural a, const Natural& b) {
    uint64_t borrow = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        const DoubleWord subtrahend = DoubleWord{i < b.size() ? b[i] : 0} + borrow;
        borrow = a[i] < subtrahend;
        a[i] -= static_cast<uint64_t>(subtrahend);
    }
    return trimmed(std::move(a));
}

Natural product_of(const Natural& a, const Natural& b) {
    Natural product(a.size() + b.size());
    for (size_t i = 0; i < a.size(); ++i) {
        uint64_t carry = 0;
        for (size_t j = 0; j < b.size(); ++j) {
            const DoubleWord term = DoubleWord{a[i]} * b[j] + product[i + j] + carry;
            product[i + j] = static_cast<uint64_t>(term);
            carry = static_cast<uint64_t>(term >> 64);
        }
        product[i + b.size()] = carry;
    }
    return trimmed(std::move(product));
}

Natural shifted(const Natural& number, int bits) {
    Natural words(static_cast<size_t>(bits / 64));
    words.insert(words.end(), number.begin(), number.end());
    return product_of({uint64_t{1} << bits % 64}, words);
}

bool bit_of(const Natural& number, int at) { return number[static_cast<size_t>(at / 64)] >> at % 64 & 1; }

bool any_below(const Natural& number, int end) {
    for (int at = 0; at < end; ++at) {
        if (at % 64 == 0 && at + 64 <= end && number[static_cast<size_t>(at / 64)] == 0) {
            at += 63;
        } else if (bit_of(number, at)) {
            return true;
        }
    }
    return false;
}

// The nearest float64, half way the even one; `more` says that the number is a little larger.
double nearest(const Number& number, bool more = false) {
    constexpr int smallest = -1074, digits = 53;
    const int length = length_of(number.size);
    const int exponent = std::max(number.exponent + length - digits, smallest), dropped = exponent - number.exponent;
    if (dropped > length) return 0.0;
    uint64_t leading = 0;
    for (int at = length; at-- > std::max(dropped, 0);) leading = 2 * leading + bit_of(number.size, at);
    if (dropped > 0 && bit_of(number.size, dropped - 1)) leading += (leading & 1) != 0 || more || any_below(number.size, dropped - 1);
    const double size = std::ldexp(static_cast<double>(leading), dropped > 0 ? exponent : number.exponent);
    return (number.negative ? -size : size) + 0.0;  // never −0.0
}

// A sum of products of doubles, without any rounding.
class Sum {
public:
    Sum() : above_(kWords), below_(kWords) {}

    // Adds a · b · 2^doublings.
    void add(double a, double b, int doublings = 0) {
        if (a == 0.0 || b == 0.0) return;
        int a_exponent, b_exponent;
        const auto a_size = static_cast<uint64_t>(std::ldexp(std::fabs(std::frexp(a, &a_exponent)), 53));
        const auto b_size = static_cast<uint64_t>(std::ldexp(std::fabs(std::frexp(b, &b_exponent)), 53));
        const auto place = static_cast<unsigned>(a_exponent + b_exponent - 106 + doublings - kLowest);
        const DoubleWord product = DoubleWord{a_size} * b_size, upper = product >> (64 - place % 64);
        uint64_t* word = ((a < 0) == (b < 0) ? above_ : below_).data() + place / 64;
        DoubleWord carry = DoubleWord{*word} + (static_cast<uint64_t>(product) << place % 64);
        *word = static_cast<uint64_t>(carry);
        for (carry = (carry >> 64) + upper; carry != 0; carry >>= 64) {
            carry += *++word;
            *word = static_cast<uint64_t>(carry);
        }
    }

    Number value() const {
        const Natural above = trimmed(above_), below = trimmed(below_);
        const bool negative = is_less(above, below);
        Natural size = negative ? difference_of(below, above) : difference_of(above, below);
        size_t zeros = 0;
        while (zeros < size.size() && size[zeros] == 0) ++zeros;
        size.erase(size.begin(), size.begin() + static_cast<std::ptrdiff_t>(zeros));
        return {negative, std::move(size), kLowest + static_cast<int>(64 * zeros)};
    }

private:
    // A product is a multiple of 2^kLowest and below 2^2048; 2^60 of them fit.
    static constexpr int kLowest = -2304;
    static constexpr size_t kWords = (2048 + 64 - kLowest) / 64 + 2;

    Natural above_, below_;  // of the products above and below 0
};

// dot / √(x² · y²): the root of the quotient of integers to 62 bits, found bit by bit.
double cosine_of(const Number& dot, const Number& x_square, const Number& y_square) {
    if (dot.size.empty()) return 0.0;
    const Natural bottom = product_of(x_square.size, y_square.size);
    Natural top = product_of(dot.size, dot.size);
    const int shift = (125 - length_of(top) + length_of(bottom)) / 2;
    top = shifted(top, 2 * shift);
    uint64_t root = 0;
    bool more = false;
    for (uint64_t bit = uint64_t{1} << 62; bit != 0; bit >>= 1) {
        const DoubleWord square = DoubleWord{root | bit} * (root | bit);
        const Natural reached = product_of({static_cast<uint64_t>(square), static_cast<uint64_t>(square >> 64)}, bottom);
        if (is_less(top, reached)) continue;
        root |= bit;
        more = reached != top;
    }
    // the exponents are kLowest and a multiple of 64: their sum is even
    return nearest({dot.negative, {root}, (2 * dot.exponent - x_square.exponent - y_square.exponent) / 2 - shift}, more);
}

double element(const ExactRows& rows, size_t row, size_t column) {
    const size_t at = row * rows.columns + column;
    return rows.doubled ? static_cast<const double*>(rows.rows)[at] : static_cast<double>(static_cast<const float*>(rows.rows)[at]);
}

Number product_of(const ExactRows& a, size_t row, const ExactRows& b, size_t other) {
    Sum sum;
    for (size_t i = 0; i < a.columns; ++i) sum.add(element(a, row, i), element(b, other, i));
    return sum.value();
}

}  // namespace

double exact_score(Metric metric, const ExactRows& queries, size_t q, const ExactRows& docs, size_t d) {
    if (metric == Metric::dot) return nearest(product_of(queries, q, docs, d));
    if (metric == Metric::cosine) {
        return cosine_of(product_of(queries, q, docs, d), product_of(queries, q, queries, q), product_of(docs, d, docs, d));
    }
    Sum sum;  // −(x − y)² = 2xy − x² − y²
    for (size_t i = 0; i < queries.columns; ++i) {
        const double x = element(queries, q, i), y = element(docs, d, i);
        sum.add(x, y, 1);
        sum.add(x, -x);
        sum.add(y, -y);
    }
    return nearest(sum.value());
}

}  // namespace assay
