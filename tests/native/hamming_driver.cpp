// Feeds the Hamming kernels with random rows in memory of exactly their size, and checks distances
// and choice with plain loops. Run under sanitizers.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "hamming/search.hpp"

using namespace assay::hamming;

namespace {

using Bytes = std::vector<uint8_t>;

Bytes random_rows(std::mt19937& random, size_t count, size_t bits) {
    const size_t width = (bits + 7) / 8;
    Bytes rows(count * width);
    for (uint8_t& byte : rows) byte = static_cast<uint8_t>(random());
    for (size_t row = 0; row < count; ++row) rows[row * width + width - 1] &= static_cast<uint8_t>(0xff << (width * 8 - bits));
    return rows;
}

int distance(const uint8_t* a, const uint8_t* b, size_t width) {
    int sum = 0;
    for (size_t i = 0; i < width; ++i) {
        for (int x = a[i] ^ b[i]; x != 0; x &= x - 1) ++sum;
    }
    return sum;
}

bool round_is_right(std::mt19937& random) {
    const size_t bits = 1 + random() % (random() % 4 == 0 ? 1500 : 280), width = (bits + 7) / 8;
    const size_t n_queries = random() % 20, n_docs = random() % 200, k = 1 + random() % 40;
    const bool keep_ties = random() % 2 == 0;
    const Bytes queries = random_rows(random, n_queries, bits), docs = random_rows(random, n_docs, bits);
    const std::vector<int64_t> offsets(n_queries + 1, 0);
    int32_t stop = 0;
    int64_t done = 0;
    const Nearest nearest = find_nearest({queries.data(), n_queries, width}, {docs.data(), n_docs, width},
                                         {bits, k, keep_ties, 0}, {offsets.data(), nullptr}, {&stop, &done});
    std::vector<int64_t> counts(n_queries * (bits + 1));
    count_distances({queries.data(), n_queries, width}, {docs.data(), n_docs, width}, bits, counts.data(), {&stop, &done});
    size_t at = 0;
    for (size_t q = 0; q < n_queries; ++q) {
        std::vector<std::pair<int, int32_t>> order;
        for (size_t d = 0; d < n_docs; ++d) {
            order.emplace_back(distance(queries.data() + q * width, docs.data() + d * width, width), static_cast<int32_t>(d));
            --counts[q * (bits + 1) + static_cast<size_t>(order.back().first)];
        }
        std::sort(order.begin(), order.end());
        size_t kept = std::min(k, n_docs);
        while (keep_ties && kept != 0 && kept < n_docs && order[kept].first == order[kept - 1].first) ++kept;
        if (nearest.counts[q] != static_cast<int64_t>(kept)) return false;
        for (size_t i = 0; i < kept; ++i, ++at) {
            if (nearest.distances[at] != order[i].first || nearest.docs[at] != order[i].second) return false;
        }
    }
    return std::all_of(counts.begin(), counts.end(), [](int64_t count) { return count == 0; });
}

}  // namespace

int main() {
    std::mt19937 random(1);
    for (int round = 0; round < 600; ++round) {
        if (!round_is_right(random)) {
            std::printf("round %d is wrong\n", round);
            return 1;
        }
    }
    std::puts("ok");
    return 0;
}
