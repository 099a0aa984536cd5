// Package oneline has what the String methods of devices' and programs' objects are written with, which print one line each.
package oneline

import (
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// Count is a number of things, as in "1 tensor".
func Count[N int | uint64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Error is the first line of an error, or the beginning of a long one.
func Error(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return excerpt.Long(line)
}
