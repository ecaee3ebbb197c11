// Feeds the kernels text that is nearly TREC, cut at random, and random rows, ids and numbers.
// Built with the address and undefined-behaviour sanitizers; prints "ok" at the end.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "exact/resampling.hpp"
#include "trec/ids.hpp"
#include "trec/judgments.hpp"
#include "trec/parser.hpp"
#include "trec/sorted_rows.hpp"

using namespace assay;

namespace {

std::mt19937 generator(12345);

size_t below(size_t end) { return generator() % end; }

void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "failed: %s\n", what);
    std::exit(1);
}

std::string random_text() {
    static const std::string parts[] = {"q1", "query-2", "Q0", "doc", "d\xc3\xa9", "1", "-2.5", "1e400", ".5", "1e-999",
                                        "nan", " ", " ", " ", "\t", "\r", "\n", "\n", "\r\n", std::string(1, '\0'), "\v",
                                        "\x01", "\xff", "\xe2\x82", "#", "\xef\xbb\xbf", std::string(70, 'x')};
    std::string text;
    for (size_t i = below(60); i > 0; --i) {
        if (below(3) == 0) text += "q" + std::to_string(below(3)) + " Q0 d" + std::to_string(below(50)) + " 1 " + std::to_string(below(9)) + " t\n";
        else text += parts[below(std::size(parts))];
    }
    return text;
}

// A copy of exact size, so that a read beyond the end is noticed.
void feed_exact(TrecParser& parser, const std::string& chunk) {
    const std::vector<char> copy(chunk.begin(), chunk.end());
    parser.feed({copy.data(), copy.size()});
}

void fuzz_parser(Layout layout, unsigned threads) {
    const std::string text = random_text();
    TrecParser whole(layout, 1), cut(layout, threads);
    feed_exact(whole, text);
    whole.finish();
    for (size_t at = 0; at < text.size();) {
        const size_t size = 1 + below(40);
        feed_exact(cut, text.substr(at, size));
        at += size;
    }
    cut.finish();
    require((whole.fault.kind == nullptr) == (cut.fault.kind == nullptr), "same fault");
    require(whole.fault.line == cut.fault.line, "same line");
    require(whole.fault.kind != nullptr || whole.docs.size() == cut.docs.size(), "same rows");
}

// Ids of up to 24 bytes: those of more than 16 are known by more than their ends. Without dashes all have slots by
// number, from a size of the table on.
void fuzz_many_lines(size_t dashes, size_t numbers) {
    std::string text;
    for (int i = 0; i < 60000; ++i) {
        const std::string number = std::to_string(below(numbers));
        text += "q" + std::to_string(i / 100) + " Q0 d" + std::string(below(dashes), '-') + number + " 1 0.25 t\n";
    }
    TrecParser one(kRun, 1);
    feed_exact(one, text);
    require(one.finish(), "clean text");
    std::FILE* file = std::tmpfile();
    require(file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size(), "a file");
    std::fflush(file);
    for (const unsigned threads : {2u, 4u, 7u}) {
        TrecParser many(kRun, threads, text.size());
        const size_t cut = below(text.size());
        if (threads == 4) {
            many.feed_file(fileno(file), 0, cut);
            many.feed_file(fileno(file), cut, text.size());
        } else {
            feed_exact(many, text.substr(0, cut));
            feed_exact(many, text.substr(cut));
        }
        require(many.finish(), "clean text");
        require(one.docs.size() == many.docs.size() && one.doc_ids.size() == many.doc_ids.size(), "same rows");
        for (size_t i = 0; i < one.docs.size(); ++i) require(one.docs[i] == many.docs[i] && one.queries[i] == many.queries[i], "same codes");
        for (size_t i = 0; i < one.doc_ids.size(); ++i) require(one.doc_ids[i] == many.doc_ids[i], "same ids");
    }
    std::fclose(file);
}

struct RandomIds {
    std::string blob;
    std::vector<int64_t> offsets{0};

    explicit RandomIds(size_t count) {
        for (size_t i = 0; i < count; ++i) {
            for (size_t size = 1 + below(20); size > 0; --size) blob.push_back("ab1\xff"[below(4)]);
            offsets.push_back(static_cast<int64_t>(blob.size()));
        }
    }

    IdView view() const { return {reinterpret_cast<const uint8_t*>(blob.data()), offsets.data(), offsets.size() - 1}; }
};

void fuzz_ids() {
    const RandomIds ids(below(40)), others(below(40));
    match_ids(ids.view(), others.view());
    first_duplicate(ids.view());
    order_ids(ids.view(), below(2) == 0);
}

void fuzz_rows() {
    const RandomIds ids(1 + below(20));
    std::vector<int32_t> queries, docs;
    std::vector<double> scores;
    for (size_t i = below(60); i > 0; --i) {
        queries.push_back(static_cast<int32_t>(below(3)));
        docs.push_back(static_cast<int32_t>(below(ids.offsets.size() - 1)));
        scores.push_back(static_cast<double>(below(4)) * (below(9) == 0 ? 1e300 : 1));
    }
    const SortedRows rows = sort_rows({queries.data(), docs.data(), scores.data(), docs.size(), 3}, ids.view(),
                                      Ties(static_cast<int>(below(3)) - 1), below(2) == 0);
    order_rows(rows.offsets.data(), 3, scores.data(), nullptr);
    const RankedRows ranking{rows.offsets.data(), rows.in_order ? docs.data() : rows.docs.data(),
                             rows.in_order ? scores.data() : rows.scores.data(), 3};
    const int64_t asked[] = {2, static_cast<int64_t>(below(4)), 0};  // 3 is not in the ranking
    const JudgedRows judged{asked, 3, rows.offsets.data(), docs.data(), scores.data()};
    find_judged(ranking, judged);
    count_judged(ranking, judged);
    first_repeat(rows.offsets.data(), ranking.rows, ranking.docs);
}

template <class Draw>
void require_same_for_threads(Draw draw, const char* what) {
    const uint64_t key = below(1000), first = below(1000);
    const size_t resamples = below(9);
    const Column<int64_t> one = draw(Draws{key, first, resamples, 1}), three = draw(Draws{key, first, resamples, 3});
    require(one.size() == three.size(), what);
    for (size_t i = 0; i < one.size(); ++i) require(one[i] == three[i], what);
}

void fuzz_statistics() {
    const size_t units = below(140), columns = 1 + below(10), strata = 1 + below(3);
    std::vector<int64_t> values(units * columns), offsets;
    for (int64_t& value : values) value = static_cast<int64_t>(below(2001)) - 1000;
    for (size_t i = 0; i <= strata; ++i) offsets.push_back(static_cast<int64_t>(units * i / strata));
    const UnitTable table{values.data(), columns, offsets.data(), strata};
    require_same_for_threads([&](const Draws& draws) { return flip_sums(values.data(), values.size(), draws); }, "same flips");
    require_same_for_threads([&](const Draws& draws) { return bootstrap_sums(table, draws); }, "same bootstrap");
    require_same_for_threads([&](const Draws& draws) { return shuffled_ranges(values.data(), units, columns, draws); }, "same shuffles");
}

}  // namespace

int main() {
    for (int i = 0; i < 3000; ++i) {
        fuzz_parser(i % 2 == 0 ? kRun : kQrels, 1 + i % 3);
        fuzz_ids();
        fuzz_rows();
        if (i % 10 == 0) fuzz_statistics();
    }
    fuzz_many_lines(19, 5000);
    fuzz_many_lines(1, 100000);
    std::puts("ok");
}
