//go:build !amd64 && !arm64

package cpu

// pause is for processors that are not told that a goroutine waits.
func pause() {}
