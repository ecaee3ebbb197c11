// Feeds the search among sparse rows with random ones in memory of exactly their size, and checks scores
// and choice with plain loops. Run under sanitizers.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "search/sparse_search.hpp"

using namespace assay::sparse;

namespace {

template <class Weight>
struct Matrix {
    std::vector<int64_t> offsets{0};
    std::vector<int32_t> terms;
    std::vector<Weight> weights;

    Matrix(std::mt19937& random, size_t count, size_t n_terms, size_t most, bool signs) {
        for (size_t row = 0; row < count; ++row) {
            const size_t share = 1 + random() % most;
            for (size_t term = 0; term < n_terms; ++term) {
                if (random() % n_terms >= share) continue;
                terms.push_back(static_cast<int32_t>(term));
                const Weight size = static_cast<Weight>(1 + random() % 9) / (term % 3 ? 64 : 2);
                weights.push_back(signs && random() % 2 ? -size : size);
            }
            offsets.push_back(static_cast<int64_t>(terms.size()));
        }
    }
    Rows<Weight> rows() const { return {offsets.data(), terms.data(), weights.data(), offsets.size() - 1}; }
};

template <class Weight>
bool round_is_right(std::mt19937& random, size_t n_docs) {
    const size_t n_terms = 1 + random() % 40, n_queries = random() % 6, k = random() % 3 ? 1 + random() % 20 : 1 + random() % 400;
    const bool keep_ties = random() % 2 == 0, signs = random() % 3 == 0;
    const Matrix<Weight> docs(random, n_docs, n_terms, 6, signs);
    Matrix<double> queries(random, n_queries, n_terms, 12, signs);
    for (size_t query = 0; query < n_queries; ++query) {
        if (random() % 4 != 0) continue;  // what no unit can hold, beside others that have one
        for (int64_t i = queries.offsets[query]; i < queries.offsets[query + 1]; ++i) queries.weights[i] *= 0x1p-1000;
    }
    std::vector<int64_t> offsets{0}, excluded;
    for (size_t query = 0; query < n_queries; ++query) {
        if (n_docs > 0 && random() % 2 == 0) excluded.push_back(static_cast<int64_t>(random() % n_docs));
        offsets.push_back(static_cast<int64_t>(excluded.size()));
    }
    int32_t stop = 0;
    int64_t done = 0;
    const Index<Weight> index(docs.rows(), n_terms);
    std::vector<double> floors(n_queries, -std::numeric_limits<double>::infinity());
    for (double& floor : floors) {
        if (random() % 3 == 0) floor = static_cast<double>(random() % 64) / 8 - 1;
    }
    const Best best = index.search(queries.rows(), {k, keep_ties, floors.data()}, {offsets.data(), excluded.data()}, {&stop, &done});
    // Some targets are not among the documents: their number is beyond these.
    std::vector<int64_t> targets, above(n_queries), tied(n_queries), before(n_queries);
    std::vector<double> target_scores(n_queries);
    for (size_t query = 0; query < n_queries; ++query) targets.push_back(static_cast<int64_t>(random() % (n_docs + 1)) - 1);
    index.score(queries.rows(), targets.data(), target_scores.data());
    for (size_t query = 0; query < n_queries; ++query) {
        if (random() % 4 == 0 && targets[query] >= 0) targets[query] = static_cast<int64_t>(n_docs) + 5;
    }
    index.count_targets(queries.rows(), {targets.data(), target_scores.data(), above.data(), tied.data(), before.data()}, {offsets.data(), excluded.data()},
                        {&stop, &done});
    size_t at = 0;
    for (size_t query = 0; query < n_queries; ++query) {
        std::vector<double> dense(n_terms, 0.0);
        for (int64_t i = queries.offsets[query]; i < queries.offsets[query + 1]; ++i) dense[queries.terms[i]] = queries.weights[i];
        std::vector<std::pair<double, int32_t>> all;
        for (size_t doc = 0; doc < n_docs; ++doc) {
            const bool barred = offsets[query] < offsets[query + 1] && excluded[offsets[query]] == static_cast<int64_t>(doc);
            double score = 0.0;
            for (int64_t i = docs.offsets[doc]; i < docs.offsets[doc + 1]; ++i) score += dense[docs.terms[i]] * static_cast<double>(docs.weights[i]);
            if (!barred) all.push_back({-score, static_cast<int32_t>(doc)});
            if (barred || targets[query] < 0) continue;
            const bool ties = score == target_scores[query] && static_cast<int64_t>(doc) != targets[query];
            above[query] -= score > target_scores[query];
            tied[query] -= ties;
            before[query] -= ties && static_cast<int64_t>(doc) < targets[query];
        }
        if (above[query] != 0 || tied[query] != 0 || before[query] != 0) return false;
        std::sort(all.begin(), all.end());
        while (!all.empty() && -all.back().first < floors[query]) all.pop_back();
        size_t count = std::min(k, all.size());
        while (keep_ties && count > 0 && count < all.size() && all[count].first == all[count - 1].first) ++count;
        if (static_cast<size_t>(best.counts.data()[query]) != count) return false;
        for (size_t i = 0; i < count; ++i, ++at) {
            if (best.docs.data()[at] != all[i].second || best.scores.data()[at] != -all[i].first) return false;
        }
        const bool split = !keep_ties && count > 0 && count < all.size() && all[count].first == all[count - 1].first;
        if ((best.tie_split.data()[query] != 0) != split) return false;
    }
    return done == static_cast<int64_t>(2 * n_queries * n_docs);
}

}  // namespace

int main() {
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        const size_t n_docs = round % 50 == 0 ? 140000 : random() % 300;
        if (!round_is_right<float>(random, n_docs) || !round_is_right<double>(random, n_docs)) return std::printf("round %d is wrong\n", round), 1;
    }
    std::puts("ok");
}
