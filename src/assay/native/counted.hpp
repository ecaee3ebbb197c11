// Ranks in rows that are in no order: counted, where sorting the whole row would cost more.
#pragma once

#include "judged.hpp"

namespace assay {

struct Compared {
    int64_t above, equal;
};

// How many scores are above one, and how many equal it.
Compared compare_all(const double* scores, int64_t count, double one);

// As find_judged, for rows in any order. Equal scores are ordered by document code, ascending.
Found count_judged(const RankedRows& rows, const JudgedRows& judged);

// Where a document stands in its row for the second time, first such place; -1 if none does.
int64_t first_repeat(const int64_t* offsets, size_t rows, const int32_t* docs);

// Whether one of the kAtOnce documents is among the `count` judged ones.
constexpr int64_t kAtOnce = 16;
bool holds_any(const int32_t* docs, const int32_t* judged, int64_t count);

}  // namespace assay
