// Parses a TREC file that arrives in chunks. The result does not depend on how it was cut,
// nor on the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trec/column.hpp"
#include "trec/interner.hpp"
#include "trec/lines.hpp"

namespace assay {

class TrecParser {
public:
    // `expected` is how many bytes will arrive, as far as is known; nothing depends on it but memory's moves.
    explicit TrecParser(Layout layout, unsigned threads, uint64_t expected = 0);

    // These return false once a fault was found; later calls do nothing.
    bool feed(std::string_view chunk);
    bool finish();
    // Reads the lines that begin within these bytes of an open file; not to be mixed with `feed`.
    bool feed_file(int file, uint64_t begin, uint64_t end);

    Interner query_ids, doc_ids;
    Column<int32_t> queries, docs;
    Column<double> values;
    std::string tag;
    uint64_t rank_disagreements = 0;
    uint64_t rank_unreadable = 0;
    uint64_t overlong = 0;
    Fault fault;

private:
    void feed_slice(std::string_view chunk);
    void read_carry();
    void read_block(std::string_view block);
    template <class TextOf>
    void read_pieces(size_t count, TextOf text_of);
    void guess_docs(Lines& lines) const;
    void add(Lines& lines);
    void reserve(size_t read);
    int32_t code_of_query(std::string_view query);

    unsigned threads_;
    uint64_t expected_;
    std::string carry_;  // the beginning of a line whose end has not arrived
    bool at_start_ = true;
    uint64_t physical_ = 0;
    int32_t last_query_ = -1;
    RankMark last_mark_{};
    std::vector<LineReader> readers_;  // one for each thread
    std::vector<Lines> lines_;         // one for each piece that was not added yet
    std::vector<Column<char>> texts_;  // of these, where they come from a file
};

}  // namespace assay
