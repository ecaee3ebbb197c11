// A libFuzzer target: any bytes as TREC text. The first byte chooses the layout, the second how the
// rest is cut; the parser must give the same fault or the same rows as for the whole text at once.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "trec/parser.hpp"

using namespace assay;

namespace {

void feed_exact(TrecParser& parser, std::string_view chunk) {
    const std::vector<char> copy(chunk.begin(), chunk.end());
    parser.feed({copy.data(), copy.size()});
}

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    const Layout layout = data[0] & 1 ? kRun : kQrels;
    const size_t step = 1 + data[1];
    const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
    TrecParser whole(layout, 1), cut(layout, 2);
    feed_exact(whole, text);
    whole.finish();
    for (size_t at = 0; at < text.size(); at += step) feed_exact(cut, text.substr(at, step));
    cut.finish();
    require((whole.fault.kind == nullptr) == (cut.fault.kind == nullptr));
    require(whole.fault.line == cut.fault.line);
    if (whole.fault.kind != nullptr) return 0;
    require(whole.docs.size() == cut.docs.size());
    for (size_t i = 0; i < whole.docs.size(); ++i) require(whole.docs[i] == cut.docs[i]);
    return 0;
}
