#include "trec/lines.hpp"

#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "trec/compiler.hpp"
#include "trec/hashing.hpp"
#include "trec/number.hpp"

namespace assay {

namespace {

// Every byte that can end a column is a delimiter: space, tab, line end and the other control characters.
constexpr size_t kMask = 64;  // bytes looked at together

struct ByteMask {
    uint64_t delimiters;  // bit i: byte i is <= 0x20
    uint64_t high;        // non-zero: some byte is >= 0x80, so the text is not ASCII
};

#if defined(__SSE2__)

inline ByteMask mask64(const char* p) {
    ByteMask mask{0, 0};
    const __m128i blank = _mm_set1_epi8(0x20);
    __m128i all = _mm_setzero_si128();
    for (int i = 0; i < 4; ++i) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * i));
        const __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(bytes, blank), bytes);
        mask.delimiters |= static_cast<uint64_t>(_mm_movemask_epi8(low)) << (16 * i);
        all = _mm_or_si128(all, bytes);
    }
    mask.high = static_cast<uint64_t>(_mm_movemask_epi8(all));
    return mask;
}

#else

// Eight bytes at a time in one word. (b & 0x7f) + 0x5f reaches 0x80 exactly when b > 0x20.
inline ByteMask mask64(const char* p) {
    constexpr uint64_t ones = 0x0101010101010101u;
    ByteMask mask{0, 0};
    for (int i = 0; i < 8; ++i) {
        uint64_t word = 0;
        for (int b = 7; b >= 0; --b) word = word << 8 | static_cast<unsigned char>(p[8 * i + b]);
        const uint64_t low = ~(((word & 0x7f * ones) + 0x5f * ones) | word) & 0x80 * ones;
        mask.delimiters |= ((low >> 7) * 0x0102040810204080u >> 56) << (8 * i);
        mask.high |= word & 0x80 * ones;
    }
    return mask;
}

#endif

// Writes the places of all delimiters to `places` (room for `size` of them) and returns their number;
// `ascii` tells whether every byte is ASCII, as far as `readable` bytes show it.
inline size_t find_delimiters(const char* text, size_t size, size_t readable, uint32_t* places, bool& ascii) {
    uint32_t* place = places;
    uint64_t high = 0;
    for (size_t at = 0; at < size; at += kMask) {
        char tail[kMask];
        const char* block = text + at;
        if (readable - at < kMask) {
            std::memset(tail, 'x', kMask);
            std::memcpy(tail, block, readable - at);
            block = tail;
        }
        ByteMask mask = mask64(block);
        if (size - at < kMask) mask.delimiters &= (uint64_t{1} << (size - at)) - 1;
        high |= mask.high;
        for (uint64_t bits = mask.delimiters; bits != 0; bits &= bits - 1) {
            *place++ = static_cast<uint32_t>(at) + static_cast<uint32_t>(lowest_bit(bits));
        }
    }
    ascii = high == 0;
    return static_cast<size_t>(place - places);
}

// Valid UTF-8 by Unicode's table 3-7, the rule that Python applies.
// The size of the character at `p`, or 0 if there is no valid one.
inline size_t utf8_size(const unsigned char* p, size_t left) {
    const unsigned char lead = p[0];
    if (lead < 0x80) return 1;
    const size_t size = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (size == 0 || size > left) return 0;
    // The second byte excludes overlong forms, surrogates and what lies beyond U+10FFFF.
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < size; ++i) {
        if ((p[i] & 0xC0) != 0x80) return 0;
    }
    return size;
}

inline bool is_utf8(std::string_view text) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    for (size_t at = 0; at < text.size();) {
        const size_t size = utf8_size(bytes + at, text.size() - at);
        if (size == 0) return false;
        at += size;
    }
    return true;
}

constexpr unsigned kQuery = 0, kDoc = 2, kRank = 3, kTag = 5;

bool is_blank(char c) { return c == ' ' || c == '\t'; }
std::string_view between(const char* begin, const char* end) { return {begin, static_cast<size_t>(end - begin)}; }
bool ends_line(const char* p) { return *p == '\n' || (*p == '\r' && p[1] == '\n'); }

// nan, inf or infinity in any case, with or without a sign.
bool names_no_number(std::string_view text) {
    if (!text.empty() && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
    std::string lower(text);
    for (char& c : lower) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    }
    return lower == "nan" || lower == "inf" || lower == "infinity";
}

}  // namespace

void Lines::clear() {
    runs.clear();
    docs.clear();
    codes.clear();
    open.clear();
    values.clear();
    tag = {};
    rank_disagreements = rank_unreadable = overlong = physical = 0;
    fault = {};
}

ASSAY_INLINE void LineReader::add_rank(const Row& row, bool same_query, double score) {
    double rank = 0;
    const bool is_number = parse_number(row.rank, readable(row.rank), rank) == NumberFault::none;
    RankMark& last = out_->last;
    if (!is_number) ++out_->rank_unreadable;
    if (same_query && last.contradicts({rank, score, is_number})) ++out_->rank_disagreements;
    last.rank = rank;  // each by itself: a mark read back in one piece would be waited for
    last.score = score;
    last.readable = is_number;
    if (out_->docs.size() == 0) out_->first = last;
    out_->tag = row.tag;
}

template <bool run>
ASSAY_INLINE bool LineReader::add_row(const Row& row) {
    double value;
    const NumberFault fault = parse_number(row.value, readable(row.value), value);
    if (fault != NumberFault::none) return report_number(fault, row.value);
    const bool same_query = !out_->runs.empty() && same_bytes(out_->runs.back().query, row.query);
    if (!same_query) out_->runs.push_back({row.query, out_->docs.size()});
    if (run) add_rank(row, same_query, value);
    HashedId* doc = out_->docs.extend(1);  // written in place: read back in one piece it would be waited for
    doc->text = row.doc;
    doc->hash = hash_bytes(row.doc);
    *out_->values.extend(1) = value;
    return true;
}

// The ends of the columns, if the next line has just the right ones, with one blank between them, all within a few
// words.
template <unsigned count>
ASSAY_INLINE bool LineReader::find_ends(const char* (&ends)[count]) {
    constexpr unsigned last = count - 1;
    ByteMask mask = mask64(line_);
    ascii_ = mask.high == 0;
    bool plain = *line_ != '#';
    for (const char *begin = line_, *base = line_, **end = ends; end <= ends + last; ++end) {
        if (mask.delimiters == 0) {
            if (base != line_) return false;
            mask = mask64(base += kMask);
            ascii_ = ascii_ && mask.high == 0;
            if (mask.delimiters == 0) return false;
        }
        *end = base + lowest_bit(mask.delimiters);
        mask.delimiters &= mask.delimiters - 1;
        plain &= *end != begin && (end == ends + last ? ends_line(*end) : is_blank(**end));
        begin = *end + 1;
    }
    return plain;
}

// Reads plain lines, as most are, up to one that is not, looking at nothing twice. All is one function, so that
// columns stay in registers.
template <bool run>
bool LineReader::read_plain_lines() {
    constexpr Layout layout = run ? kRun : kQrels;
    const char* ends[layout.columns];
    while (static_cast<size_t>(end_ - line_) >= 2 * kMask + kShortNumber && find_ends(ends)) {
        const char *begin = line_, *end = ends[layout.columns - 1];
        ++out_->physical;
        const std::string_view line = between(begin, end);
        if (!ascii_ && !is_utf8(line)) return report("utf8", line);
        line_ = end + (*end == '\r' ? 2 : 1);
        const auto column = [&](unsigned i) { return between(i == 0 ? begin : ends[i - 1] + 1, ends[i]); };
        const Row row{column(kQuery), column(kDoc), column(layout.value), run ? column(kRank) : "", run ? column(kTag) : ""};
        if (!add_row<run>(row)) return false;
    }
    return true;
}

void LineReader::read(std::string_view text, Lines& out) {
    out.clear();
    out_ = &out;
    line_ = text.data();
    end_ = line_ + text.size();
    for (bool fine = true; fine && line_ != end_;) {
        fine = layout_.run ? read_plain_lines<true>() : read_plain_lines<false>();
        if (fine && line_ != end_) fine = read_line();
    }
}

// Any line at all, delimiter by delimiter.
bool LineReader::read_line() {
    const auto left = static_cast<size_t>(end_ - line_);
    const char* end = static_cast<const char*>(std::memchr(line_, '\n', left));
    const auto size = static_cast<size_t>(end + 1 - line_);
    if (delimiters_.size() < size) delimiters_.resize(size);
    const size_t count = find_delimiters(line_, size, left, delimiters_.data(), ascii_);
    start_line(line_);
    for (size_t at = 0; at < count; ++at) {
        const char* delimiter = line_ + delimiters_[at];
        add_token(delimiter);
        if (!is_blank(*delimiter) && !ends_line(delimiter)) odd_ = true;
    }
    const bool fine = end_line(end);
    line_ = end + 1;
    return fine;
}

void LineReader::start_line(const char* begin) {
    token_ = begin;
    odd_ = false;
    count_ = 0;
}

void LineReader::add_token(const char* end) {
    if (end != token_) {
        if (count_ < kColumns) columns_[count_] = {token_, static_cast<size_t>(end - token_)};
        ++count_;
    }
    token_ = end + 1;
}

// False if the line is at fault.
bool LineReader::end_line(const char* end) {
    std::string_view line(line_, static_cast<size_t>(end - line_));
    ++out_->physical;
    if (line.size() > kMaxLine) return report("too_long", line);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (odd_) split_again(line.data() + line.size());
    if (count_ == 0 || columns_[kQuery][0] == '#') return true;
    if (odd_ && !check_odd(line)) return false;
    if (!ascii_ && !is_utf8(line)) return report("utf8", line);
    if (count_ < layout_.columns || (count_ > layout_.columns && !layout_.run)) {
        out_->fault.columns = count_;
        return report("columns", line);
    }
    out_->overlong += count_ > layout_.columns;
    const Row row{columns_[kQuery], columns_[kDoc], columns_[layout_.value], columns_[kRank], columns_[kTag]};
    return layout_.run ? add_row<true>(row) : add_row<false>(row);
}

// Only space and tab separate columns, though every control character is a delimiter.
void LineReader::split_again(const char* end) {
    start_line(line_);
    odd_ = true;
    for (const char* p = line_; p != end; ++p) {
        if (is_blank(*p)) add_token(p);
    }
    add_token(end);
}

bool LineReader::check_odd(std::string_view line) {
    if (line.find('\0') != std::string_view::npos) return report("nul", line);
    if (line.find_first_of("\r\v\f") != std::string_view::npos) return report("white_space", line);
    return true;
}

bool LineReader::report_number(NumberFault fault, std::string_view text) {
    if (fault == NumberFault::overflow) return report("overflow", text);
    return report(names_no_number(text) ? "not_finite" : "number", text);
}

bool LineReader::report(const char* kind, std::string_view text) {
    out_->fault.kind = kind;
    out_->fault.line = out_->physical;
    out_->fault.text = text.substr(0, kFaultText);
    return false;
}

}  // namespace assay
