// The kernels of the Hamming search, one set for each kind of vector instructions. Plain data
// only: these sources must not share an inline function with the rest of the program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay::hamming {

constexpr size_t panel_docs = 32;  // documents are compared 32 at a time …
constexpr size_t team_queries = 8;  // … with eight queries
constexpr size_t largest_bits = 65535;  // distances are uint16

// Limits and results of one comparison of a team of queries with panels of documents.
struct Comparison {
    uint16_t limit[team_queries];      // a document may matter up to this distance
    uint32_t enabled[team_queries];    // all ones, or zero for a query that wants nothing more
    uint32_t candidates[team_queries];  // which of the 32 documents may matter
    uint16_t distance[team_queries][panel_docs];
};

struct Kernels {
    size_t (*panel_bytes)(size_t row_bytes);
    size_t (*team_bytes)(size_t row_bytes);
    // Lay out up to 32 documents, or up to eight queries, for the comparison; missing ones are zero.
    void (*pack_docs)(const uint8_t* rows, size_t count, size_t row_bytes, uint8_t* panel);
    void (*pack_queries)(const uint8_t* rows, size_t count, size_t row_bytes, uint8_t* team);
    // Compares panels from `at` on up to the first that holds something, and returns its number,
    // or `end`. `found` and `distance` are those of the panel returned.
    size_t (*compare)(const uint8_t* panels, size_t at, size_t end, const uint8_t* team, size_t row_bytes, Comparison& comparison);
};

const Kernels& plain_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

}  // namespace assay::hamming
