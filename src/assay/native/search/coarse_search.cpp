#include "search/coarse_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "exact/element_types.hpp"
#include "search/coarse_queries.hpp"
#include "search/cpu.hpp"
#include "search/decider.hpp"
#include "search/query_subset.hpp"
#include "trec/compiler.hpp"
#include "trec/parallel.hpp"

namespace assay {

namespace {

constexpr double kSaneBound = 1e30;
// From these on 16 bits pay: with fewer, it takes as long to make them.
constexpr size_t kFewestWideQueries = 128, kFewestWideDocs = 4096, kFewestWideColumns = 96;
constexpr size_t kWideShare = 64;  // documents for each that is to be found

}  // namespace

const CoarseKernels& coarse_kernels() {
#if defined(ASSAY_X86_KERNELS)
    const Simd simd = selected_simd();
    if (simd == Simd::avx512 && __builtin_cpu_supports("avx512vnni")) return avx512vnni_coarse_kernels();
#if defined(ASSAY_AVXVNNI)
    if (simd >= Simd::avx2 && has_avxvnni()) return avxvnni_coarse_kernels();
#endif
    if (simd >= Simd::avx2) return avx2_coarse_kernels();
#elif defined(ASSAY_ARM_KERNELS)
    if (selected_simd() == Simd::neon && has_neon_dot()) return neon_coarse_kernels();
#endif
    return plain_coarse_kernels();
}

namespace {

// As `widened_rows`, by the widest vectors of this machine.
const float* rows_at(const void* rows, ElementType element_type, size_t row, size_t count, size_t columns, float* room) {
    const char* at = static_cast<const char*>(rows) + row * columns * kElementBytes[static_cast<size_t>(element_type)];
    if (element_type == ElementType::wide) return reinterpret_cast<const float*>(at);
    search_kernels().widen(at, element_type, count * columns, room);
    return room;
}

}  // namespace

Rotation::Rotation(const float* signs, const float* axis, size_t columns) : signs_(signs, signs + columns) {
    if (std::all_of(axis, axis + columns, [](float each) { return each == 0.0f; })) return;
    axis_.resize((columns + 31) / 32 * 32);
    for (size_t i = 0; i < columns; ++i) axis_[i] = axis[i] * signs[i];
}

void coarsen(const CoarseProduct& product, const StoredRows& rows, Turn turn, unsigned threads, uint8_t* panels, const CoarseRows& out,
             const Measuring* measuring) {
    const size_t count = rows.count, columns = rows.columns, bytes = product.panel_bytes(columns), n_panels = panels_of(count);
    const unsigned parts = count * columns < 100000 ? 1u : std::max(1u, threads);
    run_together(parts, [&](unsigned part) {
        std::vector<uint8_t> codes(bytes);
        const Scratch room(rows.element_type == ElementType::wide ? 0 : kPanel * columns);
        for (size_t panel = n_panels * part / parts; panel < n_panels * (part + 1) / parts; ++panel) {
            const size_t first = panel * kPanel, some = std::min(kPanel, count - first);
            const float* wide = rows_at(rows.rows, rows.element_type, first, some, columns, room.data());
            if (measuring != nullptr) coarse_kernels().measure(wide, some, columns, *measuring, first);
            product.quantise(wide, some, columns, turn, kDocLimits,
                             {codes.data(), out.step + first, out.residual + first, out.norm + first, out.lean + first});
            product.fill_panel(codes.data(), some, product.steps(columns), panels + panel * bytes);
        }
    });
}

CoarseDocs::CoarseDocs(const DocRows& rows_of_docs, const uint8_t* codes, const CoarseRows& rows, const float* signs, const float* axis)
    : CoarseDocs(rows_of_docs, coarse_kernels().narrow, Rotation(signs, axis, rows_of_docs.exact.columns)) {
    panels = codes;
    fill(0, docs.exact.count, rows);
}

CoarseDocs::CoarseDocs(const DocRows& rows, const CoarseProduct& by, Rotation rotation) : docs(rows), product(by), turned(std::move(rotation)) {
    const size_t n_panels = panels_of(docs.exact.count), padded = n_panels * kPanel;
    for (std::vector<float>* each : {&factor, &spread, &bias, &lean, &reach, &off}) each->resize(padded);
    panel_reach.resize(n_panels);
    panel_off.resize(n_panels);
    shifted = std::any_of(docs.bias, docs.bias + docs.exact.count, [](float each) { return each != 0.0f; });
}

void CoarseDocs::fill(size_t first, size_t count, const CoarseRows& rows) {
    for (size_t i = 0; i < count; ++i) fill_document(first + i, rows.step[i], rows.residual[i], rows.norm[i], rows.lean[i]);
    n_filled += static_cast<double>(count);
}

void CoarseDocs::fill_document(size_t doc, float step, float residual, float norm, float leans) {
    const float scale = docs.scale[doc], size = std::isinf(docs.bias[doc]) ? 0.0f : std::fabs(docs.bias[doc]);
    const auto columns = static_cast<float>(docs.exact.columns);
    factor[doc] = scale * step;
    spread[doc] = scale * residual * kRoundedUp;
    reach[doc] = scale * norm * kRoundedUp;
    bias[doc] = docs.bias[doc];
    lean[doc] = scale * leans;
    const float tiny = columns * 0x1p-115f;  // what may underflow
    // the queries' length is at most kMostLength
    const float along = std::fabs(lean[doc]), apart = (columns / 4 + 64) * 0x1p-24f, slack = static_cast<float>(kCompareSlack);
    const float leaning = turned.view().axis == nullptr ? 0.0f : (along * slack + (along + reach[doc]) * apart) * kMostLength * kMostLength;
    off[doc] = (docs.bound[doc] + size * slack + leaning + tiny) * kRoundedUp;
    shifted |= along != 0.0f;
    sane &= off[doc] < kSaneBound && reach[doc] < kSaneBound && factor[doc] < kSaneBound;
    const size_t panel = doc / kPanel;
    panel_reach[panel] = std::max(panel_reach[panel], reach[doc]);
    panel_off[panel] = std::max(panel_off[panel], off[doc]);
    widest_reach = std::max(widest_reach, reach[doc]);
    widest_spread = std::max(widest_spread, spread[doc]);
    widest_off = std::max(widest_off, off[doc]);
    all_reach += reach[doc];
    all_spread += spread[doc];
}

const uint8_t* WideDocs::codes_of(size_t first_panel, size_t n_panels) {
    const DocRows& rows = docs.docs;
    const size_t first = first_panel * kPanel, count = std::min(n_panels * kPanel, rows.exact.count - first), columns = rows.exact.columns;
    const bool as_stored = rows.rows == nullptr;
    const size_t bytes = columns * (as_stored ? kElementBytes[static_cast<size_t>(rows.exact.element_type)] : sizeof(float));
    const void* matrix = as_stored ? rows.exact.rows : rows.rows;
    codes_.resize(n_panels * docs.product.panel_bytes(columns));
    numbers_.resize(4 * count);
    float* at = numbers_.data();
    const CoarseRows coarse = {nullptr, at, at + count, at + 2 * count, at + 3 * count};
    coarsen(docs.product, {static_cast<const char*>(matrix) + first * bytes, as_stored ? rows.exact.element_type : ElementType::wide, count, columns}, {}, 1,
            codes_.data(), coarse);
    docs.fill(first, count, coarse);
    return codes_.data();
}

namespace {

// The products of pairs whose documents are all within some rows from `first` on.
void multiply_stored(const QueryRows& queries, const DocRows& docs, size_t first, const Pairs& pairs, float* room, float* products) {
    const size_t columns = docs.exact.columns;
    std::vector<uint32_t> local(pairs.count);
    bool widened[kPairedRows] = {};
    for (size_t i = 0; i < pairs.count; ++i) {
        const size_t at = pairs.docs[i] - first;
        local[i] = static_cast<uint32_t>(at);
        if (!std::exchange(widened[at], true)) rows_at(docs.exact.rows, docs.exact.element_type, pairs.docs[i], 1, columns, room + at * columns);
    }
    coarse_kernels().multiply(queries.rows, room, columns, {pairs.queries, local.data(), pairs.count}, products);
}

}  // namespace

Column<float> products_of(const QueryRows& queries, const DocRows& docs, const std::vector<size_t>& offsets, const uint32_t* candidates) {
    const size_t columns = docs.exact.columns, n_docs = docs.exact.count;
    const auto multiply = [&](const Pairs& pairs, float* products) {
        if (docs.rows != nullptr) return coarse_kernels().multiply(queries.rows, docs.rows, columns, pairs, products);
        const Scratch room(kPairedRows * columns);
        for (size_t i = 0, end = 0; i < pairs.count; i = end) {
            const size_t first = pairs.docs[i] / kPairedRows * kPairedRows;
            while (end < pairs.count && pairs.docs[end] < first + kPairedRows) ++end;
            multiply_stored(queries, docs, first, {pairs.queries + i, pairs.docs + i, end - i}, room.data(), products + i);
        }
    };
    return by_document<float>(n_docs, offsets, candidates, multiply, paired_rows(n_docs, offsets));
}

// Candidates of one coarse scan. Floors rise by guessing where guesses are allowed; a query whose
// guess turns out to be too high is left unsettled, with what is certain, to be searched for again.
class CoarseReceiver {
public:
    CoarseReceiver(TopK& top, Metric metric, const QueryRows& queries, const CoarseDocs& docs, const Excluded& excluded, Range range,
                   Start start)
        : top_(top), decider_(metric, queries, docs.docs), rows_(queries), queries_(queries, docs.product, docs.turned.view()), docs_(docs), excluded_(excluded),
          range_(range), may_guess_(start.may_guess), room_(docs.product, top.k_, 4 * top.k_ + 1024, range.to - range.from), capacity_(room_.most), states_(queries.exact.count),
          scan_floor_(queries_.step.size(), kNever), certain_(queries.exact.count), candidates_(queries.exact.count * capacity_) {
        top.floors(queries, docs.docs, certain_.data());
        for (size_t query = 0; query < states_.size(); ++query) {
            if (start.least != nullptr) certain_[query] = std::max(certain_[query], start.least[query]);
            begin(query);
        }
    }

    void scan(const CodesOf& codes_of, Control control);
    void finish(const volatile int32_t* stop);

    // The queries that are still to be searched for: by guesses that were too high, or by candidates
    // that were too many. `floors` are certain.
    std::vector<uint32_t> misguessed, crowded;
    const std::vector<float>& floors() const { return certain_; }

private:
    static constexpr double kDeviations = 2.5;
    static constexpr size_t kMostDecided = 3 << 19, kNearlyDone = 4;

    struct Candidate {
        float score;
        uint32_t at;
    };
    struct State {
        float floor;
        bool guessed, abandoned, excluding;
        size_t count, limit;
        double step, lean;
    };

    static void receive(void* self, size_t query, size_t first, const int32_t* sums, uint32_t mask) {
        static_cast<CoarseReceiver*>(self)->keep(query, first, sums, mask);
    }
    static void expect(void* self, size_t query) {
        const auto* receiver = static_cast<CoarseReceiver*>(self);
        prefetch(receiver->candidates_.data() + query * receiver->capacity_ + receiver->states_[query].count);
    }

    Candidate* candidates_of(size_t query) { return candidates_.data() + query * capacity_; }

    void begin(size_t query) {
        const double early = static_cast<double>(guessed_rank(top_.k_, kStages[0]));
        const size_t limit = std::min(capacity_, std::max<size_t>(128, static_cast<size_t>(6 * early)));
        const bool excluding = excluded_.offsets[query] < excluded_.offsets[query + 1];
        states_[query] = {certain_[query], false, false, excluding, 0, limit, queries_.step[query], queries_.lean[query]};
        if (std::isnan(rows_.rows[query * rows_.exact.columns])) return;  // without direction: it finds nothing
        queries_.is_sane(query) ? set_floor(query, certain_[query]) : give_up(query);
    }

    void set_floor(size_t query, float floor) {
        states_[query].floor = floor;
        const double exact = static_cast<double>(floor) / queries_.step[query];
        scan_floor_[query] = static_cast<float>(exact - std::fabs(exact) * kCompareSlack);
    }

    void give_up(size_t query) {
        states_[query].abandoned = true;
        states_[query].count = 0;
        scan_floor_[query] = kNever;
        crowded.push_back(static_cast<uint32_t>(query));
    }

    // By how much the score of a candidate may be off.
    double error_of(size_t query, size_t doc) const {
        const double in_steps = static_cast<double>(queries_.residual[query]) * docs_.reach[doc] +
                                static_cast<double>(queries_.size[query]) * docs_.spread[doc];
        return in_steps * queries_.step[query] + docs_.off[doc];
    }
    double widest_error(size_t query) const {
        const double in_steps = static_cast<double>(queries_.residual[query]) * docs_.widest_reach +
                                static_cast<double>(queries_.size[query]) * docs_.widest_spread;
        return in_steps * queries_.step[query] + docs_.widest_off;
    }

    // Errors of columns are independent, so that their sum is far less than the bound.
    float usual_error(size_t query) const {
        const double in_steps = (queries_.residual[query] * docs_.all_reach + queries_.size[query] * docs_.all_spread) / docs_.n_filled;
        return static_cast<float>(kDeviations * in_steps * queries_.step[query] / std::sqrt(static_cast<double>(rows_.exact.columns)));
    }

    void keep(size_t query, size_t first, const int32_t* sums, uint32_t mask) {
        State& state = states_[query];
        if (state.count + kPanel > state.limit) make_room(query);
        if (state.abandoned) return;
        if (state.excluding) mask = without_excluded(query, first, mask);
        Candidate* next = candidates_of(query) + state.count;
        for (; mask != 0; mask &= mask - 1) {
            const size_t bit = static_cast<size_t>(lowest_bit(mask)), doc = first + bit;
            const double shift = docs_.shifted ? docs_.bias[doc] + state.lean * docs_.lean[doc] : 0.0;
            *next++ = {static_cast<float>(shift + state.step * docs_.factor[doc] * sums[bit]), static_cast<uint32_t>(doc)};
        }
        state.count = static_cast<size_t>(next - candidates_of(query));
    }

    uint32_t without_excluded(size_t query, size_t first, uint32_t mask) const {
        for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
            const int bit = lowest_bit(rest);
            if (excluded_.holds(query, docs_.docs.first + static_cast<int64_t>(first) + bit)) mask &= ~(uint32_t{1} << bit);
        }
        return mask;
    }

    void make_room(size_t query) {
        State& state = states_[query];
        if (guesses()) {
            guess(query);
        } else if (!state.guessed) {
            certify(query);
        }
        cut_by_widest(query);
        if (state.count > state.limit / 2) grow(query);
    }

    // Leaves room for a panel, or gives the query up.
    void grow(size_t query) {
        State& state = states_[query];
        state.limit = std::min(capacity_, 2 * state.limit);
        if (has_room(state)) return;
        certify(query);
        cut(query);
        if (!has_room(state)) give_up(query);
    }

    // Whether to score so few canonically takes less time than to find out in float32 which of them may be spared.
    bool is_nearly_done(size_t query) const {
        return !rows_.exact.doubled && !docs_.docs.exact.doubled && states_[query].count <= kNearlyDone * top_.k_;
    }

    static bool has_room(const State& state) { return state.count <= state.limit - state.limit / 4; }

    // Whether the k-th best of all documents is expected further down than the best of those seen.
    bool guesses() const { return may_guess_ && rank_ < top_.k_; }

    void guess(size_t query) {
        if (guesses()) guess_from(query, rank_);
    }

    // After a share of the documents: guesses, and gives a query up whose candidates will be too many.
    void look_ahead(size_t query, double share) {
        guess(query);
        if (!may_guess_ || !room_.will_crowd(states_[query].count, share)) return;
        cut(query);
        if (room_.will_crowd(states_[query].count, share)) give_up(query);
    }

    // Takes the rank-th best score, less what codes usually are off, for what the k-th best of all
    // documents will reach: copies of a document are all off by the same.
    void guess_from(size_t query, size_t rank) {
        State& state = states_[query];
        if (state.count < rank) return;
        const Candidate* candidate = candidates_of(query);
        work_.resize(state.count);
        for (size_t i = 0; i < state.count; ++i) work_[i] = candidate[i].score;
        const float floor = reached_by(work_.data(), state.count, rank) - usual_error(query);
        if (!(floor > state.floor)) return;
        set_floor(query, floor);
        state.guessed = true;
    }

    // Raises the floor to what k candidates score at least.
    void certify(size_t query) {
        State& state = states_[query];
        if (state.count < top_.k_) return;
        const Candidate* candidate = candidates_of(query);
        work_.resize(state.count);
        for (size_t i = 0; i < state.count; ++i) {
            work_[i] = static_cast<float>(candidate[i].score - error_of(query, candidate[i].at) * (1 + kCompareSlack));
        }
        certain_[query] = std::max(certain_[query], reached_by(work_.data(), state.count, top_.k_));
        if (certain_[query] < state.floor) return;
        set_floor(query, certain_[query]);
        state.guessed = false;
    }

    // Drops candidates that cannot reach the floor.
    void cut(size_t query) {
        cut_by_widest(query);
        const double floor = floor_of_candidates(query);
        keep_if(query, [&](const Candidate& candidate) { return candidate.score + error_of(query, candidate.at) >= floor; });
    }

    // Drops those that cannot reach it even with the largest error of all documents, which is sooner told.
    void cut_by_widest(size_t query) {
        const auto least = static_cast<float>(floor_of_candidates(query) - widest_error(query) * (1 + kCompareSlack));
        keep_if(query, [least](const Candidate& candidate) { return candidate.score >= least; });
    }

    double floor_of_candidates(size_t query) const {
        const double floor = states_[query].floor;
        return floor - std::fabs(floor) * kCompareSlack;
    }

    template <class Test>
    void keep_if(size_t query, Test test) {
        Candidate* candidate = candidates_of(query);
        size_t count = 0;
        for (size_t i = 0, end = states_[query].count; i < end; ++i) {
            const Candidate current = candidate[i];  // not read where it was just written: that would wait
            candidate[count] = current;
            count += test(current);
        }
        states_[query].count = count;
    }

    size_t settle_from(size_t query);
    void settle(size_t query, const uint32_t* at, const float* products, size_t count, Column<uint32_t>& left);
    void take(size_t query, const uint32_t* at, const double* scores, size_t count);

    TopK& top_;
    Decider decider_;
    const QueryRows& rows_;
    CoarseQueries queries_;
    const CoarseDocs& docs_;
    const Excluded& excluded_;
    Range range_;
    bool may_guess_;
    Room room_;
    size_t capacity_, rank_ = 0;
    std::vector<State> states_;
    std::vector<float> scan_floor_, certain_, work_;
    Column<Candidate> candidates_;  // not touched before they are used
};

void CoarseReceiver::scan(const CodesOf& codes_of, Control control) {
    CoarseScan scan = scan_of(queries_, docs_, states_.size(), range_);
    scan.floor = scan_floor_.data();
    scan.receiver = this;
    scan.receive = receive;
    scan.expect = expect;
    const auto begin = [&](double share) { rank_ = guessed_rank(top_.k_, share); };
    const auto end = [&](double share) {
        for (size_t query = 0; query < states_.size(); ++query) {
            if (!states_[query].abandoned) look_ahead(query, share);
        }
    };
    meet_chunks(docs_, codes_of, scan, queries_.n_groups, control, begin, end);
}

void CoarseReceiver::finish(const volatile int32_t* stop) {
    for (size_t query = 0; query < states_.size(); ++query) {
        if (!states_[query].guessed) certify(query);
        if (may_guess_) guess_from(query, top_.k_);  // all documents were seen
        cut(query);
    }
    for (size_t query = 0; query < states_.size() && *stop == 0;) query = settle_from(query);
}

// Scores candidates again in float32, then canonically, for as many queries as fit the work space;
// the first left over.
size_t CoarseReceiver::settle_from(size_t query) {
    const size_t first = query;
    std::vector<size_t> offsets(first + 1, 0);
    Column<uint32_t> candidates;
    size_t n_pairs = 0;
    const auto append = [this](size_t q, auto& places) {
        const Candidate* candidate = candidates_of(q);
        uint32_t* next = places.extend(states_[q].count);
        for (size_t i = 0; i < states_[q].count; ++i) next[i] = candidate[i].at;
    };
    for (; query < states_.size() && (query == first || n_pairs + states_[query].count <= kMostDecided); ++query) {
        n_pairs += states_[query].count;
        if (!is_nearly_done(query)) append(query, candidates);
        offsets.push_back(candidates.size());
    }
    Column<float> products = products_of(rows_, docs_.docs, offsets, candidates.data());
    Column<uint32_t> left;
    std::vector<size_t> left_offsets(first + 1, 0);
    for (size_t q = first; q < query; ++q) {
        is_nearly_done(q) ? append(q, left) : settle(q, candidates.data() + offsets[q], products.data() + offsets[q], offsets[q + 1] - offsets[q], left);
        left_offsets.push_back(left.size());
    }
    candidates = {}, products = {};  // room for what scoring takes
    const Column<double> scores = decider_.scores(left_offsets, left.data());
    for (size_t q = first; q < query; ++q) {
        take(q, left.data() + left_offsets[q], scores.data() + left_offsets[q], left_offsets[q + 1] - left_offsets[q]);
    }
    return query;
}

// Of the candidates of a query, those that may be among its best k by their float32 scores.
void CoarseReceiver::settle(size_t query, const uint32_t* at, const float* products, size_t count, Column<uint32_t>& left) {
    const DocRows& docs = docs_.docs;
    float floor = certain_[query];
    work_.resize(2 * count);
    float *least = work_.data(), *most = least + count;
    for (size_t i = 0; i < count; ++i) {
        const float score = docs.bias[at[i]] + docs.scale[at[i]] * products[i], bound = docs.bound[at[i]];
        least[i] = score - bound;
        most[i] = score + bound;
    }
    if (count >= top_.k_) floor = std::max(floor, reached_by(least, count, top_.k_));
    uint32_t* next = left.extend(count);
    const uint32_t* const first = next;
    for (size_t i = 0; i < count; ++i) {
        *next = at[i];
        next += most[i] >= floor;
    }
    left.shrink(left.size() - count + static_cast<size_t>(next - first));
}

// Takes candidates over if no document below a guessed floor can be among the best k.
void CoarseReceiver::take(size_t query, const uint32_t* at, const double* scores, size_t count) {
    if (states_[query].abandoned) return;
    const std::vector<Scored> best = top_.merged(query, docs_.docs.first, at, scores, count);
    if (states_[query].guessed) {
        const float reached = best.size() < top_.k_ ? kNoFloor : limits_of(best[top_.k_ - 1].score, rows_, docs_.docs, query).low;
        if (reached < states_[query].floor) {
            certain_[query] = std::max(certain_[query], reached);
            misguessed.push_back(static_cast<uint32_t>(query));
            return;
        }
    }
    top_.best_[query].assign(best.begin(), best.end());
}

namespace {

// Queries that a coarse scan leaves open: their guesses were too high, or their candidates too many.
struct Open {
    std::vector<uint32_t> misguessed, crowded;
    std::vector<float> floors;  // certain ones
};

// The arguments that all steps of a search share.
struct Sought {
    Metric metric;
    Range range;
    Control control;

    Sought again(int64_t& counted_already) const { return {metric, range, {control.stop, &counted_already}}; }
};

Open scan_once(TopK& top, const Sought& sought, const QueryRows& queries, const CoarseDocs& docs, const CodesOf& codes_of,
               const Excluded& excluded, Start start) {
    CoarseReceiver receiver(top, sought.metric, queries, docs, excluded, sought.range, start);
    receiver.scan(codes_of, sought.control);
    if (!docs.sane) return {};
    receiver.finish(sought.control.stop);
    return {receiver.misguessed, receiver.crowded, receiver.floors()};
}

// Lets `search(top, queries, excluded, start)` look for some of the queries again, by floors that are certain.
template <class Search>
void scan_again(TopK& top, const Sought& sought, const QueryRows& queries, const Excluded& excluded, const std::vector<uint32_t>& places,
                const Open& open, bool may_guess, Search search) {
    if (places.empty() || *sought.control.stop != 0) return;
    QuerySubset subset(queries, excluded, top, places, open.floors);
    search(subset.top(), subset.rows(), subset.excluded(), Start{subset.floors(), may_guess});
}

void scan_narrow(TopK& top, const Sought& sought, const QueryRows& queries, const CoarseDocs& docs, const Excluded& excluded, Start start) {
    const auto codes_of = [&docs](size_t first, size_t) { return docs.panels + first * docs.product.panel_bytes(docs.docs.exact.columns); };
    const Open open = scan_once(top, sought, queries, docs, codes_of, excluded, start);
    int64_t counted_already = 0;
    const Sought rest = sought.again(counted_already);
    scan_again(top, rest, queries, excluded, open.misguessed, open, false,
               [&](TopK& part, const QueryRows& rows, const Excluded& barred, Start from) { scan_narrow(part, rest, rows, docs, barred, from); });
    scan_again(top, rest, queries, excluded, open.crowded, open, true, [&](TopK& part, const QueryRows& rows, const Excluded& barred, Start from) {
        scan_wide(part, rest.metric, rows, docs.docs, barred, rest.range, rest.control, from);
    });
}

}  // namespace

// Whether it pays to look at documents in 16 bits before the float32 product.
bool suits_16_bits(size_t n_queries, size_t k, const DocRows& docs, Range range) {
    const size_t columns = docs.exact.columns, n_docs = range.to - range.from;
    return coarse_kernels().wide.scan != nullptr && docs.measuring == nullptr && n_queries >= kFewestWideQueries && n_docs >= kFewestWideDocs &&
           n_docs >= kWideShare * k && columns >= kFewestWideColumns && columns <= kMostCoarseColumns;
}

void scan_wide(TopK& top, Metric metric, const QueryRows& queries, const DocRows& docs, const Excluded& excluded, Range range, Control control,
               Start start) {
    const bool suited = suits_16_bits(queries.exact.count, top.k(), docs, range);
    suited ? scan_16_bits(top, metric, queries, docs, excluded, range, control, start)
           : top.scan(metric, queries, docs, excluded, range, control, start);
}

void scan_16_bits(TopK& top, Metric metric, const QueryRows& queries, const DocRows& docs, const Excluded& excluded, Range range,
                  Control control, Start start) {
    if (range.from >= range.to) return;
    WideDocs wide(docs);
    const Sought sought = {metric, range, control};
    const auto codes_of = [&wide](size_t first, size_t count) { return wide.codes_of(first, count); };
    const Open open = scan_once(top, sought, queries, wide.docs, codes_of, excluded, start);
    int64_t counted_already = 0;
    const Sought rest = sought.again(counted_already);
    if (!wide.docs.sane) return top.scan(metric, queries, docs, excluded, range, rest.control, start);
    scan_again(top, rest, queries, excluded, open.misguessed, open, false, [&](TopK& part, const QueryRows& rows, const Excluded& barred, Start from) {
        scan_wide(part, metric, rows, docs, barred, range, rest.control, from);
    });
    scan_again(top, rest, queries, excluded, open.crowded, open, true, [&](TopK& part, const QueryRows& rows, const Excluded& barred, Start from) {
        part.scan(metric, rows, docs, barred, range, rest.control, from);
    });
}

void scan_coarse(TopK& top, Metric metric, const QueryRows& queries, const CoarseDocs& docs, const Excluded& excluded, Range range,
                 Control control) {
    if (range.from >= range.to) return;
    if (!docs.sane) return top.scan(metric, queries, docs.docs, excluded, range, control);
    scan_narrow(top, {metric, range, control}, queries, docs, excluded, {});
}

}  // namespace assay
