package bpe

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// word is the length of the first word of a text that is not empty. It is what GPT-2's expression matches, whose look-ahead package regexp
// has not:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func word(text string) int {
	for _, ending := range [...]string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
		if strings.HasPrefix(text, ending) {
			return len(ending)
		}
	}
	rest, blank := text, 0
	if text[0] == ' ' {
		rest, blank = text[1:], 1
	}
	if first, _ := utf8.DecodeRuneInString(rest); rest != "" && kindOf(first) != space {
		return blank + run(rest, kindOf(first))
	}
	n := run(text, space)
	if n == len(text) {
		return n
	}
	_, last := utf8.DecodeLastRuneInString(text[:n])
	if n > last { // the last one belongs to the word behind it, if that takes one
		return n - last
	}
	return n
}

// kind is a class of characters, of which words are made.
type kind int

const (
	letter kind = iota
	number
	space
	other
)

func kindOf(r rune) kind {
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// run is how long a text stays with one kind.
func run(text string, k kind) int {
	for i, r := range text {
		if kindOf(r) != k {
			return i
		}
	}
	return len(text)
}
