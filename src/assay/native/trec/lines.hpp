// Reads whole lines of TREC text into columns; knows nothing of other pieces of the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trec/column.hpp"
#include "trec/interner.hpp"
#include "trec/number.hpp"

namespace assay {

constexpr size_t kMaxLine = 1 << 20;    // bytes before the line feed
constexpr size_t kFaultText = 400;      // bytes of the offending text that a report keeps

struct Layout {
    unsigned columns;
    unsigned value;  // the column of the score or grade
    bool run;        // has rank and tag
};
constexpr Layout kRun{6, 4, true};
constexpr Layout kQrels{4, 3, false};

struct Fault {
    const char* kind = nullptr;  // nullptr: no fault
    uint64_t line = 0;
    uint64_t columns = 0;        // how many the line has, for the kind "columns"
    std::string text;
};

// Rank and score of one line, to see whether the next line's contradict them.
struct RankMark {
    double rank;
    double score;
    bool readable;

    bool contradicts(const RankMark& next) const {
        if (!readable || !next.readable) return false;
        return (next.rank > rank && next.score > score) || (next.rank < rank && next.score < score);
    }
};

// Consecutive lines of one query.
struct QueryRun {
    std::string_view query;
    size_t first_row;
};

// The lines of a piece of text as columns. The views point into that text.
struct Lines {
    std::vector<QueryRun> runs;
    Column<std::string_view> docs;
    Column<int32_t> codes;  // of the documents, but for those at the `open` places
    Column<uint32_t> open;
    Column<double> values;
    std::string_view tag;
    RankMark first{}, last{};
    uint64_t rank_disagreements = 0;
    uint64_t rank_unreadable = 0;
    uint64_t overlong = 0;  // lines with text after the tag
    uint64_t physical = 0;  // lines of any sort
    Fault fault;

    void clear();
};

// Where delimiters are in a text, 64 bytes a word, and which bytes it holds beside these and plain ASCII.
struct TextScan {
    struct Word {
        uint64_t delimiters, feeds;  // spaces, tabs and line ends; line feeds alone
    };
    Column<Word> words;
    bool returns = false;   // carriage returns
    bool controls = false;  // other control characters
    bool high = false;      // bytes that are not ASCII

    void scan(std::string_view text);

    // Of the 64 bytes from a place on.
    static Word at(const Word* words, size_t place) {
        const Word *word = words + place / 64, *next = word + 1;
        const size_t skipped = place % 64, others = 63 - skipped;
        return {word->delimiters >> skipped | next->delimiters << 1 << others, word->feeds >> skipped | next->feeds << 1 << others};
    }
};

class LineReader {
public:
    explicit LineReader(Layout layout) : layout_(layout) {}

    // `text` ends with a line feed. Stops at the first fault.
    void read(std::string_view text, Lines& out);

private:
    static constexpr unsigned kColumns = 6;  // that are remembered; the rest are only counted

    struct Row {
        std::string_view query, doc, value, rank, tag;
    };

    template <unsigned count>
    bool find_far_ends(const char* line, const char* (&ends)[count]) const;
    template <bool run, class Numbers>
    bool read_plain_lines();
    template <bool run>
    bool read_widely();
    bool read_plain_lines();
    bool read_line();
    void start_line(const char* begin);
    void add_token(const char* end);
    bool end_line(const char* end);
    void split_again(const char* end);
    bool check_odd(std::string_view line);
    bool add_row(const Row& row);
    void add_rank(std::string_view rank, bool same_query, double score);
    bool report_number(NumberFault fault, std::string_view text);
    size_t readable(std::string_view text) const { return static_cast<size_t>(end_ - text.data()); }
    bool report(const char* kind, std::string_view text);

    Layout layout_;
    Lines* out_ = nullptr;
    TextScan scan_;
    std::vector<uint32_t> delimiters_;
    bool ascii_ = true;
    const char* begin_ = nullptr;  // of the text
    const char* line_ = nullptr;
    const char* end_ = nullptr;
    const char* token_ = nullptr;
    bool odd_ = false;  // the line holds a control character other than tab and the line end
    unsigned count_ = 0;
    std::string_view columns_[kColumns];
};

}  // namespace assay
