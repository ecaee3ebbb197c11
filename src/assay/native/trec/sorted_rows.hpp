// Rows sorted by the tie rule; tie_order.hpp has the rule itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trec/column.hpp"

namespace assay {

// Ids as one blob of bytes and n + 1 offsets into it.
struct IdView {
    const uint8_t* blob;
    const int64_t* offsets;
    size_t count;
};

enum class Ties : int { descending = -1, appearance = 0, ascending = 1 };

// One line for each retrieved document, in the order of the file.
struct RunLines {
    const int32_t* queries;
    const int32_t* docs;
    const double* scores;
    size_t count;
    size_t n_queries;
};

struct SortedRows {
    Column<int64_t> offsets;
    Column<int32_t> docs;
    Column<double> scores;
    bool in_order = false;        // the lines are in order as they are: docs and scores stay empty
    const char* fault = nullptr;  // "duplicate" or "float32"
    int64_t fault_query = -1;
    int64_t fault_doc = -1;
};

SortedRows sort_rows(const RunLines& lines, const IdView& doc_ids, Ties ties, bool float32);

// The permutation that sorts each row; `tiebreak` (ascending) may be nullptr.
Column<int64_t> order_rows(const int64_t* offsets, size_t rows, const double* scores, const int64_t* tiebreak);

}  // namespace assay
