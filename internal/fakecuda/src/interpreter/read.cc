// From text to instructions: statements, labels, registers, constants. Part of all.cc, after text.cc.
#include <ctype.h>
#include <stdlib.h>

#include <algorithm>

#include "program.h"

namespace fake {
namespace interpreter {

// Reader makes the code of one entry point.
struct Reader {
    Image* image;
    Code* code;
    std::string* why;
    struct Register {
        u32 place, bytes;  // bytes 0: a predicate
    };
    std::map<std::string, Register> registers;
    std::map<std::string, u64> symbols;  // parameters, shared arrays, variables
    std::map<std::string, u32> labels;
    std::map<std::pair<u64, u32>, u32> constants;
    std::vector<std::pair<u32, std::string>> jumps;
    size_t size = 0, shared = SHARED_BASE;

    bool fail(const std::string& reason) { return *why = code->name + ": " + reason, false; }
    u32 take(u32 bytes) {
        const size_t lanes = bytes ? (size_t)bytes * LANES : sizeof(u32);
        size = (size + 63) / 64 * 64;
        const size_t at = size;
        size += lanes;
        return (u32)at;
    }
    u32 constant(u64 value, u32 bytes) {
        if (bytes > 0 && bytes < 8) value &= (1ull << bytes * 8) - 1;
        auto known = constants.find({value, bytes});
        if (known != constants.end()) return known->second;
        const u32 place = take(bytes);
        return constants[{value, bytes}] = place;
    }
    bool declare_registers(const std::string& s);
    bool place_shared(const std::string& s);
    bool special(const std::string& name, Register* out);
    bool operand(const std::string& s, char kind, u32* place, u8* wide = nullptr);
    bool address(const std::string& s, u32* place, s64* displacement);
    bool fill(Ins* ins, const Operation& op, const std::vector<std::string>& operands);
    bool statement(std::string s);
    bool body(const std::string& s);
    bool symbols_before(size_t entry, size_t open, size_t close);
    bool finish();
};

// ".reg .b32 %r<10>" or ".reg .b32 tmp".
bool Reader::declare_registers(const std::string& s) {
    const std::vector<std::string> words = words_of(s);
    if (words.size() < 3) return fail("cannot read " + s);
    const u32 bytes = bytes_of(words[1]);
    for (size_t i = 2; i < words.size(); i++) {
        std::string name = words[i];
        if (name.back() == ',') name.pop_back();
        const size_t range = name.find('<');
        const int n = range == std::string::npos ? 0 : atoi(name.c_str() + range + 1);
        if (range == std::string::npos) {
            auto known = registers.find(name);
            if (known == registers.end() || known->second.bytes != bytes) registers[name] = {take(bytes), bytes};
        }
        for (int k = 0; k < n; k++) registers[name.substr(0, range) + std::to_string(k)] = {take(bytes), bytes};
    }
    return true;
}

bool Reader::place_shared(const std::string& s) {
    Declared d;
    if (!declared(s, &d)) return fail("cannot read " + s);
    shared = (shared + d.align - 1) / d.align * d.align;
    symbols[d.name] = shared;
    shared += d.bytes;
    return true;
}

static const char* const special_names[] = {"%tid.x",   "%tid.y",   "%tid.z",   "%ntid.x",   "%ntid.y",   "%ntid.z",  "%ctaid.x",
                                            "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%warpid"};

bool Reader::special(const std::string& name, Register* out) {
    for (const char* known : special_names)
        if (name == known) {
            auto at = code->specials.find(name);
            if (at == code->specials.end()) at = code->specials.emplace(name, take(4)).first;
            return *out = {at->second, 4}, true;
        }
    return false;
}

// operand finds the place of a register, a constant or a symbol's address. If wide is not nil, a larger register will do, and its
// size goes there.
bool Reader::operand(const std::string& s, char kind, u32* place, u8* wide) {
    const u32 bytes = kind == 'p' ? 0 : (u32)(kind - '0');
    auto known = registers.find(s);
    Register r;
    if (known != registers.end()) {
        r = known->second;
    } else if (!special(s, &r)) {
        u64 value;
        auto symbol = symbols.find(s);
        if (symbol != symbols.end()) value = symbol->second;
        else if (!number(s, &value)) return fail("operand " + s);
        if (kind == 'p') value = value ? ~0u : 0;
        return *place = constant(value, bytes ? bytes : 0), true;
    }
    if (wide && r.bytes > bytes) *wide = (u8)r.bytes;
    else if (r.bytes != bytes) return fail("operand " + s + " has another size than its instruction");
    return *place = r.place, true;
}

// address reads "[%rd1+16]", "[%r1]" or "[name+4]". Bases of 4 bytes are marked in the highest bit of the place.
bool Reader::address(const std::string& s, u32* place, s64* displacement) {
    if (s.size() < 3 || s[0] != '[' || s.back() != ']') return fail("address " + s);
    std::string base = s.substr(1, s.size() - 2);
    size_t sign = base.find_first_of("+-", 1);
    *displacement = 0;
    if (sign != std::string::npos) {
        u64 n;
        const bool negative = base[sign] == '-';
        if (!number(trimmed(base.substr(sign + 1)), &n)) return fail("address " + s);
        *displacement = negative ? -(s64)n : (s64)n;
        base = trimmed(base.substr(0, sign));
    }
    auto known = registers.find(base);
    if (known != registers.end() && known->second.bytes == 4) return *place = known->second.place | 1u << 31, true;
    return operand(base, '8', place);
}

bool Reader::fill(Ins* ins, const Operation& op, const std::vector<std::string>& operands) {
    std::vector<std::string> flat;
    for (std::string s : operands) {
        const size_t bar = s.find('|');
        if (s[0] == '{') {
            for (auto& part : split(s.substr(1, s.size() - 2), ',')) flat.push_back(part);
        } else if (bar != std::string::npos) {
            flat.push_back(trimmed(s.substr(0, bar)));
            flat.push_back(trimmed(s.substr(bar + 1)));
        } else {
            flat.push_back(s);
        }
    }
    std::string kinds = op.operands;
    kinds.erase(std::remove(kinds.begin(), kinds.end(), '='), kinds.end());
    if (flat.size() != kinds.size() || flat.size() > OPERANDS) return fail("number of operands");
    int addresses = 0;
    for (size_t i = 0; i < flat.size(); i++) {
        ins->bytes[i] = (u8)(kinds[i] - '0');
        const bool ok = kinds[i] == 'a' ? address(flat[i], &ins->o[i], &ins->at[addresses++])
                                        : operand(flat[i], kinds[i], &ins->o[i], op.wide ? &ins->bytes[i] : nullptr);
        if (!ok) return false;
        if (kinds[i] != 'a' && ins->bytes[i] != kinds[i] - '0') ins->run = op.wide;
    }
    return true;
}

static size_t parts_of(const std::string& operand) { return 1 + (size_t)std::count(operand.begin(), operand.end(), ','); }

static bool find_operation(const std::string& opcode, const std::vector<std::string>& operands, Operation* op) {
    if (operands.size() == 2 && opcode.compare(0, 4, "mov.") == 0 && (operands[0][0] == '{' || operands[1][0] == '{'))
        return packing(opcode, parts_of(operands[0]), parts_of(operands[1]), op);
    std::vector<std::string> words;
    std::string now;
    for (char c : opcode + ".") {
        if (c == '.') {
            words.push_back(now);
            now.clear();
        } else {
            now += c;
        }
    }
    return arithmetic(opcode, op) || (words[0] == "setp" && comparison(words, op)) || (words[0] == "cvt" && conversion(words, op)) ||
           memory(words, op) || together(opcode, words, op);
}

bool Reader::statement(std::string s) {
    Ins ins;
    ins.line = (u32)code->lines.size();
    code->lines.push_back(s);
    if (s[0] == '@') {
        const size_t end = s.find_first_of(" \t");
        ins.negated = s[1] == '!';
        if (end == std::string::npos || !operand(s.substr(1 + ins.negated, end - 1 - ins.negated), 'p', &ins.guard))
            return fail("guard of " + s);
        s = trimmed(s.substr(end));
    }
    const size_t end = std::min(s.find_first_of(" \t"), s.size());
    const std::string opcode = s.substr(0, end), rest = trimmed(s.substr(end));
    if (opcode == "bra" || opcode == "bra.uni") {
        ins.flow = BRANCH;
        jumps.push_back({(u32)code->ins.size(), rest});
    } else if (opcode == "ret") {
        ins.flow = EXIT;
    } else {
        Operation op;
        const std::vector<std::string> operands = split(rest, ',');
        if (!find_operation(opcode, operands, &op)) return fail("the interpreter does not know " + opcode);
        ins.run = op.run;
        ins.mode = op.mode;
        ins.flow = op.flow;
        if (!fill(&ins, op, operands)) return fail(*why + " in " + s);
    }
    code->ins.push_back(ins);
    return true;
}

// body reads the statements between an entry's braces.
bool Reader::body(const std::string& s) {
    for (size_t i = 0; i < s.size();) {
        if (isspace((unsigned char)s[i]) || s[i] == '{' || s[i] == '}' || s[i] == ';') {
            i++;
            continue;
        }
        const size_t end = s.find_first_of(";:", i);
        if (end == std::string::npos) return fail("a statement without an end");
        const std::string text = trimmed(s.substr(i, end - i));
        i = end + 1;
        bool ok = true;
        if (s[end] == ':') labels[text] = (u32)code->ins.size();
        else if (text.compare(0, 5, ".reg ") == 0 || text.compare(0, 5, ".reg\t") == 0) ok = declare_registers(text);
        else if (text.compare(0, 8, ".shared ") == 0 || text.compare(0, 7, ".pragma") == 0) continue;  // see symbols_before
        else if (text[0] == '.') ok = fail("the interpreter does not know " + text);
        else ok = statement(text);
        if (!ok) return false;
    }
    return true;
}

// symbols_before gives addresses to parameters (from 0), to the shared arrays of the module that this entry names, and to
// variables. An extern array is the dynamic one, which comes last.
bool Reader::symbols_before(size_t entry, size_t open, size_t close) {
    const std::string& s = image->text;
    const size_t from = s.find('(', entry), to = s.rfind(')', open);
    size_t at = 0;
    if (from < open && to != std::string::npos && to > from) {
        for (const std::string& p : split(s.substr(from + 1, to - from - 1), ',')) {
            Declared d;
            if (p.compare(0, 6, ".param") != 0 || !declared(p.substr(6), &d)) return fail("parameter " + p);
            at = (at + d.align - 1) / d.align * d.align;
            symbols[d.name] = at;
            at += d.bytes;
        }
    }
    for (auto& v : image->variables) symbols[v.first] = (u64)v.second.data();
    const std::string text = s.substr(open, close - open);
    std::vector<std::string> dynamic;
    for (size_t i = s.find(".shared "); i != std::string::npos; i = s.find(".shared ", i + 1)) {
        const size_t line = s.rfind('\n', i) + 1, end = s.find(';', i);
        const std::string before = trimmed(s.substr(line, i - line));
        Declared d;
        if ((before != ".weak" && before != ".extern" && before != ".visible" && !(before.empty() && s[line] == '.')) ||
            !declared(s.substr(i + 8, end - i - 8), &d) || text.find(d.name) == std::string::npos)
            continue;
        if (before == ".extern" || d.bytes == 0) dynamic.push_back(d.name);
        else if (!place_shared(s.substr(i + 8, end - i - 8))) return false;
    }
    for (size_t i = text.find("\t.shared "); i != std::string::npos; i = text.find("\t.shared ", i + 1))
        if (!place_shared(text.substr(i + 9, text.find(';', i) - i - 9))) return false;
    shared = (shared + 15) / 16 * 16;
    for (auto& name : dynamic) symbols[name] = shared;
    return true;
}

template <class T>
static void spread(std::vector<char>* to, u32 place, u64 value) {
    const T v = (T)value;
    for (int l = 0; l < LANES; l++) memcpy(&(*to)[place + l * sizeof(T)], &v, sizeof v);
}

bool Reader::finish() {
    for (auto& jump : jumps) {
        auto label = labels.find(jump.second);
        if (label == labels.end()) return fail("no label " + jump.second);
        code->ins[jump.first].target = label->second;
    }
    if (code->ins.empty() || code->ins.back().flow == NEXT) return fail("the end is missing");
    code->static_shared = shared - SHARED_BASE;
    code->registers.assign((size + 63) / 64 * 64, (char)0xff);
    for (auto& c : constants) {
        const u32 place = c.second;
        if (c.first.second == 8) spread<u64>(&code->registers, place, c.first.first);
        if (c.first.second == 4) spread<u32>(&code->registers, place, c.first.first);
        if (c.first.second == 2) spread<u16>(&code->registers, place, c.first.first);
        if (c.first.second == 0) memcpy(&code->registers[place], &c.first.first, sizeof(u32));
    }
    find_joins(code);
    return true;
}

std::shared_ptr<Code> compile(Image* image, const std::string& entry, std::string* why) {
    std::lock_guard<std::mutex> lock(image->mu);
    auto known = image->codes.find(entry);
    if (known != image->codes.end()) return known->second;
    auto code = std::make_shared<Code>();
    code->name = entry;
    const std::string& s = image->text;
    size_t at = s.find(".entry " + entry);
    while (at != std::string::npos && (isalnum((unsigned char)s[at + 7 + entry.size()]) || s[at + 7 + entry.size()] == '_'))
        at = s.find(".entry " + entry, at + 1);
    const size_t open = at == std::string::npos ? at : s.find('{', at);
    if (open == std::string::npos) return *why = "there is no entry " + entry, nullptr;
    size_t close = open;
    for (int depth = 0; close < s.size(); close++) {
        depth += s[close] == '{' ? 1 : s[close] == '}' ? -1 : 0;
        if (depth == 0) break;
    }
    Reader r = {image, code.get(), why, {}, {}, {}, {}, {}};
    if (!r.symbols_before(at, open, close) || !r.body(s.substr(open + 1, close - open - 1)) || !r.finish()) return nullptr;
    return image->codes[entry] = code;
}

}  // namespace interpreter
}  // namespace fake
