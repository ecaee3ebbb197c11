// Canonical scores of rows, for every source that is compiled for other vector instructions: the
// exact values rounded once to float64. Doubled precision mostly tells what that is; where it does
// not, exact arithmetic does.
#pragma once

#include "exact_sum.hpp"
#include "stored.hpp"

namespace {

using assay::ExactRows;
using assay::Metric;
using assay::Pairs;

// The cosine of a row without direction: below every other.
constexpr double kZeroScore = -2.0;

// Whether hi is the float64 nearest to every number that is at most `error` from hi + lo.
inline bool is_sure(Pair value, double error) {
    return value.hi + (value.lo + error) == value.hi && value.hi + (value.lo - error) == value.hi;
}

// What an exact_sum may be off, as a share of the sizes of its terms together. With m terms in a
// lane a sum loses less than (m + 16)² · 2^-106 of them, and the squares of differences three
// times that.
inline double sum_error(size_t columns) {
    const double steps = static_cast<double>(columns) / kLanes + 17.0;
    return 4.1 * steps * steps * 0x1p-106;
}

// The same of sums of floats.
inline double float_sum_error(size_t columns) {
    const double steps = static_cast<double>(columns) + 64.0;
    return 1.01 * steps * steps * 0x1p-105;
}

// The rows of one pair, and what is known of them.
template <class A, class B>
struct PairRows {
    const A* a;
    const B* b;
    size_t columns;
    int a_exponent, b_exponent;
    Pair a_square, b_square;

    // At least the sizes of all terms of the product together.
    double size() const { return std::sqrt(a_square.hi * b_square.hi) * (1 + 0x1p-20); }

    // The sum of products, off by at most `sum_share` of that size.
    Pair product() const {
        if constexpr (kBothFloat<A, B>) {
            return float_sum(a, b, columns, size());
        } else {
            return exact_sum<false>(a, Scale(a_exponent), b, Scale(b_exponent), columns);
        }
    }

    double sum_share() const { return kBothFloat<A, B> ? float_sum_error(columns) : sum_error(columns); }

    // What scaled products may lose below the range of float64; those of floats never do.
    double underflow() const { return kBothFloat<A, B> ? 0.0 : static_cast<double>(columns) * 0x1p-900; }
};

// The functions below tell whether they are sure of the last bit of the score that they find.
// Where a sum leaves that open, they look at the lowest bits of the elements: its exact value and
// the one found are both multiples of 2^lattice, as all terms are, so that an error below that is 0.

inline bool scaled_back(double value, int exponent, double& score) {
    score = exponent == 0 ? value : std::ldexp(value, exponent);
    return exponent == 0 || value == 0.0 || std::fabs(score) >= 0x1p-1022;  // else it was rounded twice
}

template <class A, class B>
bool find_distance(const PairRows<A, B>& rows, double& score) {
    const int exponent = rows.a_exponent > rows.b_exponent ? rows.a_exponent : rows.b_exponent;
    const Scale scale(exponent);
    const Pair square = exact_sum<true>(rows.a, scale, rows.b, scale, rows.columns);
    const double error = sum_error(rows.columns) * square.hi + rows.underflow();
    if (!is_sure(square, error)) {
        const int a_lowest = lowest_bit(rows.a, rows.columns), b_lowest = lowest_bit(rows.b, rows.columns);
        const int lattice = 2 * ((a_lowest < b_lowest ? a_lowest : b_lowest) - exponent);
        if (error >= std::ldexp(1.0, lattice)) return false;
    }
    return scaled_back(0.0 - square.hi, 2 * exponent, score);
}

// Whether a dot product with less than this error has none.
template <class A, class B>
bool is_exact(const PairRows<A, B>& rows, double error) {
    const int lattice = lowest_bit(rows.a, rows.columns) - rows.a_exponent + lowest_bit(rows.b, rows.columns) - rows.b_exponent;
    return error < std::ldexp(1.0, lattice);
}

template <class A, class B>
bool find_product(const PairRows<A, B>& rows, Pair dot, double error, double& score) {
    return (is_sure(dot, error) || is_exact(rows, error)) && scaled_back(dot.hi + 0.0, rows.a_exponent + rows.b_exponent, score);
}

template <class A, class B>
bool find_cosine(const PairRows<A, B>& rows, Pair dot, double error, double& score) {
    const Pair cosine = cosine_of(dot, rows.a_square, rows.b_square);
    score = cosine.hi + 0.0;
    const double share = rows.sum_share(), tiny = rows.underflow() * 0x1p200;
    if (is_sure(cosine, 2.2 * share + tiny)) return true;
    if (!is_exact(rows, error)) return false;
    return dot.hi == 0.0 || is_sure(cosine, 1.2 * share * std::fabs(cosine.hi) + tiny);
}

// The score of rows that are not zero, by their product.
template <class A, class B>
bool find_score(Metric metric, const PairRows<A, B>& rows, Pair dot, double& score) {
    const double error = rows.sum_share() * rows.size() + rows.underflow();
    return metric == Metric::dot ? find_product(rows, dot, error, score) : find_cosine(rows, dot, error, score);
}

template <class A, class B>
bool find_score(Metric metric, const PairRows<A, B>& rows, double& score) {
    if (metric == Metric::l2) return find_distance(rows, score);
    if (rows.a_square.hi * rows.b_square.hi == 0.0) {  // a row of zeros
        score = metric == Metric::cosine ? kZeroScore : 0.0;
        return true;
    }
    return find_score(metric, rows, rows.product(), score);
}

template <class A, class B>
PairRows<A, B> pair_of(const ExactRows& queries, size_t q, const ExactRows& docs, size_t d) {
    const size_t columns = queries.columns;
    return {static_cast<const A*>(queries.rows) + q * columns,
            static_cast<const B*>(docs.rows) + d * columns,
            columns,
            queries.exponents[q],
            docs.exponents[d],
            {queries.norm_hi[q], queries.norm_lo[q]},
            {docs.norm_hi[d], docs.norm_lo[d]}};
}

template <class A, class B>
double score_of(Metric metric, const ExactRows& queries, size_t q, const ExactRows& docs, size_t d) {
    double score;
    return find_score(metric, pair_of<A, B>(queries, q, docs, d), score) ? score : assay::exact_score(metric, queries, q, docs, d);
}

// Asks for the row of a document early, which a memory far away takes as long to send as two or three
// scores take.
inline void expect_row(const Pairs& pairs, size_t i, const void* rows, size_t bytes) {
    const size_t next = i + 3;
    if (next >= pairs.count || pairs.docs[next] == pairs.docs[next - 1]) return;
    const char* row = static_cast<const char*>(rows) + pairs.docs[next] * bytes;
    for (size_t byte = 0; byte < bytes; byte += 64) ASSAY_PREFETCH(row + byte);
}

template <class A, class B>
void score_all(Metric metric, const ExactRows& queries, const ExactRows& docs, const Pairs& pairs, double* scores) {
    for (size_t i = 0; i < pairs.count; ++i) {
        expect_row(pairs, i, docs.rows, docs.columns * sizeof(B));
        scores[i] = score_of<A, B>(metric, queries, pairs.queries[i], docs, pairs.docs[i]);
    }
}

// The square norms of some documents that had their turn lately.
class KnownSquares {
public:
    // The product of a query and a document, and the square of the document.
    Pair multiply(const float* query, double query_square, size_t doc, const float* row, size_t columns, Pair& square) {
        Known& known = known_[doc % kKnown];
        Pair product;
        if (known.doc == doc) {
            product = float_sum(query, row, columns, std::sqrt(query_square * known.square.hi) * (1 + 0x1p-20));
        } else {
            float_sums(query, query_square, row, columns, product, known.square);
            known.doc = doc;
        }
        square = known.square;
        return product;
    }

private:
    static constexpr size_t kKnown = 128;
    struct Known {
        size_t doc = static_cast<size_t>(-1);
        Pair square;
    };
    Known known_[kKnown];
};

// The same for documents that were not measured: each is, when its turn comes. None of them is zero, and
// queries are floats.
void score_raw(Metric metric, const ExactRows& queries, const ExactRows& docs, const Pairs& pairs, double* scores) {
    const Scratch room(docs.columns);
    const int32_t exponent = 0;
    Pair square = {};
    KnownSquares known;
    ExactRows one = {nullptr, false, 1, docs.columns, &exponent, &square.hi, &square.lo};
    for (size_t i = 0; i < pairs.count; ++i) {
        const size_t doc = pairs.docs[i], query = pairs.queries[i];
        expect_row(pairs, i, docs.rows, docs.columns * kStoredBytes[static_cast<size_t>(docs.stored)]);
        const float* row = widened_rows(docs.rows, docs.stored, doc, 1, docs.columns, room.data());
        one.rows = row;
        Pair dot = {};
        if (metric != Metric::l2) {
            const float* other = static_cast<const float*>(queries.rows) + query * docs.columns;
            dot = known.multiply(other, queries.norm_hi[query], doc, row, docs.columns, square);
        }
        const PairRows<float, float> rows = pair_of<float, float>(queries, query, one, 0);
        const bool found = metric == Metric::l2 ? find_distance(rows, scores[i]) : find_score(metric, rows, dot, scores[i]);
        if (!found) scores[i] = assay::exact_score(metric, queries, query, one, 0);
    }
}

void score(Metric metric, const ExactRows& queries, const ExactRows& docs, const Pairs& pairs, double* scores) {
    if (docs.exponents == nullptr) {
        score_raw(metric, queries, docs, pairs, scores);
    } else if (queries.doubled) {
        docs.doubled ? score_all<double, double>(metric, queries, docs, pairs, scores)
                     : score_all<double, float>(metric, queries, docs, pairs, scores);
    } else {
        docs.doubled ? score_all<float, double>(metric, queries, docs, pairs, scores)
                     : score_all<float, float>(metric, queries, docs, pairs, scores);
    }
}

template <class T>
void square_norms_of(const ExactRows& rows, size_t from, size_t to, double* hi, double* lo) {
    for (size_t row = from; row < to; ++row) {
        const T* at = static_cast<const T*>(rows.rows) + row * rows.columns;
        const Scale scale(rows.exponents[row]);
        const Pair square = exact_sum<false>(at, scale, at, scale, rows.columns);
        hi[row] = square.hi;
        lo[row] = square.lo;
    }
}

void square_norms(const ExactRows& rows, size_t from, size_t to, double* hi, double* lo) {
    rows.doubled ? square_norms_of<double>(rows, from, to, hi, lo)
                 : square_norms_of<float>(rows, from, to, hi, lo);
}

}  // namespace
