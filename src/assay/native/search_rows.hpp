// The frame of a search for judged documents: rows shared among threads, results joined in order.
#pragma once

#include <vector>

#include "judged.hpp"
#include "parallel.hpp"

namespace assay {

// Adds the hits of the rows that follow.
inline void append(Found& found, const Found& more) {
    const int64_t before = found.offsets[found.offsets.size() - 1];
    for (size_t i = 1; i < more.offsets.size(); ++i) found.offsets.push_back(before + more.offsets[i]);
    found.rank.append(more.rank.data(), more.rank.size());
    found.lo.append(more.lo.data(), more.lo.size());
    found.hi.append(more.hi.data(), more.hi.size());
    found.grade.append(more.grade.data(), more.grade.size());
}

// Searcher is made for each thread from (ranking, judged, found) and has find(query, begin, end), which adds
// to `found` the hits of one judged query in its row, documents `begin` to `end` of the ranking.
template <class Searcher>
Found search_rows(const RankedRows& ranking, const JudgedRows& judged) {
    const auto row_of = [&](size_t query) { return static_cast<size_t>(judged.rows[query]); };
    std::vector<int64_t> work(judged.count + 1, 0);  // documents before each query
    for (size_t query = 0; query < judged.count; ++query) {
        const size_t row = row_of(query);
        work[query + 1] = work[query] + (row < ranking.rows ? ranking.offsets[row + 1] - ranking.offsets[row] : 0);
    }
    const unsigned threads = threads_for(static_cast<size_t>(work[judged.count]));
    const std::vector<size_t> cuts = cut_rows(work.data(), judged.count, threads);
    std::vector<Found> parts(threads);
    run_together(threads, [&](unsigned t) {
        Found& found = parts[t];
        Searcher searcher(ranking, judged, found);
        found.offsets.push_back(0);
        for (size_t query = cuts[t]; query < cuts[t + 1]; ++query) {
            const int64_t size = work[query + 1] - work[query];
            if (size > 0 && judged.offsets[query] != judged.offsets[query + 1]) {
                const int64_t begin = ranking.offsets[row_of(query)];
                searcher.find(query, begin, begin + size);
            }
            found.offsets.push_back(static_cast<int64_t>(found.rank.size()));
        }
    });
    for (unsigned t = 1; t < threads; ++t) append(parts[0], parts[t]);
    return std::move(parts[0]);
}

}  // namespace assay
