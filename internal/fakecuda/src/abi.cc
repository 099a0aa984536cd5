// Compares what this library exports with NVIDIA's headers, of which abi.inc has the facts: bytes of results and arguments,
// numbers, sizes and offsets. A difference ends the compilation.
#include <initializer_list>

namespace fake {

template <class R, class... A>
constexpr bool same_widths(R (*)(A...), std::initializer_list<size_t> want) {
    if (want.size() != 1 + sizeof...(A)) return false;
    auto w = want.begin();
    return sizeof(R) == *w++ && (... && (sizeof(A) == *w++));
}

#define FUNCTION(f, ...) static_assert(same_widths(f, {__VA_ARGS__}), #f);
#define VALUE(v, n) static_assert((long long)(v) == n, #v);
#define STRUCT(s, n) static_assert(sizeof(s) == n, #s);
#define FIELD(s, f, at, n) static_assert(offsetof(s, f) == at && sizeof(s::f) == n, #s "." #f);
#include "abi.inc"
#undef FUNCTION
#undef VALUE
#undef STRUCT
#undef FIELD

}  // namespace fake
