#include "search/float32_search.hpp"

#include <algorithm>
#include <cmath>

#include "exact/tie_order.hpp"
#include "search/cpu.hpp"
#include "search/decider.hpp"
#include "search/query_subset.hpp"
#include "trec/compiler.hpp"

namespace assay {

namespace {

// An object and not a function: a sort calls no pointer then.
constexpr auto better = [](const Scored& a, const Scored& b) { return ranks_before(a.score, a.doc, b.score, b.doc); };

// Sorts rows of scores. They are dealt out to places by size first, so that most stand where they belong; where
// too many share a place, as ties do, or where sizes tell nothing, they are compared as usual.
class Sorter {
public:
    void sort(std::vector<Scored>& documents) {
        if (std::is_sorted(documents.begin(), documents.end(), better)) return;
        if (!sort_best(documents, documents.size())) std::sort(documents.begin(), documents.end(), better);
    }

    // Leaves the best in order, at least so many and all that tie with these; false where nothing is done.
    bool sort_best(std::vector<Scored>& documents, size_t least) {
        if (documents.size() < kFew || !deal_out(documents, least)) return false;
        for (auto at = documents.begin() + 1; at != documents.end(); ++at) {  // nearly in order
            const Scored document = *at;
            auto to = at;
            for (; to != documents.begin() && better(document, *(to - 1)); --to) *to = *(to - 1);
            *to = document;
        }
        return true;
    }

private:
    static constexpr size_t kFew = 16, kMostShared = 32;

    bool deal_out(std::vector<Scored>& documents, size_t least) {
        const auto less = [](const Scored& a, const Scored& b) { return scores_above(b.score, a.score); };
        const auto [lowest, highest] = std::minmax_element(documents.begin(), documents.end(), less);
        const double high = highest->score, range = high - lowest->score, scale = static_cast<double>(2 * documents.size()) / range;
        if (!(range > 0.0 && std::isfinite(range) && std::isfinite(scale))) return false;
        const auto place_of = [high, scale](const Scored& document) { return static_cast<size_t>((high - document.score) * scale) + 1; };
        next_.assign(2 * documents.size() + 3, 0);
        size_t shared = 0, last = 0, count = 0;
        for (const Scored& document : documents) shared = std::max<size_t>(shared, ++next_[place_of(document)]);
        if (shared > kMostShared) return false;
        while (count < least) count = next_[last + 1] += next_[last], ++last;
        unsorted_.swap(documents);
        documents.resize(count);
        for (const Scored& document : unsorted_) {
            const size_t place = place_of(document);
            if (place <= last) documents[next_[place - 1]++] = document;
        }
        return true;
    }

    std::vector<uint32_t> next_;
    std::vector<Scored> unsorted_;
};

// Floors padded to whole groups of queries with what nothing reaches.
std::vector<float> padded(size_t n_queries, float value) {
    const size_t rows = search_kernels().query_rows;
    std::vector<float> limits((n_queries + rows - 1) / rows * rows, kNever);
    std::fill_n(limits.begin(), n_queries, value);
    return limits;
}

Scan scan_of(const QueryRows& queries, const DocRows& docs, Range range, Control control) {
    Scan scan = {};
    scan.queries = queries.rows;
    scan.n_queries = queries.exact.count;
    scan.columns = queries.exact.columns;
    scan.docs = docs.rows != nullptr ? docs.rows : docs.exact.rows;
    scan.element_type = docs.exact.element_type;
    scan.measuring = docs.measuring;
    scan.scale = docs.scale;
    scan.bias = docs.bias;
    scan.bound = docs.bound;
    scan.from = range.from;
    scan.to = range.to;
    scan.stop = control.stop;
    scan.done = control.done;
    return scan;
}

}  // namespace

const SearchKernels& search_kernels() {
#if defined(ASSAY_X86_KERNELS)
    const Simd simd = selected_simd();
    if (simd == Simd::avx512) return avx512_search_kernels();
    if (simd == Simd::avx2) return avx2_search_kernels();
#elif defined(ASSAY_ARM_KERNELS)
    if (selected_simd() == Simd::neon) return neon_search_kernels();
#endif
    return plain_search_kernels();
}

bool Excluded::holds(size_t query, int64_t doc) const {
    return std::binary_search(docs + offsets[query], docs + offsets[query + 1], doc);
}

// Candidates of one scan: a buffer per query, cut back when full, decided when that does not help. Floors
// rise by guessing where that is allowed; a query whose guess is not verified is left open, with
// what is certain, and nothing of it is taken over.
class TopKReceiver {
public:
    TopKReceiver(TopK& top, Metric metric, const QueryRows& queries, const DocRows& docs, const Excluded& excluded, Start start)
        : top_(top), decider_(metric, queries, docs), queries_(queries), docs_(docs), excluded_(excluded),
          capacity_(2 * std::min(top.k_, kMostPruned) + 4 * kMostAtOnce),
          floor_(padded(queries.exact.count, kNoFloor)), guessed_(queries.exact.count),
          may_guess_(queries.exact.count, start.may_guess), counts_(queries.exact.count),
          candidates_(queries.exact.count * capacity_), lows_(capacity_) {
        top.floors(queries, docs, floor_.data());
        for (size_t query = 0; start.least != nullptr && query < counts_.size(); ++query) {
            floor_[query] = std::max(floor_[query], start.least[query]);
        }
        certain_.assign(floor_.begin(), floor_.end());
    }

    // Queries that are to be searched for again, by floors that are certain.
    std::vector<uint32_t> open;
    std::vector<float>& certain() { return certain_; }

    const float* floor() const { return floor_.data(); }

    static void receive(void* self, size_t query, size_t first, const float* scores, uint32_t mask) {
        static_cast<TopKReceiver*>(self)->keep(query, first, scores, mask);
    }

    // The buffers of all queries are larger than the cache: fetch what will be written next.
    static void expect(void* self, size_t query) {
        const auto* receiver = static_cast<TopKReceiver*>(self);
        const Candidate* next = receiver->candidates_.data() + query * receiver->capacity_ + receiver->counts_[query];
        prefetch(next);
        prefetch(next + 64 / sizeof(Candidate));
    }

    // When a stage ends, the k-th best score of all documents is guessed from those met.
    static void met(void* self, double share) { static_cast<TopKReceiver*>(self)->end_stage(share); }

    void finish(const volatile int32_t* stop) {
        for (size_t query = 0; query < counts_.size(); ++query) {
            prune(query);
            if (guessed_[query]) leave_open(query);
        }
        for (size_t query = 0; query < counts_.size() && *stop == 0;) query = decide_from(query);
    }

private:
    static constexpr size_t kMostPruned = 4096, kMostAtOnce = 32, kMostDecided = 1 << 18;
    static constexpr size_t kNeighbours = 16;  // what lies within this part of all documents

    struct Candidate {
        float low;  // what it scores at least
        uint32_t at;
    };

    Candidate* candidates_of(size_t query) { return candidates_.data() + query * capacity_; }

    void keep(size_t query, size_t first, const float* scores, uint32_t mask) {
        if (counts_[query] + kMostAtOnce > capacity_) make_room(query);
        if (floor_[query] == kNever) return;  // left open
        Candidate* next = candidates_of(query) + counts_[query];
        const bool any_excluded = excluded_.offsets[query] < excluded_.offsets[query + 1];
        for (; mask != 0; mask &= mask - 1) {
            const size_t bit = static_cast<size_t>(lowest_bit(mask)), doc = first + bit;
            if (any_excluded && excluded_.holds(query, docs_.first + static_cast<int64_t>(doc))) continue;
            widest_ = std::max(widest_, 2 * docs_.bound[doc]);
            *next++ = {scores[bit] - docs_.bound[doc], static_cast<uint32_t>(doc)};
        }
        counts_[query] = static_cast<size_t>(next - candidates_of(query));
    }

    void make_room(size_t query) {
        prune(query);
        if (counts_[query] <= capacity_ - capacity_ / 4) return;
        guessed_[query] ? leave_open(query) : decide(query);
    }

    void end_stage(double share) {
        while (share >= kStages[stage_] && kStages[stage_] < 1.0) {
            ++stage_;
            const size_t rank = guessed_rank(top_.k_, share);
            for (size_t query = 0; rank < top_.k_ && query < counts_.size(); ++query) {
                if (may_guess_[query] && counts_[query] >= rank) guess(query, rank);
            }
        }
    }

    void guess(size_t query, size_t rank) {
        const float floor = reached(query, rank);
        if (!(floor > floor_[query]) || lie_together(query, floor)) return;
        floor_[query] = floor;
        guessed_[query] = true;
        cut(query);
    }

    // Whether the candidates that reach a score are neighbours, as those of documents sorted by score are: they
    // are no sample, and a floor guessed from them would be too high.
    bool lie_together(size_t query, float floor) {
        const Candidate* candidate = candidates_of(query);
        uint32_t first = UINT32_MAX, last = 0;
        for (size_t i = 0; i < counts_[query]; ++i) {
            if (candidate[i].low < floor) continue;
            first = std::min(first, candidate[i].at);
            last = std::max(last, candidate[i].at);
        }
        return last - first < docs_.exact.count / kNeighbours;
    }

    // Nothing of it is found any more.
    void leave_open(size_t query) {
        guessed_[query] = false;
        counts_[query] = 0;
        floor_[query] = kNever;
        open.push_back(static_cast<uint32_t>(query));
    }

    // A score that so many candidates reach.
    float reached(size_t query, size_t rank) {
        const Candidate* candidate = candidates_of(query);
        for (size_t i = 0; i < counts_[query]; ++i) lows_[i] = candidate[i].low;
        return reached_by(lows_.data(), counts_[query], rank);
    }

    // Raises the floor to what k candidates score at least, and drops those that cannot reach it.
    void prune(size_t query) {
        if (counts_[query] <= top_.k_) return;
        certain_[query] = std::max(certain_[query], reached(query, top_.k_));
        if (certain_[query] >= floor_[query]) {
            floor_[query] = certain_[query];
            guessed_[query] = false;
        }
        cut(query);
    }

    void cut(size_t query) {
        Candidate* candidate = candidates_of(query);
        const float floor = floor_[query], widest = widest_;
        const size_t count = counts_[query];
        size_t n_left = 0;
        for (size_t i = 0; i < count; ++i) {
            const Candidate current = candidate[i];  // not read where it was just written: that would wait
            candidate[n_left] = current;
            n_left += current.low + widest >= floor;
        }
        counts_[query] = n_left;
    }

    void decide(size_t query) {
        std::vector<uint32_t> at;
        append(query, at);
        take(query, at.data(), decider_.scores_of(query, at.data(), at.size()).data());
        may_guess_[query] = false;  // what was taken over must not be found again
        const std::vector<Scored>& best = top_.best_[query];
        if (best.size() >= top_.k_) {
            // best_ is trimmed: its k-th stands in place
            certain_[query] = std::max(certain_[query], limits_of(best[top_.k_ - 1].score, queries_, docs_, query).low);
            floor_[query] = std::max(floor_[query], certain_[query]);
        }
    }

    // Decides for as many queries from this one on as fit the work space; the first left over.
    size_t decide_from(size_t query) {
        const size_t first = query;
        std::vector<size_t> offsets = {0};
        std::vector<uint32_t> candidates;
        while (query < counts_.size() && (query == first || candidates.size() + counts_[query] <= kMostDecided)) {
            append(query++, candidates);
            offsets.push_back(candidates.size());
        }
        // the rows of the queries before the first are empty
        offsets.insert(offsets.begin(), first, 0);
        const Column<double> scores = decider_.scores(offsets, candidates.data());
        for (size_t q = first; q < query; ++q) take(q, candidates.data() + offsets[q], scores.data() + offsets[q]);
        return query;
    }

    void append(size_t query, std::vector<uint32_t>& at) {
        const Candidate* candidate = candidates_of(query);
        for (size_t i = 0; i < counts_[query]; ++i) at.push_back(candidate[i].at);
    }

    void take(size_t query, const uint32_t* at, const double* scores) {
        top_.add(query, docs_.first, at, scores, counts_[query]);
        counts_[query] = 0;
    }

    TopK& top_;
    Decider decider_;
    const QueryRows& queries_;
    const DocRows& docs_;
    const Excluded& excluded_;
    size_t capacity_;
    float widest_ = 0.0f;  // twice the largest bound of a candidate
    size_t stage_ = 0;
    std::vector<float> floor_, certain_;
    std::vector<char> guessed_, may_guess_;
    std::vector<size_t> counts_;
    std::vector<Candidate> candidates_;
    std::vector<float> lows_;
};

void TopK::scan(Metric metric, const QueryRows& queries, const DocRows& docs, const Excluded& excluded, Range range, Control control,
                Start start) {
    if (range.from >= range.to) return;
    std::vector<float> certain;
    const std::vector<uint32_t> open = scan_once(metric, queries, docs, excluded, range, control, start, certain);
    if (open.empty() || *control.stop != 0) return;
    QuerySubset subset(queries, excluded, *this, open, certain);
    int64_t counted_already = 0;
    subset.top().scan(metric, subset.rows(), docs, subset.excluded(), range, {control.stop, &counted_already}, {subset.floors(), false});
}

// The queries that it leaves open, and floors that are certain.
std::vector<uint32_t> TopK::scan_once(Metric metric, const QueryRows& queries, const DocRows& docs, const Excluded& excluded, Range range,
                                      Control control, Start start, std::vector<float>& certain) {
    TopKReceiver receiver(*this, metric, queries, docs, excluded, start);
    Scan scan = scan_of(queries, docs, range, control);
    scan.floor = receiver.floor();
    scan.receiver = &receiver;
    scan.receive = TopKReceiver::receive;
    scan.expect = TopKReceiver::expect;
    scan.met = TopKReceiver::met;
    search_kernels().scan(scan);
    if (docs.measuring != nullptr && *docs.measuring->odd != 0) return {};
    receiver.finish(control.stop);
    certain.swap(receiver.certain());
    return std::move(receiver.open);
}

void TopK::decide(Metric metric, const QueryRows& queries, const DocRows& docs, const int64_t* offsets, const uint32_t* candidates) {
    const Decider decider(metric, queries, docs);
    for (size_t query = 0; query < best_.size(); ++query) {
        const uint32_t* at = candidates + offsets[query];
        const auto count = static_cast<size_t>(offsets[query + 1] - offsets[query]);
        add(query, docs.first, at, decider.scores_of(query, at, count).data(), count);
    }
}

void TopK::seed(const double* least) {
    for (size_t query = 0; query < best_.size(); ++query) {
        if (std::isfinite(least[query])) best_[query].assign(k_, {kNobody, least[query]});
    }
}

void TopK::absorb(const TopK& other) {
    for (size_t query = 0; query < best_.size(); ++query) {
        best_[query].insert(best_[query].end(), other.best_[query].begin(), other.best_[query].end());
        trim(best_[query]);
    }
}

void TopK::floors(const QueryRows& queries, const DocRows& docs, float* floor) const {
    for (size_t query = 0; query < best_.size(); ++query) {
        const std::vector<Scored>& best = best_[query];
        floor[query] = best.size() < k_ ? kNoFloor : limits_of(best[k_ - 1].score, queries, docs, query).low;
    }
}

void TopK::sort() {
    Sorter sorter;
    for (std::vector<Scored>& documents : best_) sorter.sort(documents);
}

void TopK::add(size_t query, int64_t first, const uint32_t* at, const double* scores, size_t count) {
    const std::vector<Scored> documents = merged(query, first, at, scores, count);
    best_[query].assign(documents.begin(), documents.end());
}

std::vector<Scored> TopK::merged(size_t query, int64_t first, const uint32_t* at, const double* scores, size_t count) const {
    std::vector<Scored> documents;  // apart: best_ must not keep the room that candidates need
    documents.reserve(best_[query].size() + count);
    documents = best_[query];
    const size_t before = documents.size();
    documents.resize(before + count);
    for (size_t i = 0; i < count; ++i) documents[before + i] = {first + at[i], scores[i]};
    trim(documents);
    return documents;
}

constexpr size_t kFewToTrim = 256;  // sooner than to deal them out

// Cuts back to the k best, with all that tie with the last of them where these are kept; the k-th
// best then stands at place k − 1.
void TopK::trim(std::vector<Scored>& documents) const {
    if (documents.size() < k_) return;
    const auto kth = static_cast<std::ptrdiff_t>(k_) - 1;
    if (documents.size() < kFewToTrim || !Sorter().sort_best(documents, k_)) std::nth_element(documents.begin(), documents.begin() + kth, documents.end(), better);
    auto end = documents.begin() + kth + 1;
    if (keep_ties_) {
        const double last = (end - 1)->score;
        end = std::partition(end, documents.end(), [last](const Scored& other) { return scores_tie(other.score, last); });
    }
    documents.erase(end, documents.end());
}

namespace {

// The documents whose float32 score is too close to the target's: decided when the buffer is full.
class TargetReceiver {
public:
    TargetReceiver(Metric metric, const QueryRows& queries, const DocRows& docs, const Targets& targets, const TargetCounts& counts)
        : metric_(metric), queries_(queries), docs_(docs), targets_(targets), result_(counts),
          floor_(padded(queries.exact.count, kNever)), ceiling_(floor_), counts_(queries.exact.count),
          at_(queries.exact.count * kCapacity) {
        for (size_t query = 0; query < counts_.size(); ++query) {
            if (targets.docs[query] < 0) continue;
            const Limits limits = limits_of(targets.scores[query], queries, docs, query);
            floor_[query] = limits.low;
            ceiling_[query] = limits.high;
        }
    }

    const float* floor() const { return floor_.data(); }
    const float* ceiling() const { return ceiling_.data(); }

    static void receive(void* self, size_t query, size_t first, const float*, uint32_t mask) {
        static_cast<TargetReceiver*>(self)->keep(query, first, mask);
    }

    static void expect(void* self, size_t query) {
        const auto* receiver = static_cast<TargetReceiver*>(self);
        prefetch(receiver->at_.data() + query * kCapacity + receiver->counts_[query]);
    }

    void finish() {
        for (size_t query = 0; query < counts_.size(); ++query) decide(query);
    }

private:
    static constexpr size_t kCapacity = 256, kMostAtOnce = 32;

    void keep(size_t query, size_t first, uint32_t mask) {
        if (counts_[query] + kMostAtOnce > kCapacity) decide(query);
        uint32_t* at = at_.data() + query * kCapacity;
        for (; mask != 0; mask &= mask - 1) {
            at[counts_[query]++] = static_cast<uint32_t>(first + static_cast<size_t>(lowest_bit(mask)));
        }
    }

    void decide(size_t query);

    Metric metric_;
    const QueryRows& queries_;
    const DocRows& docs_;
    const Targets& targets_;
    const TargetCounts& result_;
    std::vector<float> floor_, ceiling_;
    std::vector<size_t> counts_;
    std::vector<uint32_t> at_;
};

void decide_target(Metric metric, const QueryRows& queries, const DocRows& docs, const Targets& targets, size_t query,
                   const uint32_t* at, size_t count, const TargetCounts& counts, int64_t weight) {
    const std::vector<double> scores = Decider(metric, queries, docs).scores_of(query, at, count);
    const double goal = targets.scores[query];
    for (size_t i = 0; i < count; ++i) {
        const int64_t doc = docs.first + at[i];
        counts.above[query] += scores_above(scores[i], goal) ? weight : 0;
        if (!scores_tie(scores[i], goal) || doc == targets.docs[query]) continue;
        counts.tied[query] += weight;
        counts.before[query] += doc < targets.docs[query] ? weight : 0;
    }
}

void TargetReceiver::decide(size_t query) {
    decide_target(metric_, queries_, docs_, targets_, query, at_.data() + query * kCapacity, counts_[query], result_, 1);
    counts_[query] = 0;
}

}  // namespace

void count_targets(Metric metric, const QueryRows& queries, const DocRows& docs, const Targets& targets, Range range,
                   const TargetCounts& counts, Control control) {
    TargetReceiver receiver(metric, queries, docs, targets, counts);
    Scan scan = scan_of(queries, docs, range, control);
    scan.floor = receiver.floor();
    scan.ceiling = receiver.ceiling();
    scan.above = counts.above;
    scan.receiver = &receiver;
    scan.receive = TargetReceiver::receive;
    scan.expect = TargetReceiver::expect;
    search_kernels().scan(scan);
    if (*control.stop == 0) receiver.finish();
}

void decide_targets(Metric metric, const QueryRows& queries, const DocRows& docs, const Targets& targets,
                    const int64_t* offsets, const uint32_t* candidates, const TargetCounts& counts, int64_t weight) {
    for (size_t query = 0; query < queries.exact.count; ++query) {
        if (targets.docs[query] < 0) continue;
        decide_target(metric, queries, docs, targets, query, candidates + offsets[query],
                      static_cast<size_t>(offsets[query + 1] - offsets[query]), counts, weight);
    }
}

}  // namespace assay
