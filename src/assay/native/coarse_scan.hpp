// The products of 8-bit numbers fused with the compare. `Isa` says how four columns of many
// documents are multiplied by those of one query; everything is in an unnamed namespace, because
// each source that includes this is compiled for other vector instructions.
#pragma once

#include <immintrin.h>

#include "coarse_kernels.hpp"
#include "quantise.hpp"

namespace {

using assay::CoarseScan;
using assay::kPanel;
using assay::Pairs;

// What each query of a group needs of a panel's documents, apart from their spread.
template <class Isa>
inline __attribute__((always_inline)) void find_least(const CoarseScan& scan, size_t query, size_t panel, float* least) {
    const float reach = scan.reach[panel], off = scan.off[panel];
    for (size_t row = 0; row < Isa::rows; ++row) {
        least[row] = scan.floor[query + row] - (scan.residual[query + row] * reach + scan.inverse[query + row] * off);
    }
}

template <class Isa, bool biased>
inline __attribute__((always_inline)) uint32_t reaching(const CoarseScan& scan, size_t query, const int32_t* sums, size_t first, float least) {
    uint32_t mask = 0;
    const typename Isa::Vec size = Isa::spread(scan.size[query]), limit = Isa::spread(least);
#pragma GCC unroll 4
    for (size_t i = 0; i < kPanel; i += Isa::width) {
        typename Isa::Vec rest = Isa::multiply(size, Isa::load(scan.spread + first + i));
        if constexpr (biased) rest = Isa::multiply_add(Isa::spread(scan.inverse[query]), Isa::load(scan.bias + first + i), rest);
        const typename Isa::Vec most = Isa::multiply_add(Isa::to_float(sums + i), Isa::load(scan.factor + first + i), rest);
        mask |= Isa::at_least(most, limit) << i;
    }
    return mask;
}

__attribute__((noinline, cold)) void hand_over(const CoarseScan& scan, size_t query, size_t first, const int32_t* sums, uint32_t mask) {
    if (first < scan.from) mask &= ~uint32_t{0} << (scan.from - first);
    if (scan.to - first < kPanel) mask &= (uint32_t{1} << (scan.to - first)) - 1;
    if (mask != 0) scan.receive(scan.receiver, query, first, sums, mask);
}

template <class Isa, bool biased>
void meet_panels(const CoarseScan& scan, size_t group, size_t first_panel, size_t n_panels) {
    const size_t query = group * Isa::rows, panel_bytes = scan.steps * kPanel * kStep;
    const int8_t* queries = scan.queries + query * scan.steps * kStep;
    const size_t narrow = Isa::steps_in_16_bits, blocks = narrow == 0 ? 1 : (scan.steps + narrow - 1) / narrow;
    alignas(64) int32_t sums[Isa::rows][kPanel];
    float least[Isa::rows];
    for (size_t row = 0; row < Isa::rows && query + row < scan.n_queries; ++row) scan.expect(scan.receiver, query + row);
    for (size_t panel = first_panel; panel < first_panel + n_panels; ++panel) {
        Isa::multiply_panel(queries, scan.start + query * blocks, scan.panels + panel * panel_bytes, scan.steps, sums);
        find_least<Isa>(scan, query, panel, least);
        for (size_t row = 0; row < Isa::rows; ++row) {
            const uint32_t mask = reaching<Isa, biased>(scan, query + row, sums[row], panel * kPanel, least[row]);
            if (__builtin_expect(mask != 0, 0)) hand_over(scan, query + row, panel * kPanel, sums[row], mask);
        }
    }
}

template <class Isa>
void scan_panels(const CoarseScan& scan, size_t group, size_t first_panel, size_t n_panels) {
    scan.bias == nullptr ? meet_panels<Isa, false>(scan, group, first_panel, n_panels)
                         : meet_panels<Isa, true>(scan, group, first_panel, n_panels);
}

inline float multiply_rows(const float* a, const float* b, size_t columns) {
    __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    size_t column = 0;
    for (; column + 32 <= columns; column += 32) {
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; ++i) {
            sums[i] = _mm256_fmadd_ps(_mm256_loadu_ps(a + column + 8 * i), _mm256_loadu_ps(b + column + 8 * i), sums[i]);
        }
    }
    const __m256 all = _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
    float sum = sum_of(all);
    for (; column < columns; ++column) sum += a[column] * b[column];
    return sum;
}

void multiply_pairs(const float* queries, const float* docs, size_t columns, const Pairs& pairs, float* products) {
    constexpr size_t ahead = 4;
    for (size_t i = 0; i < pairs.count; ++i) {
        if (i + ahead < pairs.count) {  // ask for rows early
            const float* query = queries + pairs.queries[i + ahead] * columns;
            const float* doc = docs + pairs.docs[i + ahead] * columns;
            for (size_t column = 0; column < columns; column += 16) {
                __builtin_prefetch(query + column);
                __builtin_prefetch(doc + column);
            }
        }
        products[i] = multiply_rows(queries + pairs.queries[i] * columns, docs + pairs.docs[i] * columns, columns);
    }
}

}  // namespace
