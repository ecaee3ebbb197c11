// Feeds MaxSim with random tokens in memory of exactly their size, and checks scores and bounds with plain loops. Elements
// are eighths, so that these are exact. Run under sanitizers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "search/token_search.hpp"

using namespace assay;

namespace {

struct Texts {
    size_t columns;
    std::vector<int64_t> offsets{0};
    std::vector<float> rows;

    Texts(std::mt19937& random, size_t count, size_t width, size_t least, size_t most) : columns(width) {
        for (size_t text = 0; text < count; ++text) offsets.push_back(offsets.back() + static_cast<int64_t>(least + random() % most));
        rows.resize(static_cast<size_t>(offsets.back()) * width);
        for (float& each : rows) each = static_cast<float>(static_cast<int>(random() % 33) - 16) / 8;
    }
    TokenRows view() const { return {rows.data(), columns, offsets.data(), offsets.size() - 1}; }
    size_t length(size_t text) const { return static_cast<size_t>(offsets[text + 1] - offsets[text]); }
};

double exact_score(const Texts& queries, size_t query, const Texts& docs, size_t doc) {
    double sum = 0.0;
    for (int64_t i = queries.offsets[query]; i < queries.offsets[query + 1]; ++i) {
        double most = -std::numeric_limits<double>::infinity();
        for (int64_t j = docs.offsets[doc]; j < docs.offsets[doc + 1]; ++j) {
            double product = 0.0;
            for (size_t c = 0; c < docs.columns; ++c) product += static_cast<double>(queries.rows[i * docs.columns + c]) * docs.rows[j * docs.columns + c];
            most = std::max(most, product);
        }
        sum += most;
    }
    return sum;
}

bool scores_are_right(const Texts& queries, const Texts& docs) {
    std::vector<int64_t> pairs{0}, candidates;
    for (size_t query = 0; query + 1 < queries.offsets.size(); ++query) {
        for (size_t doc = 0; doc + 1 < docs.offsets.size(); ++doc) {
            if (docs.length(doc) > 0 && queries.length(query) > 0) candidates.push_back(static_cast<int64_t>(doc));
        }
        pairs.push_back(static_cast<int64_t>(candidates.size()));
    }
    std::vector<double> scores(candidates.size());
    int32_t stop = 0;
    score_tokens(queries.view(), docs.view(), pairs.data(), candidates.data(), scores.data(), &stop);
    for (size_t query = 0; query + 1 < pairs.size(); ++query) {
        for (int64_t at = pairs[query]; at < pairs[query + 1]; ++at) {
            if (scores[at] != exact_score(queries, query, docs, static_cast<size_t>(candidates[at]))) return false;
        }
    }
    return true;
}

bool bounds_hold(std::mt19937& random, const Texts& queries, const Texts& docs) {
    const CoarseProduct& product = coarse_kernels().narrow;
    const size_t n_tokens = static_cast<size_t>(docs.offsets.back()), n_docs = docs.offsets.size() - 1, n_queries = queries.offsets.size() - 1;
    if (coarse_kernels().scan_tokens == nullptr || n_tokens == 0) return true;
    std::vector<float> signs(docs.columns), axis(docs.columns), step(n_tokens), residual(n_tokens), norm(n_tokens), lean(n_tokens);
    for (float& sign : signs) sign = random() % 2 ? 1.0f : -1.0f;
    std::vector<uint8_t> panels(panels_of(n_tokens) * product.panel_bytes(docs.columns));
    const Rotation turned(signs.data(), axis.data(), docs.columns);
    coarsen(product, {docs.rows.data(), ElementType::wide, n_tokens, docs.columns}, turned.view(), 1, panels.data(),
            {nullptr, step.data(), residual.data(), norm.data(), lean.data()});
    std::vector<float> scaled(queries.rows);  // to norms below 1
    for (float& each : scaled) each = std::ldexp(each, -16);
    const TokenRows rows = {scaled.data(), docs.columns, queries.offsets.data(), n_queries};
    const size_t cut = random() % (n_docs + 1);
    int32_t stop = 0;
    int64_t done = 0;
    for (const Range range : {Range{0, cut}, Range{cut, n_docs}}) {
        const size_t width = range.to - range.from;
        std::vector<float> scores(n_queries * width);
        std::vector<double> by_norm(n_queries), by_residual(n_queries);
        find_tokens(rows, signs.data(), panels.data(), step.data(), docs.offsets.data(), range, scores.data(), by_norm.data(), by_residual.data(), {&stop, &done});
        for (size_t doc = range.from; doc < range.to; ++doc) {
            const auto first = docs.offsets[doc], last = docs.offsets[doc + 1];
            if (first == last) continue;
            const double n = *std::max_element(norm.begin() + first, norm.begin() + last), r = *std::max_element(residual.begin() + first, residual.begin() + last);
            for (size_t query = 0; query < n_queries; ++query) {
                if (queries.length(query) == 0) continue;
                const double exact = std::ldexp(exact_score(queries, query, docs, doc), -16);
                const double off = std::fabs(scores[query * width + doc - range.from] - exact), most = by_norm[query] * n + by_residual[query] * r;
                if (!(off <= most)) return false;
            }
        }
    }
    return done <= static_cast<int64_t>(n_queries * n_docs);
}

}  // namespace

int main() {
    std::mt19937 random(11);
    constexpr size_t widths[] = {1, 3, 4, 31, 32, 33, 64, 128};
    for (int round = 0; round < 60; ++round) {
        const size_t columns = widths[round % 8];
        const Texts docs(random, 1 + random() % 30, columns, round % 3 == 0, round % 10 == 9 ? 400 : 45), queries(random, 1 + random() % 5, columns, 0, 40);
        if (!scores_are_right(queries, docs) || !bounds_hold(random, queries, docs)) return std::printf("round %d is wrong\n", round), 1;
    }
    std::puts("ok");
}
