// Canonical scores of rows, for every source that is compiled for other vector instructions.
#pragma once

#include "exact_sum.hpp"
#include "search_kernels.hpp"

namespace {

using assay::ExactRows;
using assay::Metric;
using assay::Pairs;

// The cosine of a row without direction: below every other.
constexpr double kZeroScore = -2.0;

// One past float64 would become infinite: the caller looks for that.
inline double scaled_back(double value, int exponent) {
    return exponent == 0 ? value : std::ldexp(value, exponent);
}

template <class A, class B>
double score_of(Metric metric, const ExactRows& queries, size_t q, const ExactRows& docs, size_t d) {
    const size_t columns = queries.columns;
    const A* a = static_cast<const A*>(queries.rows) + q * columns;
    const B* b = static_cast<const B*>(docs.rows) + d * columns;
    int a_exponent = queries.exponents[q], b_exponent = docs.exponents[d];
    if (metric == Metric::l2) {
        a_exponent = b_exponent = a_exponent > b_exponent ? a_exponent : b_exponent;
        const Scale scale(a_exponent);
        const double square = exact_sum<true>(a, scale, b, scale, columns).hi;
        return 0.0 - scaled_back(square, 2 * a_exponent);
    }
    const Pair dot = exact_sum<false>(a, Scale(a_exponent), b, Scale(b_exponent), columns);
    if (metric == Metric::dot) return scaled_back(dot.hi, a_exponent + b_exponent) + 0.0;
    if (queries.norm_hi[q] == 0.0 || docs.norm_hi[d] == 0.0) return kZeroScore;
    const Pair x = {queries.norm_hi[q], queries.norm_lo[q]}, y = {docs.norm_hi[d], docs.norm_lo[d]};
    return cosine_of(dot, x, y) + 0.0;
}

template <class A, class B>
void score_all(Metric metric, const ExactRows& queries, const ExactRows& docs, const Pairs& pairs, double* scores) {
    const size_t bytes = docs.columns * sizeof(B);
    const char* rows = static_cast<const char*>(docs.rows);
    for (size_t i = 0; i < pairs.count; ++i) {
        if (i + 1 < pairs.count && pairs.docs[i + 1] != pairs.docs[i]) {  // ask for the next row early
            const char* next = rows + pairs.docs[i + 1] * bytes;
            for (size_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(next + byte);
        }
        scores[i] = score_of<A, B>(metric, queries, pairs.queries[i], docs, pairs.docs[i]);
    }
}

void score(Metric metric, const ExactRows& queries, const ExactRows& docs, const Pairs& pairs, double* scores) {
    if (queries.doubled) {
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
