package memory

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
)

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

// What calls are given that is nil.
const (
	nilDevice   = "the device is nil or a zero value"
	nilPool     = "the pool is nil or a zero value"
	nilFunction = "the function is nil"

	nilGraph = "the graph is nil or a zero value"

	nilAllocator = "the allocator is nil or a zero value"
)

// noDriver reports whether there is no device: nil, a nil pointer, or a zero value, which has no kind.
func noDriver(d interface{ ID() device.ID }) bool { return isnil.Value(d) || d.ID().Kind == 0 }
