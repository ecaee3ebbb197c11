// Hamming distances for machines that count bits in 512-bit vectors (AVX-512 BITALG and BW).
#include <immintrin.h>

#include "hamming/words.hpp"

namespace assay::hamming {

namespace {

// Distances of 32 documents to eight queries, 16 bits each, all in registers.
inline void distances(const uint8_t* panel, const uint8_t* team, size_t n_words, __m512i sum[team_queries]) {
    for (size_t query = 0; query < team_queries; ++query) sum[query] = _mm512_setzero_si512();
    const auto* pairs = reinterpret_cast<const int32_t*>(team);
    for (size_t w = 0; w < n_words; ++w) {
        const __m512i docs = _mm512_loadu_si512(panel + w * panel_docs * 2);
        for (size_t query = 0; query < team_queries; ++query) {
            const __m512i differing = _mm512_xor_si512(docs, _mm512_set1_epi32(pairs[w * team_queries + query]));
            sum[query] = _mm512_add_epi16(sum[query], _mm512_popcnt_epi16(differing));
        }
    }
}

size_t compare(const uint8_t* panels, size_t at, size_t end, const uint8_t* team, size_t row_bytes, Comparison& comparison) {
    const size_t n_words = word_count(row_bytes);
    for (; at < end; ++at) {
        __m512i sum[team_queries];
        distances(panels + at * word_panel_bytes(row_bytes), team, n_words, sum);
        uint32_t any = 0;
        for (size_t query = 0; query < team_queries; ++query) {
            const __m512i limit = _mm512_set1_epi16(static_cast<int16_t>(comparison.limit[query]));
            const uint32_t mask = _mm512_cmple_epu16_mask(sum[query], limit) & comparison.enabled[query];
            comparison.candidates[query] = mask;
            any |= mask;
        }
        if (any == 0) continue;
        for (size_t query = 0; query < team_queries; ++query) _mm512_storeu_si512(comparison.distance[query], sum[query]);
        break;
    }
    return at;
}

}  // namespace

const Kernels& avx512_kernels() {
    static constexpr Kernels kernels{word_panel_bytes, word_team_bytes, pack_doc_words, pack_query_words, compare};
    return kernels;
}

}  // namespace assay::hamming
