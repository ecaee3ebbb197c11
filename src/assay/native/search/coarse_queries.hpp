// Shared by the searches by coarse products: quantised queries, and the order in which chunks of
// documents meet them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "search/chunk_order.hpp"
#include "search/coarse_search.hpp"
#include "search/decider.hpp"

namespace assay {

// Rounding in float32 of all that is compared, as a share of its sizes, generously.
constexpr double kCompareSlack = 0x1p-18;
constexpr float kRoundedUp = 1.0f + 0x1p-20f;
constexpr double kSaneNorm = 0x1p-60;
constexpr float kMostLength = 1.01f;  // of queries: they are scaled to 1, or below it

// Queries quantised, in groups as the kernels take them.
class CoarseQueries {
public:
    CoarseQueries(const QueryRows& queries, const CoarseProduct& product, Turn turn) : steps_(product.steps(queries.exact.columns)) {
        const size_t count = queries.exact.count, rows = coarse_kernels().query_rows;
        const size_t narrow = product.steps_in_16_bits, blocks = narrow == 0 ? 1 : (steps_ + narrow - 1) / narrow;
        n_groups = (count + rows - 1) / rows;
        for (std::vector<float>* each : {&step, &residual, &size, &inverse, &lean, &pull}) each->resize(n_groups * rows);
        packed.resize(n_groups * rows * steps_ * kStep);
        start.resize(n_groups * rows * blocks);
        std::vector<uint8_t> codes(steps_ * kStep);
        for (size_t query = 0; query < count; ++query) {
            product.quantise(queries.rows + query * queries.exact.columns, 1, queries.exact.columns, turn, product.query_limits,
                             {codes.data(), &step[query], &residual[query], &size[query], &lean[query]});
            pack(codes, query / rows, query % rows, rows);
            if (product.raised) set_start(codes, query / rows, query % rows, rows, narrow);
            measure(query, turn.axis != nullptr);
        }
    }

    // Whether a query is of a size that float32 can compare.
    bool is_sane(size_t query) const { return step[query] > 0.0f; }

    size_t n_groups;
    std::vector<uint8_t> packed;
    std::vector<int32_t> start;
    // Per query, padded. `size` is that of the quantised query; all but `step` and `lean` are in units
    // of the step, as is `pull`, which is `lean` else.
    std::vector<float> step, residual, size, inverse, lean, pull;

private:
    void measure(size_t query, bool leaning) {
        const double norm = size[query], rest = residual[query], quantised = norm + rest, along = lean[query];
        const bool in_range = norm > kSaneNorm && norm < 1 / kSaneNorm && step[query] > 0.0f;
        if (!in_range || (leaning && !(along * along + norm * norm < kMostLength * kMostLength))) {
            step[query] = residual[query] = size[query] = inverse[query] = lean[query] = 0.0f;
            return;
        }
        const double unit = 1.0 / step[query];
        inverse[query] = static_cast<float>(unit) * kRoundedUp;
        pull[query] = static_cast<float>(along * unit);
        size[query] = static_cast<float>(quantised * unit) * kRoundedUp;
        residual[query] = static_cast<float>((rest + kCompareSlack * quantised) * unit) * kRoundedUp;
    }

    void pack(const std::vector<uint8_t>& codes, size_t group, size_t row, size_t rows) {
        for (size_t i = 0; i < steps_; ++i) {
            std::memcpy(packed.data() + ((group * steps_ + i) * rows + row) * kStep, codes.data() + i * kStep, kStep);
        }
    }

    void set_start(const std::vector<uint8_t>& bytes, size_t group, size_t row, size_t rows, size_t narrow) {
        const auto* codes = reinterpret_cast<const int8_t*>(bytes.data());
        const size_t together = narrow == 0 ? steps_ : narrow, blocks = (steps_ + together - 1) / together;
        for (size_t block = 0; block < blocks; ++block) {
            int32_t left = 0, right = 0;
            for (size_t i = block * together; i < std::min((block + 1) * together, steps_); ++i) {
                left -= 128 * (codes[kStep * i] + codes[kStep * i + 1]);
                right -= 128 * (codes[kStep * i + 2] + codes[kStep * i + 3]);
            }
            const uint32_t both = static_cast<uint32_t>(left & 0xffff) | static_cast<uint32_t>(right & 0xffff) << 16;
            start[(group * blocks + block) * rows + row] = narrow == 0 ? left + right : static_cast<int32_t>(both);
        }
    }

    size_t steps_;
};

// query · row in float32 of candidates[offsets[q]] … with query q, in that order. Rows that are stored narrower
// are widened some at a time, each once.
Column<float> products_of(const QueryRows& queries, const DocRows& docs, const std::vector<size_t>& offsets, const uint32_t* candidates);

constexpr size_t kCoarseChunk = 256 * 1024, kMostRoom = 1 << 13;

// How many candidates a query may have: with more, wider products are sooner. The widest that are left are those of
// float32, which 16 bits save so little of that they are given up early, if not too late for that.
struct Room {
    Room(const CoarseProduct& product, size_t k, size_t least, size_t n_docs) {
        const bool narrow = product.columns == kStep;
        most = std::max(least, std::min<size_t>(n_docs / (narrow ? 16 : 8), kMostRoom));
        expected = narrow ? 1.3 * static_cast<double>(most) : static_cast<double>(2 * k + n_docs / 24);
    }

    // Whether candidates will be too many, by those of a share of the documents: early floors are lower.
    bool will_crowd(size_t count, double share) const { return share < 1.0 && static_cast<double>(count) > share * expected + kPanel; }

    size_t most;
    double expected;
};

// Fills in what a scan knows of both sides; the rest is the receiver's.
inline CoarseScan scan_of(const CoarseQueries& queries, const CoarseDocs& docs, size_t n_queries, Range range) {
    CoarseScan scan = {};
    scan.queries = queries.packed.data();
    scan.start = queries.start.data();
    scan.n_queries = n_queries;
    scan.steps = docs.product.steps(docs.docs.exact.columns);
    scan.factor = docs.factor.data();
    scan.spread = docs.spread.data();
    scan.bias = docs.shifted ? docs.bias.data() : nullptr;
    scan.lean = docs.lean.data();
    scan.reach = docs.panel_reach.data();
    scan.off = docs.panel_off.data();
    scan.residual = queries.residual.data();
    scan.size = queries.size.data();
    scan.inverse = queries.inverse.data();
    scan.pull = queries.pull.data();
    scan.from = range.from;
    scan.to = range.to;
    return scan;
}

// All chunks of documents, in the order of ChunkOrder. `begin(share)` and `end(share)` are told how many were met when
// a stage ends; groups of queries whose floors nothing reaches are passed over.
template <class Begin, class End>
void meet_chunks(const CoarseDocs& docs, const CodesOf& codes_of, const CoarseScan& scan, size_t n_groups, Control control, Begin begin, End end) {
    const size_t rows = coarse_kernels().query_rows;
    const size_t first = scan.from / kPanel, n_panels = panels_of(scan.to) - first;
    const size_t per_chunk = kCoarseChunk / (scan.steps * kPanel * kStep) + 1, n_chunks = (n_panels + per_chunk - 1) / per_chunk;
    const auto is_idle = [&](size_t group) {
        const float* floor = scan.floor + group * rows;
        return std::all_of(floor, floor + rows, [](float each) { return std::isinf(each) && each > 0; });
    };
    ChunkOrder jumps(n_chunks);
    size_t chunk = 0;
    for (const double stage : kStages) {
        const auto last = stage < 1.0 ? static_cast<size_t>(stage * static_cast<double>(n_chunks)) : n_chunks;
        const double share = static_cast<double>(last) / static_cast<double>(n_chunks);
        begin(share);
        for (; chunk < last; ++chunk) {
            const size_t from = jumps.next() * per_chunk, some = std::min(per_chunk, n_panels - from);
            const uint8_t* codes = nullptr;
            for (size_t group = 0; group < n_groups; ++group) {
                if (*control.stop != 0) return;
                if (is_idle(group)) continue;
                if (codes == nullptr) codes = codes_of(first + from, some);
                docs.product.scan(scan, group, codes, first + from, some);
            }
            const size_t low = std::max(scan.from, (first + from) * kPanel), high = std::min(scan.to, (first + from + some) * kPanel);
            const auto met = static_cast<int64_t>((high - low) * scan.n_queries);
            reinterpret_cast<std::atomic<int64_t>*>(control.done)->fetch_add(met, std::memory_order_relaxed);
        }
        if (last > 0) end(share);
    }
}

}  // namespace assay
