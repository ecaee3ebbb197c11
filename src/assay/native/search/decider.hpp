// Limits around canonical scores, and the scores themselves, for both ways to find candidates.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "search/float32_search.hpp"
#include "trec/column.hpp"
#include "trec/compiler.hpp"

namespace assay {

// Below the bound of documents of which nothing is known, so that no limit is ever beyond these.
constexpr float kLargest = std::numeric_limits<float>::max() / 8;
constexpr float kNoFloor = -kLargest;
constexpr float kNever = std::numeric_limits<float>::infinity();
// Rounding of a limit to float32 and of the arithmetic before it, generously.
constexpr double kSlack = 1.0 / (1 << 21);

// Limits in units of the product around a canonical score: below and above it for certain.
struct Limits {
    float low, high;
};

inline Limits limits_of(double score, const QueryRows& queries, const DocRows& docs, size_t query) {
    const double unit = docs.unit * queries.weight[query];
    // beyond what float64 holds nothing can be said
    if (!(unit >= std::numeric_limits<double>::min())) return {kNoFloor, kNever};
    const double middle = unit * (score + queries.shift[query]);
    const double slack = unit * (std::fabs(score) + std::fabs(queries.shift[query])) * kSlack +
                         std::numeric_limits<float>::min();
    if (!(std::fabs(middle) + slack < kLargest)) return {kNoFloor, kNever};  // too large to say
    return {static_cast<float>(middle - slack), static_cast<float>(middle + slack)};
}

// The largest of a few values that at least k of the scores reach.
inline float reached_by(const float* scores, size_t count, size_t k) {
    float low = scores[0], high = scores[0];
    for (size_t i = 1; i < count; ++i) {
        low = scores[i] < low ? scores[i] : low;
        high = scores[i] > high ? scores[i] : high;
    }
    for (int step = 0; step < 24; ++step) {
        const float middle = low + (high - low) / 2;
        if (!(middle > low && middle < high)) break;
        uint32_t reached = 0;  // as wide as a score: that is what vectors count fastest
        for (size_t i = 0; i < count; ++i) reached += scores[i] >= middle;
        (reached >= k ? low : high) = middle;
        if (reached >= k && reached <= k + k / 32 + 1) break;
    }
    return low;
}

// Of a scan, the shares after which a search looks at what it found so far.
constexpr double kStages[] = {1.0 / 32, 1.0 / 8, 3.0 / 8, 1.0};

// Where the k-th best of all documents stands among those of a share of them, with a margin.
inline size_t guessed_rank(size_t k, double share) {
    const double expected = static_cast<double>(k) * share;
    return static_cast<size_t>(expected + 3 * std::sqrt(expected) + 2);
}

constexpr size_t kPairedRows = 128;  // documents whose pairs stand together: some hundred KB of rows

// One row meets several at a time: of a query, or where many queries found it, of a document.
inline size_t paired_rows(size_t n_docs, const std::vector<size_t>& offsets) {
    return offsets.size() > kPairedRows && offsets.back() >= 2 * n_docs ? 1 : kPairedRows;
}

// Computes something for pairs, visited by document and not by query, so that rows are read in the
// order of memory and those that several queries found once; `together` documents, a power of two, at a time by
// query. `compute(pairs, values)` fills in values of some of them; the result is that of candidates[offsets[q]] … with query q,
// in that order.
template <class T, class Compute>
Column<T> by_document(size_t n_docs, const std::vector<size_t>& offsets, const uint32_t* candidates, Compute compute,
                           size_t together = kPairedRows) {
    constexpr size_t some = 1024;
    struct Pair {
        uint32_t query, doc, place;
    };
    const size_t count = offsets.back();
    const int shift = lowest_bit(together);
    std::vector<uint32_t> next((n_docs >> shift) + 2);
    Column<Pair> pairs(count);
    Column<T> values(count);
    for (size_t i = 0; i < count; ++i) ++next[(candidates[i] >> shift) + 1];
    for (size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
    for (size_t query = 0; query + 1 < offsets.size(); ++query) {
        for (size_t i = offsets[query]; i < offsets[query + 1]; ++i) {
            pairs[next[candidates[i] >> shift]++] = {static_cast<uint32_t>(query), candidates[i], static_cast<uint32_t>(i)};
        }
    }
    uint32_t queries[some], docs[some];
    T computed[some];
    for (size_t first = 0; first < count; first += some) {
        const Pair* part = pairs.data() + first;
        const size_t n_pairs = std::min(some, count - first);
        for (size_t i = 0; i < n_pairs; ++i) {
            queries[i] = part[i].query;
            docs[i] = part[i].doc;
        }
        compute(Pairs{queries, docs, n_pairs}, computed);
        for (size_t i = 0; i < n_pairs; ++i) values[part[i].place] = computed[i];
    }
    return values;
}

// Canonical scores of some documents with queries.
class Decider {
public:
    Decider(Metric metric, const QueryRows& queries, const DocRows& docs)
        : metric_(metric), queries_(queries), docs_(docs) {}

    // Scores of candidates[offsets[q]] … with query q, in that order.
    Column<double> scores(const std::vector<size_t>& offsets, const uint32_t* candidates) const {
        const auto score_pairs = [this](const Pairs& pairs, double* scores) { score(pairs, scores); };
        const size_t n_docs = docs_.exact.count;
        return by_document<double>(n_docs, offsets, candidates, score_pairs, paired_rows(n_docs, offsets));
    }

    std::vector<double> scores_of(size_t query, const uint32_t* candidates, size_t count) const {
        const std::vector<uint32_t> queries(count, static_cast<uint32_t>(query));
        std::vector<double> scores(count);
        score({queries.data(), candidates, count}, scores.data());
        return scores;
    }

private:
    void score(const Pairs& pairs, double* scores) const {
        search_kernels().score(metric_, queries_.exact, docs_.exact, pairs, scores);
    }

    Metric metric_;
    const QueryRows& queries_;
    const DocRows& docs_;
};

}  // namespace assay
