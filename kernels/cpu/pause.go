//go:build amd64 || arm64

package cpu

// pause tells the processor that the goroutine waits for another one to write to memory.
func pause()
