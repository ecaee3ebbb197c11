// The layout by 16-bit words: word w of all 32 documents side by side, and word w of the eight
// queries, each twice in 32 bits so that one broadcast fills a vector. Every source that includes
// this has its own copy: code for one kind of machine must not stand in for that of another.
#pragma once

#include "hamming/kernels.hpp"

namespace assay::hamming {

namespace {

size_t word_count(size_t row_bytes) { return (row_bytes + 1) / 2; }
size_t word_panel_bytes(size_t row_bytes) { return word_count(row_bytes) * panel_docs * 2; }
size_t word_team_bytes(size_t row_bytes) { return word_count(row_bytes) * team_queries * 4; }

// Which byte is the upper one does not matter as long as all rows agree.
uint16_t word_at(const uint8_t* row, size_t w, size_t row_bytes) {
    const unsigned second = 2 * w + 1 < row_bytes ? row[2 * w + 1] : 0;
    return static_cast<uint16_t>(row[2 * w] | second << 8);
}

void pack_doc_words(const uint8_t* rows, size_t count, size_t row_bytes, uint8_t* panel) {
    auto* words = reinterpret_cast<uint16_t*>(panel);
    for (size_t w = 0; w < word_count(row_bytes); ++w) {
        for (size_t doc = 0; doc < panel_docs; ++doc) {
            words[w * panel_docs + doc] = doc < count ? word_at(rows + doc * row_bytes, w, row_bytes) : uint16_t{0};
        }
    }
}

void pack_query_words(const uint8_t* rows, size_t count, size_t row_bytes, uint8_t* team) {
    auto* pairs = reinterpret_cast<uint32_t*>(team);
    for (size_t w = 0; w < word_count(row_bytes); ++w) {
        for (size_t query = 0; query < team_queries; ++query) {
            const uint32_t word = query < count ? word_at(rows + query * row_bytes, w, row_bytes) : uint32_t{0};
            pairs[w * team_queries + query] = word | word << 16;
        }
    }
}

}  // namespace

}  // namespace assay::hamming
