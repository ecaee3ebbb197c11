// Where the judged documents of each query landed in its row: the one join of the program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "column.hpp"

namespace assay {

// Rows of a ranking, each in rank order.
struct RankedRows {
    const int64_t* offsets;
    const int32_t* docs;
    const double* scores;
    size_t rows;
};

// The judged documents of the same queries, each at most once; -1 is not in the ranking at all.
struct JudgedRows {
    const int64_t* offsets;
    const int32_t* docs;
    const double* grades;
};

// The judged documents that were found, by row in rank order. Ranks start at 1;
// lo and hi are the first and last rank of the documents that share the score.
struct Found {
    Column<int64_t> offsets;
    Column<int64_t> rank, lo, hi;
    Column<double> grade;
};

// How many judgments of each row have each grade, highest grade first; -0.0 counts as 0.0.
struct GradeCounts {
    Column<int64_t> offsets;
    Column<double> grade;
    Column<int64_t> count;
};

GradeCounts count_grades(const int64_t* offsets, size_t rows, const double* grades);

Found find_judged(const RankedRows& ranking, const JudgedRows& judged);

}  // namespace assay
