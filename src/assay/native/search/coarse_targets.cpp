// Ranks of targets by coarse products: what is certainly above or below is never looked at again, the
// rest is scored in float32, and canonically where that leaves it open.
#include <memory>

#include "search/coarse_queries.hpp"
#include "search/decider.hpp"
#include "search/query_subset.hpp"
#include "trec/compiler.hpp"

namespace assay {

namespace {

class CoarseTargets {
public:
    CoarseTargets(Metric metric, const QueryRows& queries, const CoarseDocs& docs, const Targets& targets, Range range)
        : metric_(metric), rows_(queries), queries_(queries, docs.product, docs.turned.view()), docs_(docs), targets_(targets), range_(range),
          room_(docs.product, 1, 1024, range.to - range.from), capacity_(room_.most), limits_(queries.exact.count), counts_(limits_.size()),
          floor_(queries_.step.size(), kNever), ceiling_(floor_), above_(limits_.size()), open_(new uint32_t[limits_.size() * capacity_]) {
        for (size_t query = 0; query < limits_.size(); ++query) {
            if (targets.docs[query] >= 0) begin(query);
        }
    }

    void scan(const CodesOf& codes_of, Control control) {
        CoarseScan scan = scan_of(queries_, docs_, limits_.size(), range_);
        scan.floor = floor_.data();
        scan.ceiling = ceiling_.data();
        scan.above = above_.data();
        scan.receiver = this;
        scan.receive = [](void* self, size_t query, size_t first, const int32_t*, uint32_t mask) {
            static_cast<CoarseTargets*>(self)->keep(query, first, mask);
        };
        scan.expect = [](void* self, size_t query) {
            const auto* receiver = static_cast<CoarseTargets*>(self);
            prefetch(receiver->open_.get() + query * receiver->capacity_ + receiver->counts_[query]);
        };
        const auto end = [&](double share) {
            for (size_t query = 0; query < limits_.size(); ++query) {
                if (room_.will_crowd(counts_[query], share)) give_up(query);
            }
        };
        meet_chunks(docs_, codes_of, scan, queries_.n_groups, control, [](double) {}, end);
    }

    void finish(const TargetCounts& counts, const volatile int32_t* stop) {
        for (const uint32_t query : crowded) above_[query] = 0;
        for (size_t query = 0; query < limits_.size(); ++query) counts.above[query] += above_[query];
        for (size_t query = 0; query < limits_.size() && *stop == 0;) query = settle_from(query, counts);
    }

    std::vector<uint32_t> crowded;  // queries that are still to be counted

private:
    static constexpr size_t kMostSettled = 1 << 20;

    void begin(size_t query) {
        if (std::isnan(rows_.rows[query * rows_.exact.columns])) return;  // without direction
        limits_[query] = limits_of(targets_.scores[query], rows_, docs_.docs, query);
        if (!queries_.is_sane(query)) return give_up(query);
        const double low = limits_[query].low / static_cast<double>(queries_.step[query]);
        const double high = limits_[query].high / static_cast<double>(queries_.step[query]);
        floor_[query] = static_cast<float>(low - std::fabs(low) * kCompareSlack);
        ceiling_[query] = static_cast<float>(high + std::fabs(high) * kCompareSlack);
    }

    // For once: nothing reaches its floor any more.
    void give_up(size_t query) {
        floor_[query] = ceiling_[query] = kNever;
        counts_[query] = 0;
        crowded.push_back(static_cast<uint32_t>(query));
    }

    void keep(size_t query, size_t first, uint32_t mask) {
        if (counts_[query] + kPanel > capacity_) give_up(query);
        if (floor_[query] == kNever) return;
        uint32_t* next = open_.get() + query * capacity_ + counts_[query];
        for (; mask != 0; mask &= mask - 1, ++counts_[query]) *next++ = static_cast<uint32_t>(first) + static_cast<uint32_t>(lowest_bit(mask));
    }

    // Settles as many queries as fit the work space; the first left over.
    size_t settle_from(size_t query, const TargetCounts& counts) {
        const size_t first = query;
        std::vector<size_t> offsets(first + 1, 0);
        std::vector<uint32_t> open;
        for (; query < limits_.size() && (query == first || open.size() + counts_[query] <= kMostSettled); ++query) {
            open.insert(open.end(), open_.get() + query * capacity_, open_.get() + query * capacity_ + counts_[query]);
            offsets.push_back(open.size());
        }
        const DocRows& docs = docs_.docs;
        const Column<float> products = products_of(rows_, docs, offsets, open.data());
        std::vector<uint32_t> left;
        std::vector<int64_t> left_offsets(first + 1, 0);
        for (size_t q = first; q < query; ++q) {
            for (size_t i = offsets[q]; i < offsets[q + 1]; ++i) {
                const float score = docs.bias[open[i]] + docs.scale[open[i]] * products[i], bound = docs.bound[open[i]];
                if (score - bound > limits_[q].high) {
                    ++counts.above[q];
                } else if (score + bound >= limits_[q].low) {
                    left.push_back(open[i]);
                }
            }
            left_offsets.push_back(static_cast<int64_t>(left.size()));
        }
        left_offsets.resize(limits_.size() + 1, left_offsets.back());
        decide_targets(metric_, rows_, docs, targets_, left_offsets.data(), left.data(), counts, 1);
        return query;
    }

    Metric metric_;
    const QueryRows& rows_;
    CoarseQueries queries_;
    const CoarseDocs& docs_;
    const Targets& targets_;
    Range range_;
    Room room_;
    size_t capacity_;
    std::vector<Limits> limits_;
    std::vector<size_t> counts_;
    std::vector<float> floor_, ceiling_;
    std::vector<int64_t> above_;
    std::unique_ptr<uint32_t[]> open_;  // documents not decided yet; not touched before they are used
};

// Counts for some queries by `count(queries, targets, counts)`.
template <class Count>
void count_subset(const QueryRows& queries, const Targets& targets, const TargetCounts& counts, const std::vector<uint32_t>& places, Count count) {
    if (places.empty()) return;
    const RowSubset rows(queries, places);
    std::vector<int64_t> numbers, above(places.size()), tied(above), before(above);
    std::vector<double> scores;
    for (const uint32_t query : places) {
        numbers.push_back(targets.docs[query]);
        scores.push_back(targets.scores[query]);
    }
    count(rows.view(), Targets{numbers.data(), scores.data()}, TargetCounts{above.data(), tied.data(), before.data()});
    for (size_t i = 0; i < places.size(); ++i) {
        counts.above[places[i]] += above[i];
        counts.tied[places[i]] += tied[i];
        counts.before[places[i]] += before[i];
    }
}

// Counts by codes, and the queries that these leave too open by `wider(queries, docs, targets, range, counts, control)`.
template <class Wider>
void count_by(Metric metric, const QueryRows& queries, const CoarseDocs& docs, const CodesOf& codes_of, const Targets& targets, Range range,
              const TargetCounts& counts, Control control, Wider wider) {
    CoarseTargets receiver(metric, queries, docs, targets, range);
    receiver.scan(codes_of, control);
    if (*control.stop != 0) return;
    int64_t counted_already = 0;
    const Control rest = {control.stop, &counted_already};
    if (!docs.sane) return wider(metric, queries, docs.docs, targets, range, counts, rest);
    receiver.finish(counts, control.stop);
    count_subset(queries, targets, counts, receiver.crowded, [&](const QueryRows& rows, const Targets& theirs, const TargetCounts& counts_of_rows) {
        wider(metric, rows, docs.docs, theirs, range, counts_of_rows, rest);
    });
}

}  // namespace

void count_wide_targets(Metric metric, const QueryRows& queries, const DocRows& docs, const Targets& targets, Range range,
                        const TargetCounts& counts, Control control) {
    const auto count = suits_16_bits(queries.exact.count, 1, docs, range) ? count_by_16_bits : count_targets;
    count(metric, queries, docs, targets, range, counts, control);
}

void count_by_16_bits(Metric metric, const QueryRows& queries, const DocRows& docs, const Targets& targets, Range range,
                      const TargetCounts& counts, Control control) {
    if (range.from >= range.to) return;
    WideDocs wide(docs);
    const auto codes_of = [&wide](size_t first, size_t count) { return wide.codes_of(first, count); };
    count_by(metric, queries, wide.docs, codes_of, targets, range, counts, control, count_targets);
}

void count_coarse_targets(Metric metric, const QueryRows& queries, const CoarseDocs& docs, const Targets& targets, Range range,
                          const TargetCounts& counts, Control control) {
    if (range.from >= range.to) return;
    if (!docs.sane) return count_targets(metric, queries, docs.docs, targets, range, counts, control);
    const auto codes_of = [&docs](size_t first, size_t) { return docs.panels + first * docs.product.panel_bytes(docs.docs.exact.columns); };
    count_by(metric, queries, docs, codes_of, targets, range, counts, control, count_wide_targets);
}

}  // namespace assay
