package nn

import "fmt"

// ArgumentError is an argument that a module or an initializer does not take. It is the error of To, which makes the parameters, or
// that of the graph.
type ArgumentError struct {
	What   string // the module or initializer, as in "GRU"
	Detail string // the argument, its value, and what is allowed
}

// Error is one line, as in "nn: GRU: 0 layers; there must be 1 to 4096".
func (e *ArgumentError) Error() string { return "nn: " + e.What + ": " + e.Detail }

func argumentErr(what, format string, args ...any) error {
	return &ArgumentError{What: what, Detail: fmt.Sprintf(format, args...)}
}
