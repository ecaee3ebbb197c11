#include "trec_lines.hpp"

#include <cstring>

#include "hashing.hpp"
#include "number.hpp"
#include "stops.hpp"
#include "utf8.hpp"

namespace assay {

namespace {

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
        if (mask.stops == 0) {
            if (base != line_) return false;
            mask = mask64(base += kMask);
            ascii_ = ascii_ && mask.high == 0;
            if (mask.stops == 0) return false;
        }
        *end = base + lowest_bit(mask.stops);
        mask.stops &= mask.stops - 1;
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

// Any line at all, stop by stop.
bool LineReader::read_line() {
    const auto left = static_cast<size_t>(end_ - line_);
    const char* end = static_cast<const char*>(std::memchr(line_, '\n', left));
    const auto size = static_cast<size_t>(end + 1 - line_);
    if (stops_.size() < size) stops_.resize(size);
    const size_t count = find_stops(line_, size, left, stops_.data(), ascii_);
    start_line(line_);
    for (size_t at = 0; at < count; ++at) {
        const char* stop = line_ + stops_[at];
        add_token(stop);
        if (!is_blank(*stop) && !ends_line(stop)) odd_ = true;
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
        if (count_ < kKept) columns_[count_] = {token_, static_cast<size_t>(end - token_)};
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
        out_->fault.found = count_;
        return report("columns", line);
    }
    out_->overlong += count_ > layout_.columns;
    const Row row{columns_[kQuery], columns_[kDoc], columns_[layout_.value], columns_[kRank], columns_[kTag]};
    return layout_.run ? add_row<true>(row) : add_row<false>(row);
}

// Only space and tab separate columns, though every control character is a stop.
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
