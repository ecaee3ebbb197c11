// The tie rule of the compiled kernels: score descending, then the tie-break ascending; -0.0 equals
// 0.0. No other file compares the scores of two documents. tie_order.py is the same in numpy, and
// assay/core/ranking.py says who uses both.
#pragma once

#include "trec/compiler.hpp"

namespace assay {

// Whether a score ranks before another one, whatever the tie-break says.
template <class Score>
ASSAY_INLINE bool scores_above(Score score, Score other) {
    return score > other;
}

// Whether two scores tie.
template <class Score>
ASSAY_INLINE bool scores_tie(Score score, Score other) {
    return score == other;
}

// Whether one document ranks before another: by score, and where these tie by the tie-break, which
// is mostly the document's number.
template <class Score, class Tiebreak>
ASSAY_INLINE bool ranks_before(Score score, Tiebreak tiebreak, Score other_score, Tiebreak other_tiebreak) {
    return !scores_tie(score, other_score) ? scores_above(score, other_score) : tiebreak < other_tiebreak;
}

}  // namespace assay
