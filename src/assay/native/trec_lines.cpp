#include "trec_lines.hpp"

#include "hashing.hpp"
#include "number.hpp"
#include "stops.hpp"
#include "utf8.hpp"

namespace assay {

namespace {

constexpr unsigned kQuery = 0, kDoc = 2, kRank = 3, kTag = 5;

bool is_blank(char c) { return c == ' ' || c == '\t'; }

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
    values.clear();
    tag = {};
    rank_disagreements = rank_unreadable = overlong = physical = 0;
    fault = {};
}

// Does the next line have just the right columns, with one blank between them? Most have, and
// then the next stops are the ends of the columns.
template <unsigned count>
bool LineReader::is_plain_line(size_t at, size_t stops) {
    if (stops - at < count) return false;
    constexpr unsigned last = count - 1;
    const char* begin = line_;
    bool plain = *begin != '#';
    for (unsigned i = 0; i <= last; ++i) {
        const char* end = text_ + stops_[at + i];
        columns_[i] = {begin, static_cast<size_t>(end - begin)};
        plain &= end != begin && (i == last ? *end == '\n' : is_blank(*end));
        begin = end + 1;
    }
    return plain && static_cast<size_t>(begin - line_) <= kMaxLine;
}

void LineReader::read(std::string_view text, Lines& out) {
    out.clear();
    out_ = &out;
    if (stops_.size() < text.size()) stops_.resize(text.size());
    text_ = text.data();
    const size_t count = find_stops(text_, text.size(), stops_.data(), ascii_);
    start_line(text_);
    bool fine = true;
    for (size_t at = 0; fine && at < count;) {
        const bool plain = layout_.run ? is_plain_line<6>(at, count) : is_plain_line<4>(at, count);
        fine = plain ? read_plain_line(at) : read_line(at);
    }
}

bool LineReader::read_plain_line(size_t& at) {
    at += layout_.columns;
    const char* end = text_ + stops_[at - 1];
    const std::string_view line(line_, static_cast<size_t>(end - line_));
    ++out_->physical;
    if (!ascii_ && !is_utf8(line)) return report("utf8", line);
    line_ = token_ = end + 1;
    return add_row();
}

// Any line at all, stop by stop.
bool LineReader::read_line(size_t& at) {
    for (;; ++at) {
        const char* stop = text_ + stops_[at];
        add_token(stop);
        if (*stop == '\n') break;
        if (!is_blank(*stop) && (*stop != '\r' || stop[1] != '\n')) odd_ = true;
    }
    const char* end = text_ + stops_[at++];
    const bool fine = end_line(end);
    start_line(end + 1);
    return fine;
}

void LineReader::start_line(const char* begin) {
    line_ = token_ = begin;
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
    return add_row();
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

bool LineReader::add_row() {
    const std::string_view text = columns_[layout_.value];
    double value;
    const NumberFault fault = parse_number(text, value);
    if (fault == NumberFault::overflow) return report("overflow", text);
    if (fault == NumberFault::syntax) return report(names_no_number(text) ? "not_finite" : "number", text);
    const std::string_view query = columns_[kQuery], doc = columns_[kDoc];
    const bool same_query = !out_->runs.empty() && same_bytes(out_->runs.back().query, query);
    if (!same_query) out_->runs.push_back({query, out_->docs.size()});
    if (layout_.run) add_rank(same_query, value);
    out_->docs.push_back({doc, hash_bytes(doc)});
    out_->values.push_back(value);
    return true;
}

void LineReader::add_rank(bool same_query, double score) {
    RankMark mark;
    mark.score = score;
    mark.readable = parse_number(columns_[kRank], mark.rank) == NumberFault::none;
    if (!mark.readable) ++out_->rank_unreadable;
    if (same_query && out_->last.contradicts(mark)) ++out_->rank_disagreements;
    if (out_->docs.empty()) out_->first = mark;
    out_->last = mark;
    out_->tag = columns_[kTag];
}

bool LineReader::report(const char* kind, std::string_view text) {
    out_->fault.kind = kind;
    out_->fault.line = out_->physical;
    out_->fault.text = text.substr(0, kFaultText);
    return false;
}

}  // namespace assay
