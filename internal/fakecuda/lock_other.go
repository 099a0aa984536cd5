//go:build !linux

package fakecuda

// lockFile is not needed: nothing is built on other systems.
func lockFile(string) (unlock func(), err error) { return func() {}, nil }
