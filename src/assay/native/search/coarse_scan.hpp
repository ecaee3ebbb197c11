// The products of codes fused with the compare. `Isa` says how a step of some
// documents is multiplied by that of one query and added up, and how many queries are met at a
// time; everything is in an unnamed namespace, because each source that includes this is compiled
// for other vector instructions.
#pragma once

#include <type_traits>
#include <utility>

#include "search/coarse_kernels.hpp"
#include "search/document_norms.hpp"
#include "search/eight_floats.hpp"
#include "search/quantisation.hpp"

namespace {

using assay::CoarseScan;
using assay::kTokensTogether;
using assay::Pairs;
using assay::TokenScan;
using assay::TokenSegment;

// The sums of a group of queries with two vectors of documents; they stay in registers.
template <class Isa>
struct Tile {
    typename Isa::Sums left[Isa::rows], right[Isa::rows];
};

// Loops over queries are written out by the compiler: a row must be a constant for some instructions.
template <class Isa, size_t... row>
inline __attribute__((always_inline)) void begin(Tile<Isa>& tile, const int32_t* start, std::index_sequence<row...>) {
    ((tile.left[row] = tile.right[row] = Isa::begin(start[row])), ...);
}

template <class Isa, size_t... row>
inline __attribute__((always_inline)) void add_step(Tile<Isa>& tile, const uint8_t* queries, const uint8_t* panel,
                                                    std::index_sequence<row...>) {
    const auto left = Isa::codes(panel), right = Isa::codes(panel + Isa::width * kStep);
    const auto fours = Isa::fours(queries);
    ((tile.left[row] = Isa::template add<row>(tile.left[row], left, fours),
      tile.right[row] = Isa::template add<row>(tile.right[row], right, fours)),
     ...);
}

template <class Isa, size_t... row>
inline __attribute__((always_inline)) void put(const Tile<Isa>& tile, int32_t (*sums)[kPanel], size_t at, std::index_sequence<row...>) {
    ((Isa::put(tile.left[row], sums[row] + at), Isa::put(tile.right[row], sums[row] + at + Isa::width)), ...);
}

// Two vectors of documents, over some steps.
template <class Isa>
inline __attribute__((always_inline)) void multiply_steps(const uint8_t* queries, const int32_t* start, const uint8_t* panel, size_t steps,
                                                          int32_t (*sums)[kPanel], size_t at) {
    constexpr auto rows = std::make_index_sequence<Isa::rows>();
    Tile<Isa> tile;
    begin(tile, start, rows);
    for (; steps > 0; --steps, queries += Isa::rows * kStep, panel += kPanel * kStep) add_step(tile, queries, panel, rows);
    put(tile, sums, at, rows);
}

// Two vectors of documents. Narrow sums are widened, and added to those before, after each block.
template <class Isa>
inline __attribute__((always_inline)) void multiply_part(const uint8_t* queries, const int32_t* start, const uint8_t* panel, size_t steps,
                                                         int32_t (*sums)[kPanel], size_t at) {
    constexpr size_t together = Isa::steps_in_16_bits;
    if constexpr (together == 0) return multiply_steps<Isa>(queries, start, panel, steps, sums, at);
    for (size_t step = 0; step < steps; step += together, start += Isa::rows) {
        const size_t some = steps - step < together ? steps - step : together;
        multiply_steps<Isa>(queries + step * Isa::rows * kStep, start, panel + step * kPanel * kStep, some, sums, at);
    }
}

template <class Isa>
inline __attribute__((always_inline)) void multiply_panel(const uint8_t* queries, const int32_t* start, const uint8_t* panel, size_t steps,
                                                          int32_t (*sums)[kPanel]) {
    if constexpr (Isa::steps_in_16_bits != 0) std::memset(sums, 0, Isa::rows * sizeof *sums);
    for (size_t at = 0; at < kPanel; at += 2 * Isa::width) {
        multiply_part<Isa>(queries, start, panel + at * kStep, steps, sums, at);
    }
}

// By how much every document of a panel may be off with a query, apart from its spread.
inline float off_by(const CoarseScan& scan, size_t query, size_t panel) {
    return scan.residual[query] * scan.reach[panel] + scan.inverse[query] * scan.off[panel];
}

// The documents of a panel whose score with `size` times their spread is at least a limit.
template <class Isa, bool shifted>
inline __attribute__((always_inline)) uint32_t reaching(const CoarseScan& scan, size_t query, const int32_t* sums, size_t first, float size,
                                                        float least) {
    uint32_t mask = 0;
    const typename Isa::Vec spread = Isa::spread(size), limit = Isa::spread(least);
#pragma GCC unroll 8
    for (size_t i = 0; i < kPanel; i += Isa::width) {
        typename Isa::Vec rest = Isa::multiply(spread, Isa::load(scan.spread + first + i));
        if constexpr (shifted) {
            rest = Isa::multiply_add(Isa::spread(scan.inverse[query]), Isa::load(scan.bias + first + i), rest);
            rest = Isa::multiply_add(Isa::spread(scan.pull[query]), Isa::load(scan.lean + first + i), rest);
        }
        const typename Isa::Vec most = Isa::multiply_add(Isa::to_float(sums + i), Isa::load(scan.factor + first + i), rest);
        mask |= Isa::at_least(most, limit) << i;
    }
    return mask;
}

// The documents of a panel that are within the range.
inline uint32_t within(const CoarseScan& scan, size_t first) {
    uint32_t mask = ~uint32_t{0};
    if (first < scan.from) mask &= ~uint32_t{0} << (scan.from - first);
    if (scan.to - first < kPanel) mask &= (uint32_t{1} << (scan.to - first)) - 1;
    return mask;
}

__attribute__((noinline, cold)) void hand_over(const CoarseScan& scan, size_t query, size_t first, const int32_t* sums, uint32_t mask) {
    mask &= within(scan, first);
    if (mask != 0) scan.receive(scan.receiver, query, first, sums, mask);
}

template <class Isa, bool shifted, bool counting>
void meet_panels(const CoarseScan& scan, size_t group, const uint8_t* codes, size_t first_panel, size_t n_panels) {
    const size_t query = group * Isa::rows, panel_bytes = scan.steps * kPanel * kStep;
    const uint8_t* queries = scan.queries + query * scan.steps * kStep;
    const size_t narrow = Isa::steps_in_16_bits, blocks = narrow == 0 ? 1 : (scan.steps + narrow - 1) / narrow;
    alignas(64) int32_t sums[Isa::rows][kPanel];
    int64_t above[Isa::rows] = {};
    for (size_t row = 0; row < Isa::rows && query + row < scan.n_queries; ++row) scan.expect(scan.receiver, query + row);
    for (size_t panel = first_panel; panel < first_panel + n_panels; ++panel, codes += panel_bytes) {
        const size_t first = panel * kPanel;
        multiply_panel<Isa>(queries, scan.start + query * blocks, codes, scan.steps, sums);
        for (size_t row = 0, at = query; row < Isa::rows; ++row, ++at) {
            const float off = off_by(scan, at, panel), size = scan.size[at];
            uint32_t mask = reaching<Isa, shifted>(scan, at, sums[row], first, size, scan.floor[at] - off);
            if constexpr (counting) {
                const uint32_t certain = reaching<Isa, shifted>(scan, at, sums[row], first, -size, scan.ceiling[at] + off);
                above[row] += __builtin_popcount(certain & within(scan, first));
                mask &= ~certain;
            }
            if (__builtin_expect(mask != 0, 0)) hand_over(scan, at, first, sums[row], mask);
        }
    }
    for (size_t row = 0; counting && row < Isa::rows && query + row < scan.n_queries; ++row) scan.above[query + row] += above[row];
}

template <class Isa>
void scan_panels(const CoarseScan& scan, size_t group, const uint8_t* codes, size_t first_panel, size_t n_panels) {
    const bool shifted = scan.bias != nullptr, counting = scan.ceiling != nullptr;
    const auto meet = shifted ? (counting ? meet_panels<Isa, true, true> : meet_panels<Isa, true, false>)
                             : (counting ? meet_panels<Isa, false, true> : meet_panels<Isa, false, false>);
    meet(scan, group, codes, first_panel, n_panels);
}

// The largest factor · sum of the rows of a segment, and of what is given.
template <class Isa>
inline __attribute__((always_inline)) typename Isa::Vec largest_in(const TokenSegment& segment, const int32_t* sums, const float* factor,
                                                                  typename Isa::Vec most) {
    if (segment.mask == nullptr) {
#pragma GCC unroll 8
        for (size_t i = 0; i < kPanel; i += Isa::width) most = Isa::larger(most, Isa::multiply(Isa::to_float(sums + i), Isa::load(factor + i)));
        return most;
    }
    for (size_t i = segment.from / Isa::width * Isa::width; i < segment.to; i += Isa::width) {
        most = Isa::larger(most, Isa::multiply_add(Isa::to_float(sums + i), Isa::load(factor + i), Isa::load(segment.mask + i)));
    }
    return most;
}

template <class Isa>
void scan_tokens(const TokenScan& scan, size_t group) {
    constexpr float kBelowAll = -std::numeric_limits<float>::infinity();
    const size_t first = group * Isa::rows, panel_bytes = scan.steps * kPanel * kStep;
    const size_t narrow = Isa::steps_in_16_bits, blocks = narrow == 0 ? 1 : (scan.steps + narrow - 1) / narrow;
    alignas(64) int32_t sums[Isa::rows][kPanel];
    typename Isa::Vec most[Isa::rows];
    for (size_t row = 0; row < Isa::rows; ++row) most[row] = Isa::spread(scan.largest[first + row]);
    const TokenSegment* segment = scan.segments;
    for (size_t panel = 0; segment != scan.end; ++panel) {
        multiply_panel<Isa>(scan.queries + first * scan.steps * kStep, scan.start + first * blocks, scan.codes + panel * panel_bytes, scan.steps, sums);
        for (; segment != scan.end && segment->panel == panel; ++segment) {
            for (size_t row = 0; row < Isa::rows; ++row) most[row] = largest_in<Isa>(*segment, sums[row], scan.factor + panel * kPanel, most[row]);
            if (!segment->last) continue;
            for (size_t row = 0, at = first; row < Isa::rows; ++row, ++at) {
                scan.scores[scan.query[at] * scan.n_docs + segment->doc] += scan.step[at] * Isa::largest(most[row]);
                most[row] = Isa::spread(kBelowAll);
            }
        }
    }
    for (size_t row = 0; row < Isa::rows; ++row) scan.largest[first + row] = Isa::largest(most[row]);
}

// One row with `count` others, as many lanes at a time as this source is compiled for: what is loaded of the first serves all.
template <size_t count>
inline void multiply_row(const float* a, const float* const* b, size_t columns, float* products) {
#if defined(__AVX512F__)
    constexpr size_t width = 16;
#else
    constexpr size_t width = kTogether;
#endif
    using Floats = typename VectorOf<float, width>::type;
    constexpr size_t parts = 8 / count;  // sums of a row, so that none waits for the one before it
    const auto at = [](const float* from) {
        Floats lanes;
        std::memcpy(&lanes, from, sizeof lanes);
        return lanes;
    };
    Floats sums[count][parts] = {};
    size_t column = 0;
    for (; column + parts * width <= columns; column += parts * width) {
#pragma GCC unroll 8
        for (size_t part = 0; part < parts; ++part) {
            const Floats left = at(a + column + part * width);
#pragma GCC unroll 8
            for (size_t i = 0; i < count; ++i) {
                const Floats right = at(b[i] + column + part * width);
#if defined(__AVX512F__)
                sums[i][part] = _mm512_fmadd_ps(left, right, sums[i][part]);
#else
                sums[i][part] = multiply_add(left, right, sums[i][part]);
#endif
            }
        }
    }
    Eight eights[kTogether] = {};
#pragma GCC unroll 8
    for (size_t i = 0; i < count; ++i) {
#pragma GCC unroll 8
        for (size_t part = 1; part < parts; ++part) sums[i][0] += sums[i][part];
        Eight halves[width / kTogether];
        std::memcpy(halves, &sums[i][0], sizeof halves);
        eights[i] = width == kTogether ? halves[0] : halves[0] + halves[width / kTogether - 1];
    }
    transpose(eights);
    put_eight(products, ((eights[0] + eights[1]) + (eights[2] + eights[3])) + ((eights[4] + eights[5]) + (eights[6] + eights[7])));
    for (; column < columns; ++column) {
        for (size_t i = 0; i < count; ++i) products[i] += a[column] * b[i][column];
    }
}

// Pairs that follow each other and share a row are multiplied together.
void multiply_pairs(const float* queries, const float* docs, size_t columns, const Pairs& pairs, float* products) {
    constexpr size_t ahead = 24;  // a memory far away takes as long to send a row as so many products take
    constexpr void (*each[])(const float*, const float* const*, size_t, float*) = {multiply_row<1>, multiply_row<2>, multiply_row<4>, multiply_row<8>};
    const auto expect = [&](size_t from, size_t to) {  // queries were met before
        for (size_t i = from; i < to && i < pairs.count; ++i) {
            if (pairs.docs[i] == pairs.docs[i - 1]) continue;
            for (size_t column = 0; column < columns; column += 16) __builtin_prefetch(docs + pairs.docs[i] * columns + column);
        }
    };
    expect(1, ahead);
    for (size_t i = 0, end = 0; i < pairs.count; i = end) {
        const bool by_doc = i + 1 < pairs.count && pairs.docs[i] == pairs.docs[i + 1];
        const uint32_t* shared = by_doc ? pairs.docs : pairs.queries;
        while (end < pairs.count && end < i + kTogether && shared[end] == shared[i]) ++end;
        expect(i + ahead, end + ahead);
        const float *row = by_doc ? docs + pairs.docs[i] * columns : queries + pairs.queries[i] * columns, *others[kTogether];
        for (size_t j = 0; j < kTogether; ++j) {  // the last is repeated
            const size_t at = i + j < end ? i + j : end - 1;
            others[j] = by_doc ? queries + pairs.queries[at] * columns : docs + pairs.docs[at] * columns;
        }
        const size_t count = end - i;
        float some[kTogether];
        each[count > 4 ? 3 : count > 2 ? 2 : count - 1](row, others, columns, some);
        std::memcpy(products + i, some, count * sizeof(float));
    }
}

#if defined(__AVX512F__)
using Lanes = VectorOf<float, 16>::type;
constexpr size_t kRowsTogether = 12;  // with two vectors of queries each they fill the registers
inline Lanes spread(float x) { return _mm512_set1_ps(x); }
inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a, b, c); }
#else
using Lanes = Eight;
constexpr size_t kRowsTogether = 6;
inline Lanes spread(float x) { return Lanes{x, x, x, x, x, x, x, x}; }
#endif

// Some rows with two vectors of query tokens.
template <size_t rows>
inline void multiply_rows(const float* queries, const float* docs, size_t columns, float* products, float* largest) {
    constexpr size_t width = sizeof(Lanes) / sizeof(float);
    Lanes sums[rows][2] = {};
    for (size_t column = 0; column < columns; ++column, queries += kTokensTogether) {
        Lanes left, right;
        std::memcpy(&left, queries, sizeof left);
        std::memcpy(&right, queries + width, sizeof right);
#pragma GCC unroll 12
        for (size_t row = 0; row < rows; ++row) {
            const Lanes element = spread(docs[row * columns + column]);
            sums[row][0] = multiply_add(element, left, sums[row][0]);
            sums[row][1] = multiply_add(element, right, sums[row][1]);
        }
    }
    Lanes most[2];
    std::memcpy(most, largest, sizeof most);
#pragma GCC unroll 12
    for (size_t row = 0; row < rows; ++row) {
        std::memcpy(products + row * kTokensTogether, sums[row], sizeof sums[row]);
        for (size_t i = 0; i < 2; ++i) most[i] = sums[row][i] > most[i] ? sums[row][i] : most[i];
    }
    std::memcpy(largest, most, sizeof most);
}

void multiply_all(const float* queries, const float* docs, size_t n_docs, size_t columns, float* products, float* largest) {
    for (size_t i = 0; i < kTokensTogether; ++i) largest[i] = -std::numeric_limits<float>::infinity();
    for (size_t row = 0; row < n_docs;) {
        const size_t left = n_docs - row, count = left >= kRowsTogether ? kRowsTogether : left >= 3 ? 3 : 1;
        const auto multiply = count == 1 ? multiply_rows<1> : count == 3 ? multiply_rows<3> : multiply_rows<kRowsTogether>;
        for (size_t i = 0; i < kTokensTogether; i += 2 * sizeof(Lanes) / sizeof(float)) {
            multiply(queries + i, docs + row * columns, columns, products + row * kTokensTogether + i, largest + i);
        }
        row += count;
    }
}

// A square norm, summed in eight lanes.
inline float square_of(const float* row, size_t columns) {
    Eight sums = {}, others = {};
    size_t at = 0;
    for (; at + 2 * kTogether <= columns; at += 2 * kTogether) {
        const Eight left = eight_at(row + at), right = eight_at(row + at + kTogether);
        sums += left * left;
        others += right * right;
    }
    if (at < columns) {
        float rest[2 * kTogether] = {};
        std::memcpy(rest, row + at, (columns - at) * sizeof(float));
        sums += eight_at(rest) * eight_at(rest);
        others += eight_at(rest + kTogether) * eight_at(rest + kTogether);
    }
    return sum_of(sums + others);
}

void square_rows(const float* rows, size_t count, size_t columns, float* squares) {
    for (size_t row = 0; row < count; ++row) squares[row] = square_of(rows + row * columns, columns);
}

// `first` is the number of the first row.
inline void measure_rows(const float* rows, size_t count, size_t columns, const Measuring& measuring, size_t first) {
    for (size_t row = 0; row < count; ++row) measure(measuring, first + row, square_of(rows + row * columns, columns));
}

template <class Isa>
constexpr assay::CoarseProduct narrow_product() {
    return {kStep, Isa::query_limits, Isa::steps_in_16_bits, Isa::raised, scan_panels<Isa>, quantise<int8_t>, fill_panel<int8_t>};
}

template <class Isa>
constexpr assay::CoarseProduct wide_product() {
    assay::CoarseProduct product = {kStep / 2, assay::kNoLimits, 0, false, nullptr, quantise<int16_t>, fill_panel<int16_t>};
    if constexpr (!std::is_void_v<Isa>) product.scan = scan_panels<Isa>;
    return product;
}

template <class Narrow, class Wide>
const assay::CoarseKernels& kernels_of() {
    static const assay::CoarseKernels kernels = {Narrow::rows, narrow_product<Narrow>(), wide_product<Wide>(), measure_rows, multiply_pairs,
                                                scan_tokens<Narrow>, multiply_all, square_rows};
    return kernels;
}

}  // namespace
