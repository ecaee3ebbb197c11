#include "trec/parser.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "trec/parallel.hpp"

namespace assay {

namespace {

constexpr size_t kPiece = 128 << 10;  // bytes that one thread reads at a time; fits its cache
constexpr size_t kSlice = 16 << 20;   // places within a slice fit 32 bits, with room to spare
constexpr size_t kNumbered = 8;       // bytes of a file for each number that ids may be looked up by
constexpr std::string_view kBom = "\xEF\xBB\xBF";

// Cuts whole lines into pieces of about kPiece bytes, each of whole lines.
std::vector<std::string_view> cut_lines(std::string_view block) {
    std::vector<std::string_view> pieces;
    while (!block.empty()) {
        size_t end = block.size();
        if (end > kPiece) end = block.find('\n', kPiece) + 1;
        pieces.push_back(block.substr(0, end));
        block.remove_prefix(end);
    }
    return pieces;
}

// The pieces that were read. Who waits for one sleeps: the processor may be needed for reading it.
class ReadPieces {
public:
    explicit ReadPieces(size_t count) : read_(count, false) {}

    void mark(size_t piece) {
        {
            const std::lock_guard<std::mutex> guard(mutex_);
            read_[piece] = true;
        }
        marked_.notify_one();
    }

    bool holds(size_t piece) {
        const std::lock_guard<std::mutex> guard(mutex_);
        return read_[piece];
    }

    void wait_for(size_t piece) {
        std::unique_lock<std::mutex> lock(mutex_);
        marked_.wait(lock, [&] { return read_[piece]; });
    }

private:
    std::mutex mutex_;
    std::condition_variable marked_;
    std::vector<bool> read_;
};

// Also marks a piece whose reading threw, so that nobody waits for it.
struct MarkRead {
    ReadPieces& pieces;
    size_t piece;
    ~MarkRead() { pieces.mark(piece); }
};

}  // namespace

TrecParser::TrecParser(Layout layout, unsigned threads, uint64_t expected)
    : query_ids(expected / kNumbered), doc_ids(expected / kNumbered), threads_(threads), expected_(expected) {
    for (unsigned i = 0; i < threads; ++i) readers_.emplace_back(layout);
}

bool TrecParser::feed(std::string_view chunk) {
    while (fault.kind == nullptr && !chunk.empty()) {
        const std::string_view slice = chunk.substr(0, kSlice);
        feed_slice(slice);
        chunk.remove_prefix(slice.size());
    }
    return fault.kind == nullptr;
}

void TrecParser::feed_slice(std::string_view chunk) {
    if (!carry_.empty()) {
        const size_t end = std::min(chunk.find('\n'), chunk.size() - 1) + 1;
        carry_.append(chunk.substr(0, end));
        chunk.remove_prefix(end);
        // A line too long is refused before its end arrives, so that memory stays bounded.
        if (carry_.back() == '\n' || carry_.size() > kMaxLine + kBom.size()) read_carry();
    }
    const size_t whole = chunk.rfind('\n') + 1;  // npos + 1 is 0
    if (whole != 0) read_block(chunk.substr(0, whole));
    carry_.append(chunk.substr(whole));
    if (carry_.size() > kMaxLine + kBom.size()) read_carry();
}

bool TrecParser::finish() {
    if (!carry_.empty()) read_carry();
    return fault.kind == nullptr;
}

void TrecParser::read_carry() {
    if (carry_.back() != '\n') carry_.push_back('\n');
    read_block(carry_);
    carry_.clear();
}

void TrecParser::read_block(std::string_view block) {
    if (fault.kind != nullptr) return;
    if (at_start_ && block.substr(0, kBom.size()) == kBom) block.remove_prefix(kBom.size());
    at_start_ = false;
    const std::vector<std::string_view> pieces = cut_lines(block);
    if (lines_.size() < pieces.size()) lines_.resize(pieces.size());
    read_pieces(pieces);
    reserve(block.size());
}

// After the first lines: room for as many as the rest will hold if they are like these, and some more.
void TrecParser::reserve(size_t read) {
    const double lines = static_cast<double>(docs.size()) / static_cast<double>(read) * static_cast<double>(expected_);
    if (docs.size() == 0 || lines > 1e12) return;
    const auto capacity = static_cast<size_t>(1.02 * lines);
    queries.reserve(capacity);
    docs.reserve(capacity);
    values.reserve(capacity);
    expected_ = 0;
}

// All threads read pieces; this one also adds what is ready, strictly in order.
void TrecParser::read_pieces(const std::vector<std::string_view>& pieces) {
    const size_t count = pieces.size();
    std::atomic<size_t> next{0};
    ReadPieces read(count);
    const auto read_piece = [&](unsigned thread) {
        const size_t i = next.fetch_add(1);
        if (i >= count) return false;
        const MarkRead mark{read, i};
        readers_[thread].read(pieces[i], lines_[i]);
        guess_docs(lines_[i]);
        return true;
    };
    const unsigned threads = static_cast<unsigned>(std::min<size_t>(threads_, count));
    run_together(threads, [&](unsigned thread) {
        if (thread != 0) {
            while (read_piece(thread)) {}
            return;
        }
        for (size_t i = 0; i < count; ++i) {
            while (!read.holds(i) && read_piece(0)) {}
            read.wait_for(i);
            add(lines_[i]);
        }
    });
    doc_ids.settle();
}

void TrecParser::guess_docs(Lines& lines) const {
    const size_t count = lines.docs.size();
    doc_ids.guess(lines.docs.data(), count, lines.codes.extend(count), lines.open);
}

void TrecParser::add(Lines& lines) {
    if (fault.kind != nullptr) return;
    if (lines.fault.kind != nullptr) {
        fault = lines.fault;
        fault.line += physical_;
        return;
    }
    physical_ += lines.physical;
    if (lines.docs.size() == 0) return;
    const int32_t query_before = last_query_;
    for (size_t i = 0; i < lines.runs.size(); ++i) {
        const size_t first = lines.runs[i].first_row;
        const size_t end = i + 1 < lines.runs.size() ? lines.runs[i + 1].first_row : lines.docs.size();
        last_query_ = code_of_query(lines.runs[i].query);
        std::fill_n(queries.extend(end - first), end - first, last_query_);
        if (i == 0 && last_query_ == query_before && last_mark_.contradicts(lines.first)) ++rank_disagreements;
    }
    doc_ids.complete(lines.docs.data(), lines.codes.data(), lines.open);
    docs.append(lines.codes.data(), lines.codes.size());
    values.append(lines.values.data(), lines.values.size());
    tag = lines.tag;
    last_mark_ = lines.last;
    rank_disagreements += lines.rank_disagreements;
    rank_unreadable += lines.rank_unreadable;
    overlong += lines.overlong;
}

int32_t TrecParser::code_of_query(std::string_view query) {
    return query_ids.intern(query);
}

}  // namespace assay
