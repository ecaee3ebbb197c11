#include "search/sparse_search.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "exact/tie_order.hpp"
#include "trec/compiler.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace assay::sparse {

namespace {

constexpr size_t block_docs = 1 << 16;     // whose sums stay in the second-level cache
constexpr size_t run_docs = 64;            // of which sums are compared together
constexpr size_t most_lists = 4000;        // of a query, or sums have no digits left
constexpr int64_t listed_terms = 256;
constexpr int largest_code = 32767;
constexpr int most_units = 16383;         // of one product: factors have 16 bits
constexpr size_t marked_docs = 4;         // that share a mark, so that marks stay in the first-level cache
constexpr size_t few_docs = 256;          // of which a list holds hardly any
constexpr int bin_units = 16;             // sums that are counted together
constexpr int spare_units = 24;           // by which the sum of one of the best may be below the k-th largest, mostly
constexpr size_t frequent = 8;            // a term that one of so many documents holds
constexpr double roundoff = 0x1p-53;
constexpr double least_bound = 0x1p-930;  // nothing below is left out by rounding to zero
constexpr double least_single = 0x1p-100; // nor leaves the range of float32

bool stopped(const Control& control) {
    return reinterpret_cast<const std::atomic<int32_t>*>(control.stop)->load(std::memory_order_relaxed) != 0;
}

void add_done(const Control& control, size_t pairs) {
    reinterpret_cast<std::atomic<int64_t>*>(control.done)->fetch_add(static_cast<int64_t>(pairs), std::memory_order_relaxed);
}

size_t padded(size_t count) { return (count + run_docs - 1) / run_docs * run_docs; }

struct Candidate {
    double score;
    int32_t doc;
    bool operator<(const Candidate& other) const { return ranks_before(score, doc, other.score, other.doc); }
};

// The best documents of one query so far. One more than k shows whether the cut divides a tie.
class Shortlist {
public:
    Shortlist(const Request& request, double least, const int64_t* excluded, const int64_t* excluded_end)
        : k_(request.k), keep_ties_(request.keep_ties), depth_(request.k + (request.keep_ties ? 0 : 1)), least_(least), excluded_(excluded), excluded_end_(excluded_end) {}

    // What a document must reach; while there are too few, the score it was begun with.
    double floor() const { return std::max(least_, floor_.score); }
    size_t depth() const { return depth_; }
    bool full() const { return full_; }

    void offer(int32_t doc, double score) {
        if (scores_above(least_, score)) return;
        const Candidate candidate{score, doc};
        if (full_ && !(candidate < floor_) && !(keep_ties_ && scores_tie(score, floor_.score))) return;
        if (std::binary_search(excluded_, excluded_end_, int64_t{doc})) return;
        candidates_.push_back(candidate);
        settled_ = false;
        if (candidates_.size() >= std::max(room_, 2 * depth_)) shorten();
    }

    // Sets the floor by what there is.
    void shorten() {
        if (settled_ || candidates_.size() < depth_) return;
        const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(depth_ - 1);
        std::nth_element(candidates_.begin(), last, candidates_.end());
        floor_ = *last;
        full_ = true;
        const auto end = keep_ties_ ? std::partition(last + 1, candidates_.end(), [&](const Candidate& c) { return scores_tie(c.score, floor_.score); }) : last + 1;
        candidates_.erase(end, candidates_.end());
        room_ = candidates_.size() + std::max<size_t>(depth_, 256);
        settled_ = true;
    }

    void finish(Best& best) {
        shorten();
        std::sort(candidates_.begin(), candidates_.end());
        const size_t count = keep_ties_ ? candidates_.size() : std::min(k_, candidates_.size());
        int32_t* docs = best.docs.extend(count);
        double* scores = best.scores.extend(count);
        for (size_t i = 0; i < count; ++i) docs[i] = candidates_[i].doc, scores[i] = candidates_[i].score;
        best.counts.push_back(static_cast<int64_t>(count));
        best.tie_split.push_back(count < candidates_.size() && scores_tie(candidates_[count].score, candidates_[count - 1].score) ? 1 : 0);
    }

private:
    size_t k_;
    bool keep_ties_;
    size_t depth_;
    double least_;
    size_t room_ = 0;
    bool full_ = false;
    bool settled_ = false;  // nothing was offered since the floor was set
    Candidate floor_{-std::numeric_limits<double>::infinity(), 0};
    std::vector<Candidate> candidates_;
    const int64_t* excluded_;
    const int64_t* excluded_end_;
};

// One term of a query.
struct List {
    size_t term;
    double weight;
};

}  // namespace

struct Query {
    std::vector<List> lists;  // by term
    double unit = 0.0;        // of the sums; 0 where every row must be looked at
    double off = 0.0;         // the score and the sum of the same products without rounding differ by less
    double raised = 0.0;      // what is not added to the sums of all documents, but counts there
    bool zeros = false;       // a sum of 0 is a score of 0
    Shortlist shortlist;
};

// The weights of one query by term, and a bit for each term that it holds, which stay near.
struct Dense {
    explicit Dense(size_t n_terms) : weights(n_terms), bits(n_terms / 64 + 1, 0) {}
    bool holds(size_t term) const { return bits[term / 64] >> term % 64 & 1; }
    void set(const Query& query) {
        for (const List& list : query.lists) weights[list.term] = list.weight, bits[list.term / 64] |= uint64_t{1} << list.term % 64;
    }
    void clear(const Query& query) {
        for (const List& list : query.lists) bits[list.term / 64] = 0;
    }

    std::vector<double> weights;
    std::vector<uint64_t> bits;
};

// What a search writes to, used again for each query and block.
struct Space {
    Space(size_t count, size_t n_terms) : sums(padded(count), 0), dense(n_terms), marks(block_docs / marked_docs, 0), places(count, 0) {}

    std::vector<int16_t> sums;
    Dense dense;
    std::vector<std::pair<uint32_t, uint32_t>> spans;    // of the entries of each list in the block
    std::vector<std::pair<int16_t, uint32_t>> largest;   // sums, and numbers of documents in the block
    std::vector<uint32_t> docs;                          // to score, by number in the block
    std::vector<double> scores;
    std::vector<uint8_t> marks;                          // whether some of `marked_docs` are among them
    std::vector<uint32_t> places;                        // where they stand in `docs`, from 1 on
    std::vector<uint32_t> bins;                          // how many sums lie in each range of `bin_units`
};

namespace {

// The smallest sum whose score may reach `score`.
int least_sum(const Query& query, double score) {
    const double sum = (score - query.raised - query.off) / query.unit;
    return sum <= -largest_code ? -largest_code - 1 : sum > largest_code ? largest_code + 1 : static_cast<int>(std::ceil(sum)) - 1;
}

// The sums of a run that are at least `least`, as bits.
inline uint64_t reaching(const int16_t* sums, int16_t least) {
    uint64_t bits = 0;
#if defined(__SSE2__)
    const __m128i lowest = _mm_set1_epi16(least);
    __m128i largest = _mm_loadu_si128(reinterpret_cast<const __m128i*>(sums));
    for (size_t i = 8; i < run_docs; i += 8) largest = _mm_max_epi16(largest, _mm_loadu_si128(reinterpret_cast<const __m128i*>(sums + i)));
    if (_mm_movemask_epi8(_mm_cmplt_epi16(largest, lowest)) == 0xffff) return 0;  // mostly
    for (size_t i = 0; i < run_docs; i += 16) {
        const __m128i left = _mm_loadu_si128(reinterpret_cast<const __m128i*>(sums + i)), right = _mm_loadu_si128(reinterpret_cast<const __m128i*>(sums + i + 8));
        const __m128i below = _mm_packs_epi16(_mm_cmplt_epi16(left, lowest), _mm_cmplt_epi16(right, lowest));
        bits |= static_cast<uint64_t>(~static_cast<uint32_t>(_mm_movemask_epi8(below)) & 0xffff) << i;
    }
#else
    for (size_t i = 0; i < run_docs; ++i) bits |= static_cast<uint64_t>(sums[i] >= least) << i;
#endif
    return bits;
}

// Calls `visit` with the number and the sum of each document whose sum is at least `least`, which may
// rise meanwhile.
template <class Visit>
void visit_sums(const int16_t* sums, size_t count, const int& least, Visit&& visit) {
    for (size_t start = 0; start < count && least <= largest_code; start += run_docs) {
        uint64_t bits = reaching(sums + start, static_cast<int16_t>(std::max(least, -largest_code - 1)));
        if (count - start < run_docs) bits &= (uint64_t{1} << (count - start)) - 1;  // zeros pad the last run
        for (; bits != 0; bits &= bits - 1) {
            const size_t i = start + static_cast<size_t>(lowest_bit(bits));
            if (sums[i] >= least) visit(i, sums[i]);
        }
    }
}

}  // namespace

template <class Weight>
Index<Weight>::Index(const Rows<Weight>& docs, size_t n_terms) : docs_(docs), n_terms_(n_terms), largest_(n_terms, 0.0), lengths_(n_terms, 0), frequent_(n_terms, 0) {
    const size_t n_entries = static_cast<size_t>(docs.offsets[docs.count]), n_blocks = (docs.count + block_docs - 1) / block_docs;
    for (size_t i = 0; i < n_entries; ++i) {
        const size_t term = static_cast<size_t>(docs.terms[i]);
        largest_[term] = std::max(largest_[term], std::fabs(static_cast<double>(docs.weights[i])));
        ++lengths_[term];
        signs_ |= docs.weights[i] < 0;
    }
    std::vector<double> codes(n_terms, 0.0);  // of frequent terms, in a weight of one
    size_t n_frequent = 0, n_others = 0;
    for (size_t term = 0; term < n_terms; ++term) {
        if (!is_frequent(term)) {
            n_others += static_cast<size_t>(lengths_[term]);
            continue;
        }
        frequent_[term] = n_frequent++ * padded(docs.count);
        if (largest_[term] >= least_bound) codes[term] = largest_code / largest_[term];
    }
    starts_ = Column<uint32_t>(n_blocks * (n_terms + 1), 0);
    codes_ = Column<int16_t>(n_frequent * padded(docs.count), 0);
    frequent_weights_ = Column<Weight>(n_frequent * padded(docs.count), 0);
    numbers_.extend(n_others), weights_.extend(n_others);
    for (size_t block = 0, base = 0; block < n_blocks; ++block) {
        const size_t first = block * block_docs, last = std::min(docs.count, first + block_docs);
        uint32_t* start = starts_.data() + block * (n_terms + 1);
        for (int64_t i = docs.offsets[first]; i < docs.offsets[last]; ++i) ++start[docs.terms[i] + 1];
        uint64_t size = 0;
        for (size_t term = 0; term < n_terms; ++term) {
            size += is_frequent(term) ? 0 : start[term + 1];
            start[term + 1] = static_cast<uint32_t>(size);
        }
        if (size > UINT32_MAX) throw std::length_error("too many weights in 65,536 rows");
        bases_.push_back(base);
        std::vector<uint32_t> next(start, start + n_terms);
        for (size_t doc = first; doc < last; ++doc) {
            for (int64_t i = docs.offsets[doc]; i < docs.offsets[doc + 1]; ++i) {
                const size_t term = static_cast<size_t>(docs.terms[i]);
                if (is_frequent(term)) {
                    codes_[frequent_[term] + doc] = static_cast<int16_t>(std::nearbyint(static_cast<double>(docs.weights[i]) * codes[term]));
                    frequent_weights_[frequent_[term] + doc] = docs.weights[i];
                } else {
                    const size_t at = base + next[term]++;
                    numbers_[at] = static_cast<uint16_t>(doc - first), weights_[at] = docs.weights[i];
                }
            }
        }
        base += size;
    }
}

template <class Weight>
bool Index<Weight>::is_frequent(size_t term) const {
    return static_cast<size_t>(lengths_[term]) >= docs_.count / frequent + 64;
}

template <class Weight>
Query Index<Weight>::read_query(const Rows<double>& rows, size_t row) const {
    Query query{{}, 0.0, 0.0, 0.0, !signs_, Shortlist({1, false, nullptr}, 0.0, nullptr, nullptr)};
    double sum = 0.0, largest = 0.0, n_frequent = 0.0;
    bool fits = true;
    for (int64_t i = rows.offsets[row]; i < rows.offsets[row + 1]; ++i) {
        const size_t term = static_cast<size_t>(rows.terms[i]);
        if (rows.weights[i] == 0.0 || lengths_[term] == 0) continue;
        const double bound = std::fabs(rows.weights[i]) * largest_[term];
        query.lists.push_back({term, rows.weights[i]});
        query.zeros &= rows.weights[i] > 0.0 && !is_frequent(term);
        n_frequent += is_frequent(term);
        fits &= largest_[term] >= (sizeof(Weight) == sizeof(float) ? least_single : least_bound);
        sum += bound;
        largest = std::max(largest, bound);
    }
    const size_t n_lists = query.lists.size();
    query.off = sum * 4.0 * roundoff * static_cast<double>(n_lists + 2);  // Higham, Accuracy and Stability, ch. 4
    if (!fits || n_lists > most_lists || sum < least_bound || sum > 1.0 / least_bound) return query;
    query.unit = std::max(sum / static_cast<double>(largest_code - 4 * n_lists), largest / most_units);
    query.raised = 2.0 * n_frequent * query.unit;
    return query;
}

// Adds to each sum the product in units, rounded up by at least 0 and less than 3.01. In a list a product is
// off by 0.002 units, by two roundings to float32 of at most 16,383, and loses less than 1 towards 0. In a
// column a weight is off by half a code (0.2505 units), the factor by a half (0.2505 units), and the shift
// takes less than 1 away.
template <class Weight>
void Index<Weight>::add_block(const Query& query, size_t block, Space& space) const {
    const uint32_t* start = starts_.data() + block * (n_terms_ + 1);
    const uint16_t* numbers = numbers_.data() + bases_[block];
    const Weight* weights = weights_.data() + bases_[block];
    const size_t first = block * block_docs, count = padded(std::min(block_docs, docs_.count - first));
    int16_t* sums = space.sums.data();
    std::fill_n(sums, count, int16_t{0});
    // Asks for the first elements of a list, which lies anywhere in memory.
    const auto fetch = [&](uint32_t begin, uint32_t from, uint32_t to) {
        for (uint32_t i = from; i < to; i += 32) prefetch(numbers + begin + i), prefetch(weights + begin + i), prefetch(weights + begin + i + 16);
    };
    space.spans.clear();
    for (const List& list : query.lists) {
        space.spans.push_back({start[list.term], start[list.term + 1]});
        fetch(space.spans.back().first, 0, 64);
    }
    for (size_t number = 0; number < query.lists.size(); ++number) {
        const List& list = query.lists[number];
        if (is_frequent(list.term)) {  // the 2 is `raised`
            const int32_t factor = static_cast<int16_t>(std::nearbyint(list.weight / query.unit * (largest_[list.term] / largest_code) * 65536.0));
            const int16_t* codes = codes_.data() + frequent_[list.term] + first;
            for (size_t i = 0; i < count; ++i) sums[i] = static_cast<int16_t>(sums[i] + static_cast<int16_t>(codes[i] * factor >> 16));
            continue;
        }
        if (number + 1 < query.lists.size()) fetch(space.spans[number + 1].first, 64, 192);
        const Weight factor = static_cast<Weight>(list.weight / query.unit);
        for (uint32_t i = space.spans[number].first, end = space.spans[number].second; i < end; ++i) {
            int16_t& sum = sums[numbers[i]];
            sum = static_cast<int16_t>(sum + static_cast<int>(weights[i] * factor) + 2);
        }
    }
}

// Terms that both rows hold are listed without a branch, which nobody could predict.
template <class Weight>
double Index<Weight>::score_row(const Dense& dense, size_t doc) const {
    double score = 0.0;
    for (int64_t start = docs_.offsets[doc], end = docs_.offsets[doc + 1]; start < end; start += listed_terms) {
        const int32_t* terms = docs_.terms + start;
        const Weight* weights = docs_.weights + start;
        const uint32_t count = static_cast<uint32_t>(std::min<int64_t>(listed_terms, end - start));
        uint32_t shared[listed_terms], n_shared = 0;
        for (uint32_t i = 0; i < count; ++i) {
            shared[n_shared] = i;
            n_shared += dense.holds(static_cast<size_t>(terms[i]));
        }
        for (uint32_t i = 0; i < n_shared; ++i) {
            score += dense.weights[static_cast<size_t>(terms[shared[i]])] * static_cast<double>(weights[shared[i]]);
        }
    }
    return score;
}

// Asks for a row soon needed, which lies anywhere in memory.
template <class Weight>
void Index<Weight>::fetch_row(size_t doc) const {
#if defined(__GNUC__)
    for (int64_t i = docs_.offsets[doc], end = docs_.offsets[doc + 1]; i < end; i += 16) __builtin_prefetch(docs_.terms + i), __builtin_prefetch(docs_.weights + i);
#endif
}

// Scores the documents of a block that are listed, each from its row; or, where there are many, all of them
// from the entries of the query's lists. Both add the same products in the same order.
template <class Weight>
void Index<Weight>::score_docs(const Query& query, size_t block, Space& space) const {
    const size_t first = block * block_docs, count = space.docs.size();
    space.scores.assign(count, 0.0);
    if (count == 0) return;
    // What either way costs, in the time that one entry of a list takes.
    const size_t row = 3 * (static_cast<size_t>(docs_.offsets[docs_.count]) / docs_.count + 64);
    size_t by_lists = 0;
    for (size_t number = 0; query.unit > 0.0 && number < query.lists.size(); ++number) {
        by_lists += is_frequent(query.lists[number].term) ? 8 * count : space.spans[number].second - space.spans[number].first;
    }
    if (query.unit == 0.0 || count * row < by_lists) {
        space.dense.set(query);
        for (size_t at = 0; at < count; ++at) {
            if (at + 24 < count) prefetch(docs_.offsets + first + space.docs[at + 24]);  // which says where the row lies
            if (at + 8 < count) fetch_row(first + space.docs[at + 8]);
            space.scores[at] = score_row(space.dense, first + space.docs[at]);
        }
        space.dense.clear(query);
        return;
    }
    for (size_t at = 0; at < count; ++at) {
        space.marks[space.docs[at] / marked_docs] = 1;
        space.places[space.docs[at]] = static_cast<uint32_t>(at + 1);
    }
    const uint16_t* numbers = numbers_.data() + bases_[block];
    const Weight* weights = weights_.data() + bases_[block];
    const auto mark = [&](uint32_t i) { return space.marks[numbers[i] / marked_docs]; };
    for (size_t number = 0; number < query.lists.size(); ++number) {
        const double weight = query.lists[number].weight;
        if (is_frequent(query.lists[number].term)) {  // a document without the term adds 0
            const Weight* all = frequent_weights_.data() + frequent_[query.lists[number].term] + first;
            for (size_t at = 0; at < count; ++at) space.scores[at] += weight * static_cast<double>(all[space.docs[at]]);
            continue;
        }
        const auto add = [&](uint32_t i) {
            if (const uint32_t place = space.places[numbers[i]]) space.scores[place - 1] += weight * static_cast<double>(weights[i]);
        };
        auto [i, end] = space.spans[number];
        for (; count < few_docs && i + 4 <= end; i += 4) {
            if ((mark(i) | mark(i + 1) | mark(i + 2) | mark(i + 3)) == 0) continue;  // mostly
            for (uint32_t j = i; j < i + 4; ++j) add(j);
        }
        while (i < end) {
            const uint32_t stop = std::min<uint32_t>(end, i + listed_terms);
            uint32_t shared[listed_terms], n_shared = 0;
            for (; i < stop; ++i) {
                shared[n_shared] = i;
                n_shared += mark(i);
            }
            for (uint32_t j = 0; j < n_shared; ++j) add(shared[j]);
        }
    }
    for (uint32_t doc : space.docs) space.marks[doc / marked_docs] = 0, space.places[doc] = 0;
}

template <class Weight>
Best Index<Weight>::search(const Rows<double>& rows, const Request& request, const Excluded& excluded, Control control) const {
    std::vector<Query> queries;
    queries.reserve(rows.count);
    for (size_t q = 0; q < rows.count; ++q) {
        queries.push_back(read_query(rows, q));
        queries.back().shortlist = Shortlist(request, request.floors[q], excluded.docs + excluded.offsets[q], excluded.docs + excluded.offsets[q + 1]);
    }
    Space space(std::min(block_docs, docs_.count), n_terms_);
    for (size_t block = 0; block < bases_.size(); ++block) {
        for (Query& query : queries) {
            if (stopped(control)) return {};
            if (query.unit > 0.0) add_block(query, block, space);
            decide_block(query, block, space);
            add_done(control, std::min(block_docs, docs_.count - block * block_docs));
        }
    }
    Best best;
    for (Query& query : queries) query.shortlist.finish(best);
    return best;
}

// Offers the documents in `docs`.
template <class Weight>
void Index<Weight>::offer_docs(Query& query, size_t block, Space& space) const {
    score_docs(query, block, space);
    for (size_t at = 0; at < space.docs.size(); ++at) query.shortlist.offer(static_cast<int32_t>(block * block_docs + space.docs[at]), space.scores[at]);
    query.shortlist.shorten();
    space.docs.clear();
}

// Offers all documents of a block that may be among the best.
template <class Weight>
void Index<Weight>::decide_block(Query& query, size_t block, Space& space) const {
    Shortlist& shortlist = query.shortlist;
    const size_t first = block * block_docs, count = std::min(block_docs, docs_.count - first);
    space.docs.clear();
    if (query.unit == 0.0) {
        for (size_t doc = 0; doc < count; ++doc) {
            if (query.lists.empty()) shortlist.offer(static_cast<int32_t>(first + doc), 0.0);
            else space.docs.push_back(static_cast<uint32_t>(doc));
        }
        offer_docs(query, block, space);
        return;
    }
    // Those with the largest sums first: what they score spares others.
    const bool zeros = query.zeros, counting = !shortlist.full();
    const int limit = zeros ? std::max(1, least_sum(query, shortlist.floor())) : least_sum(query, shortlist.floor());
    int least = limit;
    size_t n_largest = 0, low = 0;  // sums in the bins from `low` on
    if (counting) space.bins.assign((2 * largest_code + 2) / bin_units, 0);
    space.largest.clear();
    visit_sums(space.sums.data(), count, least, [&](size_t i, int16_t sum) {
        space.largest.push_back({sum, static_cast<uint32_t>(i)});
        const size_t bin = static_cast<size_t>(sum + largest_code + 1) / bin_units;
        if (!counting || bin < low) return;
        ++space.bins[bin], ++n_largest;
        while (n_largest - space.bins[low] >= shortlist.depth()) {
            n_largest -= space.bins[low++];
            least = std::max(limit, static_cast<int>(low * bin_units) - largest_code - 1 - spare_units);
        }
    });
    for (const auto& [sum, doc] : space.largest) {
        if (sum >= least) space.docs.push_back(doc);
    }
    offer_docs(query, block, space);
    const int rest = least_sum(query, shortlist.floor());
    if (rest >= least || (limit == least && !(zeros && !(shortlist.floor() > 0.0)))) return;
    visit_sums(space.sums.data(), count, rest, [&](size_t i, int16_t sum) {
        if (sum >= least) return;
        if (zeros && sum == 0) shortlist.offer(static_cast<int32_t>(first + i), 0.0);
        else space.docs.push_back(static_cast<uint32_t>(i));
    });
    offer_docs(query, block, space);
}

template <class Weight>
void Index<Weight>::count_targets(const Rows<double>& rows, const Targets& targets, const Excluded& excluded, Control control) const {
    Space space(std::min(block_docs, docs_.count), n_terms_);
    for (size_t q = 0; q < rows.count; ++q) {
        const int64_t target = targets.docs[q];
        const double score = targets.scores[q];
        const Query query = read_query(rows, q);
        const auto add = [&](int64_t doc, double other, int64_t times) {
            const bool tied = doc != target && scores_tie(other, score);
            targets.above[q] += scores_above(other, score) ? times : 0;
            targets.tied[q] += tied ? times : 0;
            targets.before[q] += tied && doc < target ? times : 0;
        };
        const bool nothing = query.lists.empty() || (query.unit > 0.0 && query.zeros);
        for (size_t block = 0; block < bases_.size(); ++block) {
            if (stopped(control)) return;
            const size_t first = block * block_docs, count = std::min(block_docs, docs_.count - first);
            add_done(control, count);
            if (target < 0) continue;
            int least = -largest_code - 1, certain = largest_code + 1;
            if (query.unit > 0.0) {
                add_block(query, block, space);
                least = least_sum(query, score);
                certain = std::min<int>(certain, least_sum(query, score + 2.0 * query.off) + 4 * static_cast<int>(query.lists.size() + 1));
            } else {
                std::fill_n(space.sums.begin(), count, int16_t{0});
            }
            space.docs.clear();
            visit_sums(space.sums.data(), count, least, [&](size_t i, int16_t sum) {
                if (sum >= certain) ++targets.above[q];
                else if (nothing && sum == 0) add(static_cast<int64_t>(first + i), 0.0, 1);
                else space.docs.push_back(static_cast<uint32_t>(i));
            });
            score_docs(query, block, space);
            for (size_t at = 0; at < space.docs.size(); ++at) add(static_cast<int64_t>(first + space.docs[at]), space.scores[at], 1);
        }
        space.dense.set(query);
        for (int64_t i = excluded.offsets[q]; target >= 0 && i < excluded.offsets[q + 1]; ++i) {
            add(excluded.docs[i], score_row(space.dense, static_cast<size_t>(excluded.docs[i])), -1);
        }
        space.dense.clear(query);
    }
}

template <class Weight>
void Index<Weight>::score(const Rows<double>& rows, const int64_t* docs, double* scores) const {
    Dense dense(n_terms_);
    for (size_t q = 0; q < rows.count; ++q) {
        const Query query = read_query(rows, q);
        dense.set(query);
        scores[q] = docs[q] < 0 ? 0.0 : score_row(dense, static_cast<size_t>(docs[q]));
        dense.clear(query);
    }
}

template class Index<float>;
template class Index<double>;

}  // namespace assay::sparse
