#include "trec/parser.hpp"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>
#if defined(_WIN32)
#include <io.h>
#include <windows.h>
#else
#include <unistd.h>
#endif

#include "trec/parallel.hpp"

namespace assay {

namespace {

constexpr size_t kPiece = 128 << 10;  // bytes that one thread reads at a time; fits its cache
constexpr size_t kSlice = 16 << 20;   // places within a slice fit 32 bits, with room to spare
constexpr std::string_view kBom = "\xEF\xBB\xBF";

// As many bytes at a place of a file as there are, and as `size` allows.
size_t read_at(int file, uint64_t place, char* bytes, size_t size) {
    size_t done = 0;
    while (done < size) {
#if defined(_WIN32)
        OVERLAPPED at{};
        at.Offset = static_cast<DWORD>(place + done);
        at.OffsetHigh = static_cast<DWORD>((place + done) >> 32);
        DWORD count = 0;
        const auto handle = reinterpret_cast<HANDLE>(_get_osfhandle(file));
        if (!ReadFile(handle, bytes + done, static_cast<DWORD>(size - done), &count, &at) && GetLastError() != ERROR_HANDLE_EOF)
            throw std::system_error(EIO, std::generic_category());
#else
        const ssize_t count = pread(file, bytes + done, size - done, static_cast<off_t>(place + done));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) throw std::system_error(errno, std::generic_category());
#endif
        if (count == 0) break;
        done += static_cast<size_t>(count);
    }
    return done;
}

// The lines of a file that begin from `begin` to `end` - 1, read into `text`. The last one ends with a line feed, which
// is added at the end of the file and where a line becomes too long.
std::string_view read_lines_at(int file, uint64_t begin, uint64_t end, Column<char>& text) {
    constexpr size_t most = kMaxLine + 8;  // beyond a line that is still read, and a mark before it
    size_t tail = 4 << 10;
    const uint64_t first = begin == 0 ? 0 : begin - 1;  // the line feed before the first line may be there
    const auto size = static_cast<size_t>(end - first);
    for (;; tail = std::min(16 * tail, most)) {
        text.clear();
        char* const bytes = text.extend(size + tail + 1);
        const size_t count = read_at(file, first, bytes, size + tail);
        const std::string_view all(bytes, count);
        const size_t start = begin == 0 ? 0 : all.find('\n') + 1;
        if ((start == 0 && begin != 0) || start >= std::min(size, count)) return {};
        size_t stop = all.find('\n', size - 1) + 1;
        if (stop == 0 && count == size + tail && tail < most) continue;
        if (stop == 0) bytes[stop = count] = '\n', ++stop;
        return {bytes + start, stop - start};
    }
}

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

// Which pieces were taken, read and added, in this order. Only a few are between, so that their texts and lines stay in
// the caches. Who waits sleeps: the processor may be needed for reading.
class Pieces {
public:
    static constexpr size_t kBetween = 16;

    explicit Pieces(size_t count) : count_(count) {}

    // The next piece to read, or the number of pieces. Waits until enough are added, unless it is `patient`.
    size_t take(bool patient) {
        std::unique_lock<std::mutex> lock(mutex_);
        const auto is_open = [&] { return taken_ >= count_ || taken_ < added_ + kBetween; };
        if (patient) changed_.wait(lock, is_open);
        return is_open() && taken_ < count_ ? taken_++ : count_;
    }

    void mark_read(size_t piece) { change([&] { read_[piece % kBetween] = piece + 1; }); }
    void mark_added() { change([&] { ++added_; }); }
    void close() { change([&] { taken_ = count_; }); }

    bool holds(size_t piece) {
        const std::lock_guard<std::mutex> guard(mutex_);
        return read_[piece % kBetween] == piece + 1;
    }

    void wait_for(size_t piece) {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return read_[piece % kBetween] == piece + 1; });
    }

private:
    template <class Change>
    void change(Change change) {
        {
            const std::lock_guard<std::mutex> guard(mutex_);
            change();
        }
        changed_.notify_all();
    }

    const size_t count_;
    size_t taken_ = 0, added_ = 0;
    size_t read_[kBetween] = {};  // the piece + 1 that was read last of those with this remainder
    std::mutex mutex_;
    std::condition_variable changed_;
};

// Lets nobody wait for pieces that will not be added.
struct CloseAtEnd {
    Pieces& pieces;
    ~CloseAtEnd() { pieces.close(); }
};

// Also marks a piece whose reading threw, so that nobody waits for it.
struct MarkRead {
    Pieces& pieces;
    size_t piece;
    ~MarkRead() { pieces.mark_read(piece); }
};

}  // namespace

TrecParser::TrecParser(Layout layout, unsigned threads, uint64_t expected)
    : query_ids(2 * expected), doc_ids(2 * expected), threads_(threads), expected_(expected) {
    for (unsigned i = 0; i < threads; ++i) readers_.emplace_back(layout);
    lines_.resize(Pieces::kBetween);
    texts_.resize(Pieces::kBetween);
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
    read_pieces(pieces.size(), [&](size_t i) { return pieces[i]; });
    reserve(block.size());
}

bool TrecParser::feed_file(int file, uint64_t begin, uint64_t end) {
    if (fault.kind != nullptr || begin >= end) return fault.kind == nullptr;
    const auto cut = [&](size_t i) { return std::min(end, begin + i * kPiece); };
    read_pieces(static_cast<size_t>((end - begin + kPiece - 1) / kPiece), [&](size_t i) {
        std::string_view text = read_lines_at(file, cut(i), cut(i + 1), texts_[i % Pieces::kBetween]);
        if (cut(i) == 0 && text.substr(0, kBom.size()) == kBom) text.remove_prefix(kBom.size());
        return text;
    });
    reserve(static_cast<size_t>(end - begin));
    return fault.kind == nullptr;
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
template <class TextOf>
void TrecParser::read_pieces(size_t count, TextOf text_of) {
    Pieces pieces(count);
    const auto read_piece = [&](unsigned thread) {
        const size_t i = pieces.take(thread != 0);
        if (i == count) return false;
        const MarkRead mark{pieces, i};
        Lines& lines = lines_[i % Pieces::kBetween];
        lines.clear();
        readers_[thread].read(text_of(i), lines);
        guess_docs(lines);
        return true;
    };
    const unsigned threads = static_cast<unsigned>(std::min<size_t>(threads_, count));
    run_together(threads, [&](unsigned thread) {
        if (thread != 0) {
            while (read_piece(thread)) {}
            return;
        }
        const CloseAtEnd close{pieces};
        for (size_t i = 0; i < count && fault.kind == nullptr; ++i) {
            while (!pieces.holds(i) && read_piece(0)) {}
            pieces.wait_for(i);
            add(lines_[i % Pieces::kBetween]);
            pieces.mark_added();
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
