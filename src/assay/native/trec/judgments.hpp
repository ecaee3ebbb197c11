// Finds the judged documents of each query in its row: the one join of the program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trec/column.hpp"

namespace assay {

// Rows of a ranking, each in rank order.
struct RankedRows {
    const int64_t* offsets;
    const int32_t* docs;
    const double* scores;
    size_t rows;
};

// The judged documents of queries, each at most once; -1 is not in the ranking at all. `rows` are the queries' rows
// in the ranking; the row after its last, which is empty, stands for queries that it does not hold.
struct JudgedRows {
    const int64_t* rows;
    size_t count;
    const int64_t* offsets;
    const int32_t* docs;
    const double* grades;
};

// The judged documents that were found, by judged query in rank order. Ranks start at 1;
// lo and hi are the first and last rank of the documents that share the score.
struct Hits {
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

Hits find_judged(const RankedRows& ranking, const JudgedRows& judged);

// How many scores are above a score, and how many equal it.
struct ScoreCounts {
    int64_t above, equal;
};

ScoreCounts compare_all(const double* scores, int64_t count, double score);

// As find_judged, for rows in any order. Equal scores are ordered by document code, ascending.
Hits count_judged(const RankedRows& rows, const JudgedRows& judged);

// Where a document stands in its row for the second time, first such place; -1 if none does.
int64_t first_repeat(const int64_t* offsets, size_t rows, const int32_t* docs);

}  // namespace assay
