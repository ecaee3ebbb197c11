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

constexpr double kUnknown = std::numeric_limits<double>::infinity();

// Rows as canonical scores read them, with square norms that are not below the true ones.
struct MeasuredTokens {
    const float* rows = nullptr;
    size_t count = 0;
    std::vector<double> squares, rests;  // these are 0
    std::vector<int32_t> exponents;      // as are these
    std::vector<float> rough;            // squares
    double largest = 0.0;                // norm; infinite where products of float32 cannot be compared

    void measure(const CoarseKernels& kernels, const TokenRows& all, size_t text) {
        rows = all.rows + static_cast<size_t>(all.offsets[text]) * all.columns;
        count = static_cast<size_t>(all.offsets[text + 1] - all.offsets[text]);
        squares.resize(count);
        rests.resize(count);
        exponents.resize(count);
        rough.assign(count, 0.0f);
        if (kernels.square_rows != nullptr) kernels.square_rows(rows, count, all.columns, rough.data());
        double most = 0.0;
        bool comparable = kernels.square_rows != nullptr;
        for (size_t i = 0; i < count; ++i) {
            squares[i] = rough[i] * (1.0 + 0x1p-22 * static_cast<double>(all.columns + 64));
            if (!(rough[i] > 0x1p-80f && rough[i] < 0x1p80f)) {
                const double norm = norm_of(rows + i * all.columns, all.columns);
                squares[i] = norm * norm * (1.0 + 0x1p-30);
                comparable = comparable && !(norm > 0.0);
            }
            most = std::max(most, squares[i]);
        }
        largest = comparable ? std::sqrt(most) : kUnknown;
    }
    ExactRows exact(size_t columns) const { return {rows, false, count, columns, exponents.data(), squares.data(), rests.data()}; }
};

// Scores one query with one document after the other.
class TokenScorer {
public:
    TokenScorer(const TokenRows& queries, const TokenRows& docs)
        : kernels_(coarse_kernels()), queries_(queries), docs_(docs), columns_(docs.columns), share_(1.1 * static_cast<double>(docs.columns + 32) * 0x1p-24) {}

    void start_query(size_t query) {
        query_.measure(kernels_, queries_, query);
        packed_.assign((query_.count + kTokensTogether - 1) / kTokensTogether * kTokensTogether * columns_, 0.0f);
        for (size_t i = 0; i < query_.count; ++i) {
            float* to = packed_.data() + i / kTokensTogether * kTokensTogether * columns_ + i % kTokensTogether;
            for (size_t column = 0; column < columns_; ++column) to[column * kTokensTogether] = query_.rows[i * columns_ + column];
        }
    }

    double score(size_t doc) {
        doc_.measure(kernels_, docs_, doc);
        double sum = 0.0;
        for (size_t from = 0; from < query_.count; from += kTokensTogether) {
            const size_t count = std::min(query_.count - from, kTokensTogether);
            choose(from, count);
            values_.resize(query_tokens_.size());
            search_kernels().score(Metric::dot, query_.exact(columns_), doc_.exact(columns_),
                                   {query_tokens_.data(), doc_tokens_.data(), values_.size()}, values_.data());
            double most[kTokensTogether];
            std::fill_n(most, count, -kUnknown);
            for (size_t i = 0; i < values_.size(); ++i) {
                double& largest = most[query_tokens_[i] - from];
                largest = std::max(largest, values_[i]);
            }
            for (size_t i = 0; i < count; ++i) sum += most[i];
        }
        return sum;
    }

private:
    // The pairs of tokens that may have the largest product of the query's token.
    void choose(size_t from, size_t count) {
        query_tokens_.clear();
        doc_tokens_.clear();
        const bool comparable = query_.largest < kUnknown && doc_.largest < kUnknown;
        products_.resize(comparable ? doc_.count * kTokensTogether : 0);
        float least[kTokensTogether] = {};
        if (comparable) {
            kernels_.multiply_all(packed_.data() + from * columns_, doc_.rows, doc_.count, columns_, products_.data(), least);
        }
        std::fill(least + count, least + kTokensTogether, std::numeric_limits<float>::infinity());
        for (size_t i = 0; comparable && i < count; ++i) {
            // two products are each off by at most share · norms
            const double off = 2 * share_ * std::sqrt(query_.squares[from + i]) * doc_.largest;
            least[i] = std::nextafter(static_cast<float>(least[i] - off), kBelowAll);
        }
        for (size_t j = 0; j < doc_.count; ++j) {
            const float* products = products_.data() + j * kTokensTogether;
            int32_t any = !comparable;
            for (size_t i = 0; comparable && i < kTokensTogether; ++i) any |= products[i] >= least[i];
            for (size_t i = 0; any != 0 && i < count; ++i) {
                if (comparable && products[i] < least[i]) continue;
                query_tokens_.push_back(static_cast<uint32_t>(from + i));
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
    std::vector<float> packed_, products_;
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
