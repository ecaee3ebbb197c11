// Joins and orders ids by their bytes.
#pragma once

#include <cstdint>
#include <utility>

#include "trec/column.hpp"
#include "trec/sorted_rows.hpp"

namespace assay {

// Places of the first id that appears a second time: (first, second), or (-1, -1).
std::pair<int64_t, int64_t> first_duplicate(const IdView& ids);

// For each id its place in `others` (the first, if it is there more than once), or -1.
Column<int64_t> match_ids(const IdView& ids, const IdView& others);

// The permutation that sorts by bytes; equal ids keep their order.
Column<int64_t> order_ids(const IdView& ids, bool descending);

// The ids at `places`, in that order.
struct IdColumn {
    Column<char> blob;
    Column<int64_t> offsets;
};
IdColumn take_ids(const IdView& ids, const int64_t* places, size_t count);

// The distinct ids in order of first appearance, and the code of each; no codes if one is unclean.
struct NumberedIds {
    IdColumn distinct;
    Column<int32_t> codes;
    bool clean = true;
};
NumberedIds number_ids(const IdView& ids);

}  // namespace assay
