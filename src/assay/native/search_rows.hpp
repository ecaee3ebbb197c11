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

// Searcher is made for each thread from (ranking, judged, found) and has find(row), which adds
// to `found` the hits of one row.
template <class Searcher>
Found search_rows(const RankedRows& ranking, const JudgedRows& judged) {
    const unsigned threads = threads_for(static_cast<size_t>(ranking.offsets[ranking.rows]));
    const std::vector<size_t> cuts = cut_rows(ranking.offsets, ranking.rows, threads);
    std::vector<Found> parts(threads);
    run_together(threads, [&](unsigned t) {
        Found& found = parts[t];
        Searcher searcher(ranking, judged, found);
        found.offsets.push_back(0);
        for (size_t row = cuts[t]; row < cuts[t + 1]; ++row) {
            searcher.find(row);
            found.offsets.push_back(static_cast<int64_t>(found.rank.size()));
        }
    });
    for (unsigned t = 1; t < threads; ++t) append(parts[0], parts[t]);
    return std::move(parts[0]);
}

}  // namespace assay
