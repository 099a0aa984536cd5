// What the driver asks of the interpreter: to run the PTX text itself, not the source it was compiled from.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../kernel_abi.h"

namespace fake {
namespace interpreter {

struct Code;

// Counts is what the code of one entry point did, over all launches.
struct Counts {
    uint64_t launches = 0, blocks = 0;
    uint64_t instructions = 0;                                     // of warps
    uint64_t lanes = 0;                                            // instructions of threads
    uint64_t divergent = 0;                                        // branches that parted a warp
    uint64_t barriers = 0;                                         // of warps
    uint64_t requests = 0, bytes = 0, sectors = 0, needed = 0;     // global memory: of warps; by threads; moved; least possible
    uint64_t accesses = 0, wavefronts = 0, passes = 0;             // shared memory: of warps; with bank conflicts; without
    uint64_t products = 0;                                         // mma.sync
};

// Image is a module's text and what is made of it: variables at once, the code of an entry point when it is first launched.
struct Image {
    std::string text;  // without comments
    std::map<std::string, std::vector<char>> variables;
    std::mutex mu;
    std::map<std::string, std::shared_ptr<Code>> codes;
};

// without_comments blanks comments out.
std::string without_comments(const std::string& text);

// open reads the variables of a module. An Image with a reason in why cannot be run.
std::shared_ptr<Image> open(const std::string& text, std::string* why);

// compile returns the code of an entry point, or nothing and why not.
std::shared_ptr<Code> compile(Image* image, const std::string& entry, std::string* why);

// Request is a launch, or a part of its blocks.
struct Request {
    std::shared_ptr<Code> code;
    gk_launch launch;
    bool races = false;        // look for races, in shared memory and in global memory
    Counts* counts = nullptr;  // if wanted; of this request alone
};

// run returns a CUresult; the launch's message says what went wrong.
int run(const Request& request);

// where names what the calling OS thread was running when it touched an address.
std::string where(uint64_t address);

}  // namespace interpreter
}  // namespace fake
