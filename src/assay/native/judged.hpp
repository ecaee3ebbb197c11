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

Found find_judged(const RankedRows& ranking, const JudgedRows& judged);

}  // namespace assay
