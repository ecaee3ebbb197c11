// The frame of a search for judged documents: rows shared among threads, results joined in order.
#pragma once

#include <vector>

#include "judged.hpp"
#include "parallel.hpp"

namespace assay {

// The hits of a range of rows.
struct Part {
    Column<int64_t> counts, rank, lo, hi;
    Column<double> grade;
};

inline void append(Found& found, const Part& part) {
    for (size_t i = 0; i < part.counts.size(); ++i) {
        found.offsets.push_back(found.offsets[found.offsets.size() - 1] + part.counts[i]);
    }
    found.rank.append(part.rank.data(), part.rank.size());
    found.lo.append(part.lo.data(), part.lo.size());
    found.hi.append(part.hi.data(), part.hi.size());
    found.grade.append(part.grade.data(), part.grade.size());
}

// Searcher is made for each thread from (ranking, judged, part) and has find(row).
template <class Searcher>
Found search_rows(const RankedRows& ranking, const JudgedRows& judged) {
    const unsigned threads = threads_for(static_cast<size_t>(ranking.offsets[ranking.rows]));
    const std::vector<size_t> cuts = cut_rows(ranking.offsets, ranking.rows, threads);
    std::vector<Part> parts(threads);
    run_together(threads, [&](unsigned t) {
        Searcher searcher(ranking, judged, parts[t]);
        for (size_t row = cuts[t]; row < cuts[t + 1]; ++row) searcher.find(row);
    });
    Found found;
    found.offsets.push_back(0);
    for (const Part& part : parts) append(found, part);
    return found;
}

}  // namespace assay
