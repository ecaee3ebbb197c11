#include "trec/lines.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#if defined(ASSAY_X86_KERNELS)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "search/cpu.hpp"
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

// The words of a scan, and the kinds of bytes that were met.
struct Kinds {
    bool returns, controls, high;
};

#if defined(__SSE2__)

inline Kinds scan_blocks(const char* p, size_t blocks, TextScan::Word* words) {
    const __m128i space = _mm_set1_epi8(' '), tab = _mm_set1_epi8('\t'), feed = _mm_set1_epi8('\n'), back = _mm_set1_epi8('\r');
    __m128i returns = _mm_setzero_si128(), controls = returns, high = returns;
    for (size_t block = 0; block < blocks; ++block) {
        TextScan::Word word{0, 0};
        for (int i = 0; i < 64; i += 16, p += 16) {
            const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
            const __m128i feeds = _mm_cmpeq_epi8(bytes, feed), backs = _mm_cmpeq_epi8(bytes, back);
            const __m128i ends = _mm_or_si128(_mm_or_si128(feeds, backs), _mm_cmpeq_epi8(bytes, tab));
            word.feeds |= static_cast<uint64_t>(_mm_movemask_epi8(feeds)) << i;
            word.delimiters |= static_cast<uint64_t>(_mm_movemask_epi8(_mm_or_si128(ends, _mm_cmpeq_epi8(bytes, space)))) << i;
            returns = _mm_or_si128(returns, backs);
            high = _mm_or_si128(high, bytes);
            controls = _mm_or_si128(controls, _mm_andnot_si128(_mm_or_si128(ends, bytes), _mm_cmplt_epi8(bytes, space)));
        }
        words[block] = word;
    }
    return {_mm_movemask_epi8(returns) != 0, _mm_movemask_epi8(controls) != 0, _mm_movemask_epi8(high) != 0};
}

#else

inline Kinds scan_blocks(const char* p, size_t blocks, TextScan::Word* words) {
    Kinds kinds{false, false, false};
    for (size_t block = 0; block < blocks; ++block, p += 64) {
        const ByteMask mask = mask64(p);
        kinds.high = kinds.high || mask.high != 0;
        words[block] = {mask.delimiters, 0};
        for (uint64_t left = mask.delimiters; left != 0; left &= left - 1) {
            const char c = p[lowest_bit(left)];
            if (c == '\n') words[block].feeds |= left & (~left + 1);
            else if (c == '\r') kinds.returns = true;
            else if (c != ' ' && c != '\t') kinds.controls = true;
        }
    }
    return kinds;
}

#endif

#if defined(ASSAY_X86_KERNELS)

__attribute__((target("avx512f,avx512bw"))) Kinds scan_wide_blocks(const char* p, size_t blocks, TextScan::Word* words) {
    const __m512i space = _mm512_set1_epi8(' '), tab = _mm512_set1_epi8('\t'), feed = _mm512_set1_epi8('\n'), back = _mm512_set1_epi8('\r');
    uint64_t returns = 0, controls = 0, high = 0;
    for (size_t block = 0; block < blocks; ++block, p += 64) {
        const __m512i bytes = _mm512_loadu_si512(p);
        const uint64_t feeds = _mm512_cmpeq_epi8_mask(bytes, feed), backs = _mm512_cmpeq_epi8_mask(bytes, back);
        const uint64_t low = _mm512_cmple_epu8_mask(bytes, space);
        words[block] = {low, feeds};
        returns |= backs;
        high |= _mm512_movepi8_mask(bytes);
        controls |= low ^ (feeds | backs | _mm512_cmpeq_epi8_mask(bytes, tab) | _mm512_cmpeq_epi8_mask(bytes, space));
    }
    return {returns != 0, controls != 0, high != 0};
}

#endif

inline Kinds scan_widest(const char* p, size_t blocks, TextScan::Word* words) {
#if defined(ASSAY_X86_KERNELS)
    static const bool wide = selected_simd() == Simd::avx512;
    if (wide) return scan_wide_blocks(p, blocks, words);
#endif
    return scan_blocks(p, blocks, words);
}

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

void TextScan::scan(std::string_view text) {
    const size_t blocks = text.size() / 64, left = text.size() % 64;
    words.clear();
    Word* word = words.extend(blocks + 2);
    Kinds kinds = scan_widest(text.data(), blocks, word);
    char tail[64];
    std::memset(tail, 'x', sizeof tail);
    std::memcpy(tail, text.data() + 64 * blocks, left);
    const Kinds last = scan_widest(tail, 1, word + blocks);
    word[blocks + 1] = {0, 0};
    returns = kinds.returns || last.returns;
    controls = kinds.controls || last.controls;
    high = kinds.high || last.high;
}

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

void LineReader::add_rank(std::string_view rank, bool same_query, double score) {
    RankMark mark{0, score, false};
    mark.readable = parse_number(rank, readable(rank), mark.rank) == NumberFault::none;
    out_->rank_unreadable += !mark.readable;
    out_->rank_disagreements += same_query && out_->last.contradicts(mark);
    out_->last = mark;
    if (out_->docs.size() == 0) out_->first = mark;
}

bool LineReader::add_row(const Row& row) {
    double value;
    const NumberFault fault = parse_number(row.value, readable(row.value), value);
    if (fault != NumberFault::none) return report_number(fault, row.value);
    const bool same_query = !out_->runs.empty() && same_bytes(out_->runs.back().query, row.query);
    if (!same_query) out_->runs.push_back({row.query, out_->docs.size()});
    if (layout_.run) {
        add_rank(row.rank, same_query, value);
        out_->tag = row.tag;
    }
    out_->docs.push_back(row.doc);
    out_->values.push_back(value);
    return true;
}

// The ends of the columns of a line of up to 64 bytes before the line feed at `end`, if it has just the right ones with
// one blank between them.
template <unsigned count>
ASSAY_INLINE bool find_ends(const TextScan::Word& mask, const char* line, const char* end, const char* (&ends)[count]) {
    const uint64_t feed = mask.feeds & (~mask.feeds + 1);
    uint64_t left = mask.delimiters & (feed | (feed - 1)), last = left;
    for (unsigned i = 1; i < count; ++i) last &= last - 1;
    if (last != feed || (left & (left << 1 | 1)) != 0) return false;
    for (unsigned i = 0; i + 1 < count; ++i) {
        ends[i] = line + lowest_bit(left);
        left &= left - 1;
    }
    ends[count - 1] = end;
    return true;
}

// The same for longer lines and those that end with a carriage return and a line feed.
template <unsigned count>
bool LineReader::find_far_ends(const char* line, const char* (&ends)[count]) const {
    const char *begin = line, **end = ends;
    for (size_t skipped = 0; skipped < 256 && line + skipped < end_; skipped += 64) {
        uint64_t left = TextScan::at(scan_.words.data(), static_cast<size_t>(line - begin_) + skipped).delimiters;
        for (; left != 0; left &= left - 1) {
            const char* p = line + skipped + lowest_bit(left);
            const bool is_last = end == ends + count - 1;
            if (p == begin || !(is_last ? ends_line(p) : is_blank(*p))) return false;
            *end++ = p;
            if (is_last) return true;
            begin = p + 1;
        }
    }
    return false;
}

// Reads plain lines, as most are, up to one that is not, looking at nothing twice. All is one function, so that what it
// counts stays in registers.
template <bool run, class Numbers>
ASSAY_INLINE bool LineReader::read_plain_lines() {
    constexpr Layout layout = run ? kRun : kQrels;
    Lines& out = *out_;
    std::string_view* const first = out.docs.data() + out.docs.size();
    std::string_view* doc = first;
    double* value = out.values.data() + out.values.size();
    std::string_view query = out.runs.empty() ? std::string_view() : out.runs.back().query, tag = out.tag;
    RankMark last = out.last;
    const char* line = line_;
    uint64_t disagreements = 0, unreadable = 0;
    const auto keep = [&] {
        const auto rows = static_cast<size_t>(doc - first);
        line_ = line;
        out.physical += rows;
        out.docs.extend(rows);
        out.values.extend(rows);
        out.tag = tag;
        out.last = last;
        out.rank_disagreements += disagreements;
        out.rank_unreadable += unreadable;
    };
    // Copies, since what is written below might be these for all that the compiler knows.
    const TextScan::Word* const words = scan_.words.data();
    const char *const begin = begin_, *const past = end_ - kMask - kShortNumber;
    const bool returns = scan_.returns, high = scan_.high;
    while (line <= past && *line != '#') {
        const TextScan::Word mask = TextScan::at(words, static_cast<size_t>(line - begin));
        // Where the next line begins is known first, so that it need not wait for all that follows.
        const char* end = mask.feeds == 0 ? line : line + lowest_bit(mask.feeds);
        const char* ends[layout.columns];
        if (end == line || returns || !find_ends(mask, line, end, ends)) {
            const char* far[layout.columns];
            if (!find_far_ends(line, far) || static_cast<size_t>(end_ - far[layout.columns - 1]) < kShortNumber) break;
            std::copy_n(far, layout.columns, ends);
            end = ends[layout.columns - 1];
        }
        const auto column = [&](unsigned i) { return between(i == 0 ? line : ends[i - 1] + 1, ends[i]); };
        if (high && !is_utf8(between(line, end))) break;
        double number;
        if (!Numbers::parse(column(layout.value), number) && parse_long(column(layout.value), number) != NumberFault::none) break;
        const bool same_query = same_bytes(query, column(kQuery));  // the first line's is another: it is not empty
        if (run) {
            double rank = 0;
            uint64_t digits;
            bool is_number = true;
            if (first_byte_is_lowest() && column(kRank).size() <= 8 && read_digits(column(kRank).data(), column(kRank).size(), digits)) {
                rank = static_cast<double>(static_cast<int64_t>(digits));
            } else {
                is_number = parse_long(column(kRank), rank) == NumberFault::none;
                unreadable += !is_number;
            }
            const RankMark mark{rank, number, is_number};
            disagreements += same_query && last.contradicts(mark);
            last = mark;
            tag = column(kTag);
            if (!same_query && out.runs.empty()) out.first = mark;
        }
        if (!same_query) {
            query = column(kQuery);
            out.runs.push_back({query, static_cast<size_t>(doc - out.docs.data())});
        }
        *doc++ = column(kDoc);
        *value++ = number;
        line = end + (returns && *end == '\r' ? 2 : 1);
    }
    keep();
    return line_ != end_;
}

#if defined(ASSAY_X86_KERNELS)

template <bool run>
__attribute__((target("avx2,bmi,bmi2"), flatten)) bool LineReader::read_widely() {
    return read_plain_lines<run, WideNumbers>();
}

#endif

bool LineReader::read_plain_lines() {
#if defined(ASSAY_X86_KERNELS)
    static const bool wide = selected_simd() != Simd::none;
    if (wide) return layout_.run ? read_widely<true>() : read_widely<false>();
#endif
    return layout_.run ? read_plain_lines<true, NarrowNumbers>() : read_plain_lines<false, NarrowNumbers>();
}

void LineReader::read(std::string_view text, Lines& out) {
    out.clear();
    out_ = &out;
    begin_ = line_ = text.data();
    end_ = line_ + text.size();
    scan_.scan(text);
    const size_t most = text.size() / (2 * layout_.columns) + 1;  // lines with a byte in each column
    out.docs.extend(most), out.docs.clear();
    out.values.extend(most), out.values.clear();
    while (line_ != end_) {
        if (!scan_.controls && !read_plain_lines()) return;
        if (!read_line()) return;
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
    return add_row(row);
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
