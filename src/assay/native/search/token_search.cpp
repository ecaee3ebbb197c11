#include "search/token_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "search/coarse_queries.hpp"

namespace assay {

namespace {

constexpr float kBelowAll = -std::numeric_limits<float>::infinity();

// The documents of some panels.
struct Segments {
    std::vector<TokenSegment> segments;
    std::vector<float> masks, factor;

    void fill(const float* steps, const int64_t* offsets, size_t n_tokens, Range docs, size_t first_panel, size_t n_panels, size_t& doc) {
        segments.clear();
        masks.clear();
        const size_t begin = first_panel * kPanel, end = std::min(n_tokens, begin + n_panels * kPanel);
        factor.assign(n_panels * kPanel, 0.0f);
        std::copy(steps + begin, steps + end, factor.begin());
        for (; doc < docs.to; ++doc) {
            const auto from = static_cast<size_t>(offsets[doc]), to = static_cast<size_t>(offsets[doc + 1]);
            for (size_t at = std::max(from, begin); at < std::min(to, end); at = (at / kPanel + 1) * kPanel) {
                const size_t panel = at / kPanel, stop = std::min(to, (panel + 1) * kPanel);
                segments.push_back({panel - first_panel, doc - docs.from, at % kPanel, stop - panel * kPanel, nullptr, stop == to});
            }
            if (to > end) break;
        }
        for (const TokenSegment& segment : segments) {
            for (size_t i = 0; i < kPanel; ++i) masks.push_back(i >= segment.from && i < segment.to ? 0.0f : kBelowAll);
        }
        for (size_t i = 0; i < segments.size(); ++i) {
            if (segments[i].to - segments[i].from < kPanel) segments[i].mask = masks.data() + i * kPanel;
        }
    }
};

double norm_of(const float* row, size_t columns) {
    double square = 0.0;
    for (size_t i = 0; i < columns; ++i) square += static_cast<double>(row[i]) * row[i];
    return std::sqrt(square);
}

}  // namespace

void find_tokens(const TokenRows& queries, const float* signs, const uint8_t* panels, const float* steps, const int64_t* offsets, Range range,
                 float* scores, double* by_norm, double* by_residual, Control control) {
    const CoarseKernels& kernels = coarse_kernels();
    QueryRows rows = {};
    rows.exact.count = queries.n_rows();
    rows.exact.columns = queries.columns;
    rows.rows = queries.rows;
    const CoarseQueries coarse(rows, kernels.narrow, {signs, nullptr});
    std::vector<uint32_t> query(coarse.step.size(), 0);
    for (size_t q = 0; q < queries.count; ++q) {
        double norms = 0.0, sizes = 0.0;
        for (auto at = static_cast<size_t>(queries.offsets[q]); at < static_cast<size_t>(queries.offsets[q + 1]); ++at) {
            query[at] = static_cast<uint32_t>(q);
            const double norm = coarse.is_sane(at) ? 0.0 : norm_of(queries.rows + at * queries.columns, queries.columns) * 1.001;
            norms += norm + static_cast<double>(coarse.residual[at]) * coarse.step[at];
            sizes += norm + static_cast<double>(coarse.size[at]) * coarse.step[at];
        }
        const double rounding = static_cast<double>(queries.offsets[q + 1] - queries.offsets[q] + 64) * 0x1p-23;
        by_norm[q] = norms + rounding * sizes;
        by_residual[q] = sizes + rounding * sizes;
    }
    std::vector<float> largest(coarse.step.size(), kBelowAll);
    const size_t n_steps = kernels.narrow.steps(queries.columns), bytes = kernels.narrow.panel_bytes(queries.columns);
    const auto begin = static_cast<size_t>(offsets[range.from]), end = static_cast<size_t>(offsets[range.to]);
    const size_t per_chunk = kCoarseChunk / bytes + 1, last_panel = panels_of(end);
    Segments segments;
    for (size_t panel = begin / kPanel, doc = range.from; begin < end && panel < last_panel; panel += per_chunk) {
        const size_t before = doc;
        segments.fill(steps, offsets, end, range, panel, std::min(per_chunk, last_panel - panel), doc);
        const TokenSegment* first = segments.segments.data();
        const TokenScan scan = {coarse.packed.data(), coarse.start.data(),     n_steps, coarse.step.data(), query.data(), largest.data(),
                                panels + panel * bytes, segments.factor.data(), first,   first + segments.segments.size(), scores, range.to - range.from};
        for (size_t group = 0; group < coarse.n_groups; ++group) {
            if (*control.stop != 0) return;
            kernels.scan_tokens(scan, group);
        }
        reinterpret_cast<std::atomic<int64_t>*>(control.done)->fetch_add(static_cast<int64_t>((doc - before) * queries.count), std::memory_order_relaxed);
    }
}

namespace {

constexpr size_t kQueryTokensAtOnce = 32;  // these stay in the nearest cache
constexpr double kUnknown = std::numeric_limits<double>::infinity();

// Rows as canonical scores read them, with square norms that are not below the true ones.
struct MeasuredTokens {
    const float* rows = nullptr;
    size_t count = 0;
    std::vector<double> squares, rests;  // these are 0
    std::vector<int32_t> exponents;      // as are these
    double largest = 0.0;                // norm; infinite where products of float32 cannot be compared

    void measure(const CoarseKernels& kernels, const TokenRows& all, size_t text) {
        rows = all.rows + static_cast<size_t>(all.offsets[text]) * all.columns;
        count = static_cast<size_t>(all.offsets[text + 1] - all.offsets[text]);
        squares.resize(count);
        rests.resize(count);
        exponents.resize(count);
        largest = kernels.multiply == nullptr ? kUnknown : 0.0;
        constexpr uint32_t first = 0;
        for (size_t i = 0; i < count; ++i) {
            const float* row = rows + i * all.columns;
            float square = 0.0f;
            if (kernels.multiply != nullptr) kernels.multiply(row, row, all.columns, {&first, &first, 1}, &square);
            squares[i] = square * (1.0 + 0x1p-22 * static_cast<double>(all.columns + 64));
            if (!(square > 0x1p-80f && square < 0x1p80f)) {
                const double norm = norm_of(row, all.columns);
                squares[i] = norm * norm * (1.0 + 0x1p-30);
                if (norm > 0.0) largest = kUnknown;
            }
            largest = std::max(largest, std::sqrt(squares[i]));
        }
    }
    ExactRows exact(size_t columns) const { return {rows, false, count, columns, exponents.data(), squares.data(), rests.data()}; }
};

// Scores one query with one document after the other.
class TokenScorer {
public:
    TokenScorer(const TokenRows& queries, const TokenRows& docs)
        : kernels_(coarse_kernels()), queries_(queries), docs_(docs), columns_(docs.columns), share_(1.1 * static_cast<double>(docs.columns + 32) * 0x1p-24) {}

    void start_query(size_t query) { query_.measure(kernels_, queries_, query); }

    double score(size_t doc) {
        doc_.measure(kernels_, docs_, doc);
        double sum = 0.0;
        for (size_t from = 0; from < query_.count; from += kQueryTokensAtOnce) {
            const size_t to = std::min(query_.count, from + kQueryTokensAtOnce);
            choose(from, to);
            values_.resize(query_tokens_.size());
            search_kernels().score(Metric::dot, query_.exact(columns_), doc_.exact(columns_),
                                   {query_tokens_.data(), doc_tokens_.data(), values_.size()}, values_.data());
            for (size_t i = from, at = 0; i < to; ++i) {
                double most = -kUnknown;
                for (; at < values_.size() && query_tokens_[at] == i; ++at) most = std::max(most, values_[at]);
                sum += most;
            }
        }
        return sum;
    }

private:
    // The pairs of tokens that may have the largest product of the query's token.
    void choose(size_t from, size_t to) {
        query_tokens_.clear();
        doc_tokens_.clear();
        const size_t count = doc_.count;
        const bool comparable = query_.largest < kUnknown && doc_.largest < kUnknown;
        products_.resize(comparable ? (to - from) * count : 0);
        float largest[kQueryTokensAtOnce] = {};
        if (comparable) {
            kernels_.multiply_all(query_.rows + from * columns_, to - from, doc_.rows, count, columns_, products_.data(), largest);
        }
        for (size_t i = from; i < to; ++i) {
            const float* products = products_.data() + (i - from) * count;
            // two products are each off by at most share · norms
            const double off = 2 * share_ * std::sqrt(query_.squares[i]) * doc_.largest;
            const float least = std::nextafter(static_cast<float>(largest[i - from] - off), kBelowAll);
            for (size_t j = 0; j < count; ++j) {
                if (comparable && products[j] < least) continue;
                query_tokens_.push_back(static_cast<uint32_t>(i));
                doc_tokens_.push_back(static_cast<uint32_t>(j));
            }
        }
    }

    const CoarseKernels& kernels_;
    const TokenRows& queries_;
    const TokenRows& docs_;
    size_t columns_;
    double share_;
    MeasuredTokens query_, doc_;
    std::vector<uint32_t> query_tokens_, doc_tokens_;
    std::vector<float> products_;
    std::vector<double> values_;
};

}  // namespace

void score_tokens(const TokenRows& queries, const TokenRows& docs, const int64_t* pairs, const int64_t* candidates, double* scores,
                  const volatile int32_t* stop) {
    TokenScorer scorer(queries, docs);
    for (size_t query = 0; query < queries.count; ++query) {
        if (pairs[query] == pairs[query + 1]) continue;
        scorer.start_query(query);
        for (int64_t at = pairs[query]; at < pairs[query + 1] && *stop == 0; ++at) scores[at] = scorer.score(static_cast<size_t>(candidates[at]));
    }
}

}  // namespace assay
