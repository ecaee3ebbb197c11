// MaxSim: the score of a query with a document is the sum, over the query's tokens, of the largest product with a token of
// the document. `find_tokens` computes it from 8 bits, with what bounds its error; `score_tokens` exactly.
// docs/exactness.md proves the bound.
#pragma once

#include <cstdint>

#include "search/coarse_search.hpp"

namespace assay {

// Ragged rows: the tokens of i are offsets[i] … offsets[i + 1] − 1.
struct TokenRows {
    const float* rows;
    size_t columns;
    const int64_t* offsets;
    size_t count;

    size_t n_rows() const { return static_cast<size_t>(offsets[count]); }
};

// Adds to scores[query][document − range.from], which hold 0. The score of a document whose tokens have norms up to n and
// residuals up to r is off by at most by_norm · n + by_residual · r.
void find_tokens(const TokenRows& queries, const float* signs, const uint8_t* panels, const float* steps, const int64_t* offsets, Range range,
                 float* scores, double* by_norm, double* by_residual, Control control);

// Each product is rounded once, and these are summed in the order of the query's tokens. Candidates of query q are
// candidates[pairs[q]] …; each has a token, and so has each query with candidates.
void score_tokens(const TokenRows& queries, const TokenRows& docs, const int64_t* pairs, const int64_t* candidates, double* scores,
                  const volatile int32_t* stop);

}  // namespace assay
