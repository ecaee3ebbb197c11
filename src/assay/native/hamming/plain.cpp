// Hamming distances without vector instructions of any one machine; compilers vectorise the loops.
#include <cstring>

#include "hamming/words.hpp"

namespace assay::hamming {

namespace {

constexpr size_t quads = panel_docs / 4;  // 64 bits hold a word of four documents
constexpr size_t words_per_chunk = 31;  // 31 · 8 = 248 is the largest sum that fits a byte

constexpr uint64_t each_byte = 0x0101010101010101u;
constexpr uint64_t low_bytes = 0x00ff00ff00ff00ffu;

// The set bits of each byte, counted in fields of 2, 4 and 8 bits.
uint64_t byte_counts(uint64_t x) {
    x = x - (x >> 1 & 0x55 * each_byte);
    x = (x & 0x33 * each_byte) + (x >> 2 & 0x33 * each_byte);
    return (x + (x >> 4)) & 0x0f * each_byte;
}

void measure(const uint8_t* panel, const uint32_t* query, size_t n_words, uint16_t* distance) {
    uint64_t total[quads] = {};
    for (size_t from = 0; from < n_words; from += words_per_chunk) {
        const size_t end = from + words_per_chunk < n_words ? from + words_per_chunk : n_words;
        uint64_t sum[quads] = {};
        for (size_t w = from; w < end; ++w) {
            const uint64_t four_times = query[w * team_queries] * uint64_t{0x100000001};
            uint64_t docs[quads];
            std::memcpy(docs, panel + w * sizeof docs, sizeof docs);
            for (size_t i = 0; i < quads; ++i) sum[i] += byte_counts(docs[i] ^ four_times);
        }
        for (size_t i = 0; i < quads; ++i) total[i] += (sum[i] & low_bytes) + (sum[i] >> 8 & low_bytes);
    }
    std::memcpy(distance, total, sizeof total);
}

uint32_t within(const uint16_t* distance, uint16_t limit) {
    uint16_t any = 0;  // nearly always none, and this loop is vectorised
    for (size_t doc = 0; doc < panel_docs; ++doc) any = static_cast<uint16_t>(any | (distance[doc] <= limit));
    uint32_t mask = 0;
    for (size_t doc = 0; any != 0 && doc < panel_docs; ++doc) mask |= uint32_t{distance[doc] <= limit} << doc;
    return mask;
}

size_t compare(const uint8_t* panels, size_t at, size_t end, const uint8_t* team, size_t row_bytes, Comparison& comparison) {
    const size_t n_words = word_count(row_bytes);
    for (; at < end; ++at) {
        const uint8_t* panel = panels + at * word_panel_bytes(row_bytes);
        uint32_t any = 0;
        for (size_t query = 0; query < team_queries; ++query) {
            uint16_t* distance = comparison.distance[query];
            measure(panel, reinterpret_cast<const uint32_t*>(team) + query, n_words, distance);
            comparison.candidates[query] = within(distance, comparison.limit[query]) & comparison.enabled[query];
            any |= comparison.candidates[query];
        }
        if (any != 0) break;
    }
    return at;
}

}  // namespace

const Kernels& plain_kernels() {
    static constexpr Kernels kernels{word_panel_bytes, word_team_bytes, pack_doc_words, pack_query_words, compare};
    return kernels;
}

}  // namespace assay::hamming
