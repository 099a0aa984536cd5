package memory

import "fmt"

// ArgumentError is an argument that a call does not take: a nil stream or device, a pool of another allocator, a format that does
// not exist.
type ArgumentError struct {
	Call   string // as in "Alloc"
	Detail string // what is wrong with the argument
}

// Error is one line, as in "memory: Alloc: the stream is nil".
func (e *ArgumentError) Error() string { return "memory: " + e.Call + ": " + e.Detail }

func argumentErr(call, format string, args ...any) error {
	return &ArgumentError{Call: call, Detail: fmt.Sprintf(format, args...)}
}

// What calls are given that is nil, besides what package text has.
const (
	nilPool  = "the pool is nil or a zero value"
	nilGraph = "the graph is nil or a zero value"
)
