// Package tiny is what the tests of mutate change.
package tiny

// Sign returns -1, 0 or 1.
func Sign(n int) int {
	if n > 0 {
		return 1
	}
	if n < 0 {
		return -1
	}
	return 0
}

// Count counts to n.
func Count(n int) (i int) {
	for i < n {
		i++
	}
	return i
}

// Untested has no test.
func Untested(a, b int) int {
	return a + b
}
