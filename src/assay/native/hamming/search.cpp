#include "hamming/search.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "search/cpu.hpp"
#include "trec/compiler.hpp"

namespace assay::hamming {

const Kernels& machine_kernels() {
#if defined(ASSAY_X86_KERNELS)
    const Simd simd = selected_simd();
    if (simd == Simd::avx512 && __builtin_cpu_supports("avx512bitalg")) return avx512_kernels();
    if (simd >= Simd::avx2) return avx2_kernels();
#endif
    return plain_kernels();
}

namespace {

// Panels of documents that are compared with all queries before the next ones are read: about as
// much as the first-level cache holds.
constexpr size_t pass_bytes = 24 << 10;

bool stopped(const Control& control) {
    return reinterpret_cast<const std::atomic<int32_t>*>(control.stop)->load(std::memory_order_relaxed) != 0;
}

void add_done(const Control& control, size_t pairs) {
    reinterpret_cast<std::atomic<int64_t>*>(control.done)->fetch_add(static_cast<int64_t>(pairs), std::memory_order_relaxed);
}

// All queries, laid out for the comparison in teams of eight.
class Teams {
public:
    Teams(const Kernels& kernels, const Rows& queries)
        : count((queries.count + team_queries - 1) / team_queries), bytes_(kernels.team_bytes(queries.row_bytes)), packed_(count * bytes_) {
        for (size_t team = 0; team < count; ++team) {
            const size_t first = team * team_queries;
            kernels.pack_queries(queries.data + first * queries.row_bytes, std::min(team_queries, queries.count - first),
                                 queries.row_bytes, packed_.data() + team * bytes_);
        }
    }
    const uint8_t* operator[](size_t team) const { return packed_.data() + team * bytes_; }

    const size_t count;

private:
    size_t bytes_;
    Column<uint8_t> packed_;
};

// The panels of one pass over the queries.
struct Pass {
    const uint8_t* panels;
    size_t n_panels;
    size_t first, end;  // its documents, numbered from 0
};

// Lays out the documents pass by pass and hands each pass to `work`; ends early when told to.
template <class Work>
void for_each_pass(const Kernels& kernels, const Rows& docs, size_t n_queries, Control control, Work work) {
    const size_t panel_bytes = kernels.panel_bytes(docs.row_bytes);
    const size_t most = std::max<size_t>(1, pass_bytes / panel_bytes);
    Column<uint8_t> panels(most * panel_bytes);
    for (size_t first = 0; first < docs.count && !stopped(control); first += most * panel_docs) {
        const size_t end = std::min(docs.count, first + most * panel_docs);
        const size_t n_panels = (end - first + panel_docs - 1) / panel_docs;
        for (size_t panel = 0; panel < n_panels; ++panel) {
            const size_t doc = first + panel * panel_docs;
            kernels.pack_docs(docs.data + doc * docs.row_bytes, std::min(panel_docs, end - doc), docs.row_bytes,
                              panels.data() + panel * panel_bytes);
        }
        work(Pass{panels.data(), n_panels, first, end});
        add_done(control, n_queries * (end - first));
    }
}

struct Candidate {
    uint32_t doc;
    uint16_t distance;
};

// The nearest documents of one query so far. Documents come in ascending order, so among equal
// distances the first to come is the first to stay.
class Shortlist {
public:
    Shortlist(const Request& request, const int64_t* excluded, const int64_t* excluded_end)
        : k_(request.k), keep_ties_(request.keep_ties), farthest_(request.bits), counts_(request.bits + 1, 0u),
          excluded_(excluded), excluded_end_(excluded_end) {}

    // Whether any document can still matter, and up to which distance. One document more than k
    // is looked for at the k-th distance: it shows that the cut divides a group of equals.
    bool open() const { return keep_ties_ || within_ <= k_ || farthest_ > 0; }
    uint16_t limit() const { return static_cast<uint16_t>(keep_ties_ || within_ <= k_ ? farthest_ : farthest_ - 1); }
    bool tie_split() const { return !keep_ties_ && within_ > k_; }

    void offer(int64_t number, uint32_t doc, uint16_t distance) {
        if (!open() || distance > limit() || is_excluded(number)) return;
        if (candidates_.size() >= room()) drop_far();
        candidates_.push_back({doc, distance});
        ++counts_[distance];
        ++within_;
        while (within_ - counts_[farthest_] >= k_) within_ -= counts_[farthest_--];
    }

    // Appends documents and distances in their final order.
    void finish(int64_t first_doc, Nearest& nearest) {
        drop_far();
        const size_t count = candidates_.size();
        int32_t* docs = nearest.docs.extend(count);
        int32_t* distances = nearest.distances.extend(count);
        size_t start = 0;
        for (size_t distance = 0; distance <= farthest_; ++distance) {
            const size_t here = counts_[distance];
            counts_[distance] = static_cast<uint32_t>(start);  // from now on: where the next one goes
            start += here;
        }
        for (size_t i = 0; i < count; ++i) {
            const size_t place = counts_[candidates_[i].distance]++;
            docs[place] = static_cast<int32_t>(first_doc + candidates_[i].doc);
            distances[place] = candidates_[i].distance;
        }
        nearest.counts.push_back(static_cast<int64_t>(count));
        nearest.tie_split.push_back(tie_split() ? 1 : 0);
    }

private:
    // As many candidates again as are wanted, within bounds, so that dropping costs little.
    size_t room() const { return (keep_ties_ ? std::max(within_, k_) : k_) + std::clamp<size_t>(k_, 256, 1 << 16); }

    bool is_excluded(int64_t number) {
        while (excluded_ != excluded_end_ && *excluded_ < number) ++excluded_;
        return excluded_ != excluded_end_ && *excluded_ == number;
    }

    // Keeps what is nearer than the k-th distance, and at that distance the first ones to come.
    void drop_far() {
        size_t ties = keep_ties_ || within_ <= k_ ? counts_[farthest_] : k_ - (within_ - counts_[farthest_]);
        size_t count = 0;
        for (size_t i = 0; i < candidates_.size(); ++i) {
            const Candidate candidate = candidates_[i];
            if (candidate.distance > farthest_ || (candidate.distance == farthest_ && ties == 0)) continue;
            if (candidate.distance == farthest_) --ties;
            candidates_[count++] = candidate;
        }
        candidates_.resize(count);
    }

    size_t k_;
    bool keep_ties_;
    size_t farthest_;    // the k-th distance so far; the largest there is while there are fewer
    size_t within_ = 0;  // how many documents are that near or nearer
    std::vector<uint32_t> counts_;  // of documents by distance; exact up to the k-th
    std::vector<Candidate> candidates_;
    const int64_t* excluded_;
    const int64_t* excluded_end_;
};

// Compares one team with the panels of a pass.
void search_pass(const Kernels& kernels, const Pass& pass, const uint8_t* team, size_t row_bytes, int64_t first_doc,
                 Shortlist* lists, size_t n_lists) {
    Comparison comparison{};
    const auto ask = [&](size_t query) {
        comparison.enabled[query] = lists[query].open() ? ~0u : 0;
        comparison.limit[query] = lists[query].open() ? lists[query].limit() : uint16_t{0};
    };
    for (size_t query = 0; query < n_lists; ++query) ask(query);
    size_t at = 0;
    while ((at = kernels.compare(pass.panels, at, pass.n_panels, team, row_bytes, comparison)) < pass.n_panels) {
        const size_t first = pass.first + at * panel_docs;
        for (size_t query = 0; query < n_lists; ++query) {
            for (uint32_t left = comparison.candidates[query]; left != 0; left &= left - 1) {
                const int lane = lowest_bit(left);
                const size_t doc = first + static_cast<size_t>(lane);
                if (doc >= pass.end) break;
                lists[query].offer(first_doc + static_cast<int64_t>(doc), static_cast<uint32_t>(doc), comparison.distance[query][lane]);
            }
            ask(query);
        }
        ++at;
    }
}

void count_pass(const Kernels& kernels, const Pass& pass, const uint8_t* team, size_t row_bytes, size_t bits,
                int64_t* counts, size_t n_queries) {
    Comparison comparison{};
    for (size_t query = 0; query < n_queries; ++query) {
        comparison.enabled[query] = ~0u;
        comparison.limit[query] = static_cast<uint16_t>(largest_bits);
    }
    for (size_t at = 0; at < pass.n_panels; ++at) {
        kernels.compare(pass.panels, at, at + 1, team, row_bytes, comparison);
        const size_t lanes = std::min(panel_docs, pass.end - pass.first - at * panel_docs);
        for (size_t query = 0; query < n_queries; ++query) {
            int64_t* row = counts + query * (bits + 1);
            for (size_t lane = 0; lane < lanes; ++lane) ++row[comparison.distance[query][lane]];
        }
    }
}

}  // namespace

Nearest find_nearest(const Rows& queries, const Rows& docs, const Request& request, const Excluded& excluded, Control control) {
    const Kernels& kernels = machine_kernels();
    const Teams teams(kernels, queries);
    std::vector<Shortlist> lists;
    lists.reserve(queries.count);
    for (size_t q = 0; q < queries.count; ++q) {
        lists.emplace_back(request, excluded.docs + excluded.offsets[q], excluded.docs + excluded.offsets[q + 1]);
    }
    for_each_pass(kernels, docs, queries.count, control, [&](const Pass& pass) {
        for (size_t team = 0; team < teams.count; ++team) {
            const size_t first = team * team_queries;
            search_pass(kernels, pass, teams[team], docs.row_bytes, request.first_doc, lists.data() + first,
                        std::min(team_queries, queries.count - first));
        }
    });
    Nearest nearest;
    for (Shortlist& list : lists) list.finish(request.first_doc, nearest);
    return nearest;
}

void count_distances(const Rows& queries, const Rows& docs, size_t bits, int64_t* counts, Control control) {
    const Kernels& kernels = machine_kernels();
    const Teams teams(kernels, queries);
    for_each_pass(kernels, docs, queries.count, control, [&](const Pass& pass) {
        for (size_t team = 0; team < teams.count; ++team) {
            const size_t first = team * team_queries;
            count_pass(kernels, pass, teams[team], docs.row_bytes, bits, counts + first * (bits + 1),
                       std::min(team_queries, queries.count - first));
        }
    });
}

}  // namespace assay::hamming
