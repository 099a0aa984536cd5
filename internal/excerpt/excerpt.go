// Package excerpt cuts texts that errors repeat. They can come from anywhere: a setting, a file, an equation that a program has put
// together. An error of a megabyte helps nobody, and fills logs.
package excerpt

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	most     = 100  // bytes of a name or a word
	mostLong = 1000 // bytes of a path or a sentence
)

// Of is the beginning of a text, 100 bytes at most, with three dots if there is more.
func Of(text string) string { return cut(text, most) }

// Long is Of for what is long at times for a reason, such as the path of a file: 1000 bytes at most.
func Long(text string) string { return cut(text, mostLong) }

// Quote is Of in quotes, with the dots behind them.
func Quote(text string) string {
	if len(text) <= most {
		return strconv.Quote(text)
	}
	return strconv.Quote(text[:boundary(text, most)]) + "..."
}

// List is names, each as Of has it, with commas between them.
func List(names []string) string {
	var s strings.Builder
	for i, n := range names {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(Of(n))
	}
	return s.String()
}

// File is an error of the file system, with Long of its path.
func File(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) && len(p.Path) > mostLong {
		return &fs.PathError{Op: p.Op, Path: Long(p.Path), Err: p.Err}
	}
	return err
}

func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return text[:boundary(text, n)] + "..."
}

// boundary is the last place up to n at which no character is cut in two.
func boundary(text string, n int) int {
	end := n
	for end > n-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return end
}
