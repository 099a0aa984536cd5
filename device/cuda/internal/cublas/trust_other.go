//go:build !unix

package cublas

// distrust is for systems with one root.
func distrust(string, int) string { return "" }
