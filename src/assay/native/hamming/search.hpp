// Search among packed bits by Hamming distance. Distances are small whole numbers, so the best k
// documents of a query are found by counting: no distance is ever compared with another one.
#pragma once

#include <cstdint>

#include "hamming/kernels.hpp"
#include "trec/column.hpp"

namespace assay::hamming {

// The kernels for the widest vectors of this machine, or for those the environment asks for.
const Kernels& machine_kernels();

// Packed rows; bits that pad a row are zero.
struct Rows {
    const uint8_t* data;
    size_t count;
    size_t row_bytes;
};

// Documents that a query must not find: docs[offsets[q]] … docs[offsets[q + 1] − 1], ascending.
struct Excluded {
    const int64_t* offsets;
    const int64_t* docs;
};

// Numbers that a running search shares with the thread that waits for it: it ends early once `stop` is
// not 0, and adds to `done` the pairs of query and document it has compared.
struct Control {
    int32_t* stop;
    int64_t* done;
};

struct Request {
    size_t bits;
    size_t k;
    bool keep_ties;     // keep every document at the k-th distance
    int64_t first_doc;  // the number of the first document
};

// For each query its documents by distance, then by number. `tie_split` tells that at least one more
// document has the distance of the last one.
struct Nearest {
    Column<int64_t> counts;
    Column<int32_t> docs;
    Column<int32_t> distances;
    Column<uint8_t> tie_split;
};

Nearest find_nearest(const Rows& queries, const Rows& docs, const Request& request, const Excluded& excluded, Control control);

// Adds to counts[q · (bits + 1) + d] the documents at distance d of query q.
void count_distances(const Rows& queries, const Rows& docs, size_t bits, int64_t* counts, Control control);

}  // namespace assay::hamming
