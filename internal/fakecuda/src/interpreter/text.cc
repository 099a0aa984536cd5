// The text of PTX: comments, lists, words, numbers, declarations; and the variables of a module.
#include <ctype.h>
#include <stdlib.h>

#include <algorithm>

#include "program.h"

namespace fake {
namespace interpreter {

std::string without_comments(const std::string& text) {
    std::string out = text;
    for (size_t i = 0; i + 1 < out.size(); i++) {
        if (out[i] != '/' || (out[i + 1] != '/' && out[i + 1] != '*')) continue;
        const bool line = out[i + 1] == '/';
        size_t end = out.find(line ? "\n" : "*/", i + 2);
        end = end == std::string::npos ? out.size() : end + (line ? 0 : 2);
        for (; i < end; i++)
            if (out[i] != '\n') out[i] = ' ';
        --i;
    }
    return out;
}

static std::string trimmed(const std::string& s) {
    size_t a = 0, b = s.size();
    while (a < b && isspace((unsigned char)s[a])) a++;
    while (b > a && isspace((unsigned char)s[b - 1])) b--;
    return s.substr(a, b - a);
}

// split cuts at a character outside of brackets and braces.
static std::vector<std::string> split(const std::string& s, char at) {
    std::vector<std::string> out;
    int depth = 0;
    std::string now;
    for (char c : s) {
        depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
        if (c == at && depth == 0) {
            out.push_back(trimmed(now));
            now.clear();
        } else {
            now += c;
        }
    }
    if (!trimmed(now).empty()) out.push_back(trimmed(now));
    return out;
}

static std::vector<std::string> words_of(const std::string& s) {
    std::vector<std::string> out;
    std::string now;
    for (char c : s + " ") {
        if (isspace((unsigned char)c)) {
            if (!now.empty()) out.push_back(now);
            now.clear();
        } else {
            now += c;
        }
    }
    return out;
}

static u32 bytes_of(const std::string& type) {
    if (type == ".pred") return 0;
    const size_t digits = type.find_first_of("0123456789");
    return digits == std::string::npos ? 0 : (u32)atoi(type.c_str() + digits) / 8;
}

// Declared is an array in .shared or .global: ".align 4 .b8 name[16]".
struct Declared {
    std::string name, values;
    u32 align = 1, element = 1;
    size_t bytes = 0;
};

static bool declared(const std::string& text, Declared* d) {
    std::string s = text;
    const size_t equal = s.find('=');
    if (equal != std::string::npos) {
        d->values = s.substr(equal + 1);
        s = trimmed(s.substr(0, equal));
    }
    size_t count = 1;
    const size_t open = s.find('[');
    if (open != std::string::npos) {
        count = strtoull(s.c_str() + open + 1, nullptr, 10);
        s = s.substr(0, open);
    }
    const std::vector<std::string> words = words_of(s);
    for (size_t i = 0; i < words.size(); i++) {
        if (words[i] == ".align" && i + 1 < words.size()) {
            d->align = (u32)atoi(words[++i].c_str());
        } else if (words[i][0] == '.') {
            if (u32 n = bytes_of(words[i])) d->element = n;
        } else {
            d->name = words[i];
        }
    }
    d->bytes = count * d->element;
    d->align = std::max(d->align, d->element);
    return !d->name.empty();
}

// number reads a literal; words are bits of the size that the instruction has.
static bool number(const std::string& s, u64* out) {
    if (s.empty()) return false;
    const char* p = s.c_str();
    char* end = nullptr;
    if (s.size() > 2 && s[0] == '0' && strchr("fFdD", s[1])) {
        *out = strtoull(p + 2, &end, 16);
        return *end == 0;
    }
    const bool negative = *p == '-';
    if (!isdigit((unsigned char)p[negative])) return false;
    *out = strtoull(p + negative, &end, 0);
    if (negative) *out = -*out;
    return *end == 0 || ((*end == 'U' || *end == 'u') && end[1] == 0);
}

std::shared_ptr<Image> open(const std::string& text, std::string* why) {
    auto image = std::make_shared<Image>();
    image->text = without_comments(text);
    const std::string& s = image->text;
    for (size_t i = s.find(".global "); i != std::string::npos; i = s.find(".global ", i + 1)) {
        const size_t line = s.rfind('\n', i), end = s.find(';', i);
        const std::string before = trimmed(s.substr(line + 1, i - line - 1));
        if (end == std::string::npos || (!before.empty() && before != ".visible" && before != ".weak")) continue;
        Declared d;
        if (!declared(s.substr(i + 8, end - i - 8), &d)) return *why = "a variable that cannot be read", image;
        std::vector<char>& memory = image->variables[d.name];
        memory.assign(d.bytes + 16, 0);
        size_t at = 0;
        std::string values = trimmed(d.values);
        if (!values.empty() && values[0] == '{') values = values.substr(1, values.size() - 2);
        for (const std::string& v : split(values, ',')) {
            u64 x;
            if (!number(v, &x) || at + d.element > d.bytes) return *why = "the value " + v + " of " + d.name, image;
            memcpy(&memory[at], &x, d.element);
            at += d.element;
        }
    }
    return image;
}

}  // namespace interpreter
}  // namespace fake
