// The kernels of the coarse search, one set for each kind of vector instructions: it finds by
// numbers of 8 bits, or of 16. Plain data only, as in kernels.hpp. docs/exactness.md proves the bounds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "search/kernels.hpp"

namespace assay {

// Documents lie in panels of 32, four bytes of each together: panel[step][document][byte]. These are four
// columns of 8 bits, or two of 16.
constexpr size_t kPanel = 32, kStep = 4;

constexpr size_t kTokensTogether = 32;  // of a query, that meet a document at a time

// Rows rotated and rounded to whole multiples, −127 … 127, of a step of their own, after what they
// share was taken off: rest = row − lean · axis. With R the rotation, ‖R·rest − step · codes‖ ≤ residual
// and ‖rest‖ ≤ norm. Of 16 bits, −32767 … 32767, nothing is taken off or rotated: R is 1, the lean 0.
struct CoarseRows {
    uint8_t* codes;
    float* step;
    float* residual;
    float* norm;
    float* lean;
};

// A rotation of rows: signs (±1) of columns, and what is taken off before, of length 1 and with these
// signs, padded to whole blocks of 32; null for nothing.
struct Turn {
    const float* signs;
    const float* axis;
};

// How far codes may go so that sums of products can be kept in 16 bits: the sizes of two neighbours
// together, and the norm of the 16 codes that are summed up before a sum is widened.
struct CoarseLimits {
    float pair, block;
};

// Together they keep 16 bits: (203 + 2) · (157 + 2) < 2^15, and 255 · 127 < 2^15 for a pair. Codes
// are rounded, which adds at most ½ to each of the 16. Documents always keep the first of these:
// they may be kept in a file, and met on any machine.
constexpr CoarseLimits kDocLimits = {512.0f, 203.0f}, kNarrowQueryLimits = {126.5f, 157.0f}, kNoLimits = {512.0f, 2048.0f};

// The norm of all codes of 16 bits of a row before they are rounded, which adds at most 64. Whatever of the products of
// two rows is added up, in any order, then stays within 32 bits: (46200 + 4 + 64)² < 2^31.
constexpr float kWideNorm = 46200.0f;

// A block of queries with documents. In units of a query's step, a document scores at most
//     factor · sum + bias · inverse + lean · pull + spread · size + (its panel's reach · residual + off · inverse)
// and is passed over where that is below the query's floor.
struct CoarseScan {
    const uint8_t* queries;  // [group][step][row][byte], groups filled up with zeros
    const int32_t* start;    // what takes back the 128 that documents' codes are raised by: one number
                             // per query, or two of 16 bits in one for each block of its steps
    size_t n_queries, steps;
    const float* factor;     // per document, padded to whole panels, as are the next two
    const float* spread;
    const float* bias;       // null where all of these and of the next are 0
    const float* lean;
    const float* reach;      // per panel, as is the next
    const float* off;
    const float* floor;      // per query, padded with +inf
    const float* ceiling;    // per query, padded with +inf, or null: what certainly reaches it is counted,
    int64_t* above;          // here, and not handed over
    const float* residual;   // per query, padded, as are the next three
    const float* size;
    const float* inverse;
    const float* pull;
    size_t from, to;         // the range of documents
    void* receiver;          // gets the sums of up to 32 documents from `first` on, those in the mask
    void (*receive)(void* receiver, size_t query, size_t first, const int32_t* sums, uint32_t mask);
    void (*expect)(void* receiver, size_t query);
};

// A document's tokens within one panel: rows from … to − 1.
struct TokenSegment {
    size_t panel, doc;
    size_t from, to;
    const float* mask;  // 0 in these rows and −inf in others; null where they are the whole panel
    bool last;          // whether the document ends here
};

// Tokens of queries with those of documents: the score of a query with a document grows by step · (largest factor · sum of a
// token) for each of the query's tokens.
struct TokenScan {
    const uint8_t* queries;  // as in CoarseScan, as are the next two
    const int32_t* start;
    size_t steps;
    const float* step;       // per token of a query, padded with 0, as are the next two
    const uint32_t* query;
    float* largest;          // so far, of the document that the last panels ended within
    const uint8_t* codes;    // of some panels, as is the next
    const float* factor;     // per token of a document
    const TokenSegment* segments;
    const TokenSegment* end;
    float* scores;           // [query][document]
    size_t n_docs;
};

// Products of codes of one width.
struct CoarseProduct {
    size_t columns;  // of a step
    CoarseLimits query_limits;
    size_t steps_in_16_bits;  // how many steps are summed up before sums are widened; 0: all are wide
    bool raised;  // whether products are of documents' codes as they are, raised by 128
    // One group of queries with some panels, whose codes are given; null where there is no such product.
    void (*scan)(const CoarseScan&, size_t group, const uint8_t* codes, size_t first_panel, size_t n_panels);
    // `codes` have the columns padded to whole steps.
    void (*quantise)(const float* rows, size_t count, size_t columns, Turn turn, CoarseLimits limits, const CoarseRows& out);
    // Codes of up to 32 rows in a panel; those beyond the last row are 0, and all are raised where they are of 8 bits.
    void (*fill_panel)(const uint8_t* codes, size_t count, size_t steps, uint8_t* panel);

    size_t steps(size_t n_columns) const { return (n_columns + columns - 1) / columns; }
    size_t panel_bytes(size_t n_columns) const { return kPanel * kStep * steps(n_columns); }
};

struct CoarseKernels {
    size_t query_rows;  // queries are padded to a multiple of this
    CoarseProduct narrow, wide;  // of 8 bits, and of 16
    void (*measure)(const float* rows, size_t count, size_t columns, const Measuring& measuring, size_t first);
    // query · row in float32, in some order, of pairs.
    void (*multiply)(const float* queries, const float* docs, size_t columns, const Pairs& pairs, float* products);
    void (*scan_tokens)(const TokenScan&, size_t group);  // of 8 bits
    // Products in float32 of kTokensTogether tokens, which lie column by column, with each row, and the largest of each token.
    void (*multiply_all)(const float* queries, const float* docs, size_t n_docs, size_t columns, float* products, float* largest);
    void (*square_rows)(const float* rows, size_t count, size_t columns, float* squares);  // square norms, about
};

const CoarseKernels& plain_coarse_kernels();
const CoarseKernels& avx2_coarse_kernels();
const CoarseKernels& avxvnni_coarse_kernels();
const CoarseKernels& avx512vnni_coarse_kernels();
const CoarseKernels& neon_coarse_kernels();

}  // namespace assay
