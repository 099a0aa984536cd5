// Package plural writes numbers of things.
package plural

import "fmt"

// Of is n and the noun, which gets an s unless n is 1: "1 block", "2 blocks".
func Of[T ~int | ~int32 | ~int64 | ~uint | ~uint32 | ~uint64](n T, noun string) string {
	return fmt.Sprintf("%d %s%s", n, noun, End(n, "", "s"))
}

// End is one if n is 1, else more: for nouns and verbs with other ends.
func End[T ~int | ~int32 | ~int64 | ~uint | ~uint32 | ~uint64](n T, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}
