// Ranks of one target per row of a score matrix, counted in one pass: no list and no sort.
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay {

// Rows of scores; row r begins at scores + r * stride.
template <class T>
struct ScoreRows {
    const T* scores;
    size_t rows;
    size_t columns;
    size_t stride;
};

// One number per row. `best` (the first column with the row's highest score) may be null.
struct RankCounts {
    int64_t* above;
    int64_t* tied;
    int64_t* before;
    int64_t* best;
};

// The first cell that is no score; row -1 if all are sound.
struct BadCell {
    int64_t row = -1;
    int64_t column = -1;
};

// Counts for each row how many columns score above its target, how many others tie with it, and
// how many of these stand before it; -1 thrice for a row whose target is -1. NaN and +Inf are bad
// anywhere, -Inf (a masked class) only at the target. After a bad cell the counts mean nothing.
BadCell count_score_ranks(const ScoreRows<float>& rows, const int64_t* targets, const RankCounts& counts);
BadCell count_score_ranks(const ScoreRows<double>& rows, const int64_t* targets, const RankCounts& counts);

}  // namespace assay
