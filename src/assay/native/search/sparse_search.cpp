#include "search/sparse_search.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "exact/tie_order.hpp"

namespace assay::sparse {

namespace {

constexpr size_t block_docs = 1 << 14;     // whose sums stay in the second-level cache
constexpr double share_left_out = 0.25;    // of the k-th score: more would leave too many candidates
constexpr double roundoff = 0x1p-53;

bool stopped(const Control& control) {
    return reinterpret_cast<const std::atomic<int32_t>*>(control.stop)->load(std::memory_order_relaxed) != 0;
}

void add_done(const Control& control, size_t pairs) {
    reinterpret_cast<std::atomic<int64_t>*>(control.done)->fetch_add(static_cast<int64_t>(pairs), std::memory_order_relaxed);
}

struct Candidate {
    double score;
    int32_t doc;
    bool operator<(const Candidate& other) const { return ranks_before(score, doc, other.score, other.doc); }
};

// The best documents of one query so far. Documents come in ascending order, so among equal scores the
// first to come is the first to stay. One more than k shows whether the cut divides a tie.
class Shortlist {
public:
    Shortlist(const Request& request, const int64_t* excluded, const int64_t* excluded_end)
        : k_(request.k), keep_ties_(request.keep_ties), depth_(request.k + (request.keep_ties ? 0 : 1)), excluded_(excluded), excluded_end_(excluded_end) {}

    // What a document must reach; below every score while there are too few.
    double floor() const { return floor_; }
    bool full() const { return full_; }

    void offer(int32_t doc, double score) {
        if (full_ && !scores_above(score, floor_) && !(keep_ties_ && scores_tie(score, floor_))) return;
        while (excluded_ != excluded_end_ && *excluded_ < doc) ++excluded_;
        if (excluded_ != excluded_end_ && *excluded_ == doc) return;
        candidates_.push_back({score, doc});
        if (!full_ ? candidates_.size() >= depth_ : candidates_.size() >= room_) shorten();
    }

    // Sets the floor by what there is.
    void shorten() {
        if (candidates_.size() < depth_) return;
        const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(depth_ - 1);
        std::nth_element(candidates_.begin(), last, candidates_.end());
        floor_ = last->score;
        full_ = true;
        const auto end = keep_ties_ ? std::partition(last + 1, candidates_.end(), [&](const Candidate& c) { return scores_tie(c.score, floor_); }) : last + 1;
        candidates_.erase(end, candidates_.end());
        room_ = candidates_.size() + std::max<size_t>(depth_, 256);
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
    size_t room_ = 0;
    bool full_ = false;
    double floor_ = -std::numeric_limits<double>::infinity();
    std::vector<Candidate> candidates_;
    const int64_t* excluded_;
    const int64_t* excluded_end_;
};

// One term of a query and what is left of its inverted list.
struct List {
    size_t term;
    double weight;
    double bound;  // of the size of its products
    int64_t at, end;
    bool left_out;
};

}  // namespace

struct Query {
    std::vector<List> lists;        // by term
    std::vector<uint32_t> cheapest;  // of the lists: those first whose products are small for their length
    double off = 0.0;               // two sums of these products, in different orders, differ by less
    Shortlist shortlist;
};

namespace {

double length_of(const List& list) { return static_cast<double>(list.end - list.at); }

// Chooses the lists that the k-th document can do without; returns what they can add to a score at most.
double leave_out(Query& query) {
    double most = 0.0;
    if (!query.shortlist.full() || !(query.shortlist.floor() > 0.0)) return most;
    for (List& list : query.lists) list.left_out = false;
    for (const uint32_t i : query.cheapest) {
        List& list = query.lists[i];
        if (most + list.bound > share_left_out * query.shortlist.floor()) break;
        most += list.bound;
        list.left_out = true;
    }
    return most;
}

template <class Weight>
void add_products(const int32_t* docs, const Weight* weights, int64_t count, double factor, int32_t first, double* sums) {
    for (int64_t i = 0; i < count; ++i) sums[docs[i] - first] += factor * static_cast<double>(weights[i]);
}

}  // namespace

template <class Weight>
Index<Weight>::Index(const Rows<Weight>& docs, size_t n_terms)
    : docs_(docs), offsets_(n_terms + 1, 0), numbers_(static_cast<size_t>(docs.offsets[docs.count])), weights_(numbers_.size()), largest_(n_terms, 0.0) {
    const size_t n_elements = numbers_.size();
    for (size_t i = 0; i < n_elements; ++i) ++offsets_[static_cast<size_t>(docs.terms[i]) + 1];
    for (size_t term = 0; term < n_terms; ++term) offsets_[term + 1] += offsets_[term];
    std::vector<int64_t> next(offsets_.begin(), offsets_.end() - 1);
    for (size_t doc = 0; doc < docs.count; ++doc) {
        for (int64_t i = docs.offsets[doc]; i < docs.offsets[doc + 1]; ++i) {
            const size_t term = static_cast<size_t>(docs.terms[i]);
            const size_t place = static_cast<size_t>(next[term]++);
            numbers_[place] = static_cast<int32_t>(doc);
            weights_[place] = docs.weights[i];
            largest_[term] = std::max(largest_[term], std::fabs(static_cast<double>(docs.weights[i])));
        }
    }
}

template <class Weight>
Best Index<Weight>::search(const Rows<double>& rows, const Request& request, const Excluded& excluded, Control control) const {
    std::vector<Query> queries;
    queries.reserve(rows.count);
    for (size_t q = 0; q < rows.count; ++q) {
        queries.push_back({{}, {}, 0.0, Shortlist(request, excluded.docs + excluded.offsets[q], excluded.docs + excluded.offsets[q + 1])});
        Query& query = queries.back();
        for (int64_t i = rows.offsets[q]; i < rows.offsets[q + 1]; ++i) {
            const size_t term = static_cast<size_t>(rows.terms[i]);
            const List list{term, rows.weights[i], std::fabs(rows.weights[i]) * largest_[term], offsets_[term], offsets_[term + 1], false};
            if (list.weight == 0.0 || list.at == list.end) continue;
            query.cheapest.push_back(static_cast<uint32_t>(query.lists.size()));
            query.lists.push_back(list);
            query.off += list.bound;
        }
        query.off *= 4.0 * roundoff * static_cast<double>(query.lists.size() + 2);  // Higham, Accuracy and Stability, ch. 4
        std::sort(query.cheapest.begin(), query.cheapest.end(), [&](uint32_t a, uint32_t b) {
            return query.lists[a].bound * length_of(query.lists[b]) < query.lists[b].bound * length_of(query.lists[a]);
        });
    }
    std::vector<double> sums(block_docs, 0.0), dense(largest_.size(), 0.0);
    for (size_t start = 0; start < docs_.count; start += block_docs) {
        const size_t end = std::min(docs_.count, start + block_docs);
        for (Query& query : queries) {
            if (stopped(control)) return {};
            search_block(query, start, end, sums, dense);
            add_done(control, end - start);
        }
    }
    Best best;
    for (Query& query : queries) query.shortlist.finish(best);
    return best;
}

// `sums` and `dense` hold zeros before and after.
template <class Weight>
void Index<Weight>::search_block(Query& query, size_t start, size_t end, std::vector<double>& sums, std::vector<double>& dense) const {
    Shortlist& shortlist = query.shortlist;
    const double left_out = leave_out(query);
    for (List& list : query.lists) {
        if (list.left_out) continue;
        const auto first = numbers_.begin(), last = first + list.end;
        const auto from = std::lower_bound(first + list.at, last, static_cast<int32_t>(start));
        const auto to = std::lower_bound(from, last, static_cast<int32_t>(end));
        add_products(numbers_.data() + (from - first), weights_.data() + (from - first), to - from, list.weight,
                     static_cast<int32_t>(start), sums.data());
        list.at = to - first;
    }
    const size_t count = end - start;
    if (left_out == 0.0) {
        for (size_t i = 0; i < count; ++i) {
            if (!(sums[i] < shortlist.floor())) shortlist.offer(static_cast<int32_t>(start + i), sums[i]);
        }
    } else {
        for (const List& list : query.lists) dense[list.term] = list.weight;
        for (size_t i = 0; i < count; ++i) {
            if (sums[i] + left_out + query.off < shortlist.floor()) continue;
            double score = 0.0;
            for (int64_t at = docs_.offsets[start + i]; at < docs_.offsets[start + i + 1]; ++at) {
                const double weight = dense[static_cast<size_t>(docs_.terms[at])];
                if (weight != 0.0) score += weight * static_cast<double>(docs_.weights[at]);
            }
            shortlist.offer(static_cast<int32_t>(start + i), score);
        }
        for (const List& list : query.lists) dense[list.term] = 0.0;
    }
    shortlist.shorten();
    std::fill(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
}

template class Index<float>;
template class Index<double>;

}  // namespace assay::sparse
