// Stands in for PyTorch's header: what the shim uses of it.
#pragma once

#include <sstream>
#include <stdexcept>

namespace c10 {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct OutOfMemoryError : Error {
    using Error::Error;
};

template <typename... Parts>
std::string joined(const Parts &...parts) {
    std::ostringstream text;
    (text << ... << parts);
    return text.str();
}

}  // namespace c10

#define TORCH_CHECK_WITH(kind, holds, ...) \
    do {                                   \
        if (!(holds)) throw ::c10::kind(::c10::joined(__VA_ARGS__)); \
    } while (false)
#define TORCH_CHECK(holds, ...) TORCH_CHECK_WITH(Error, holds, __VA_ARGS__)
