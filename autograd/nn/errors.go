package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/plural"
)

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

// dimensions is how many there are, in words.
func dimensions(n int) string { return plural.Of(n, "dimension") }

// NameError is a name that cannot be registered in a module, or that two parameters of a model have. It is the error of the first use of
// the model that returns one: To, Save, Load, or the graph's when a layer runs.
type NameError struct {
	Module string // the path of the module; empty for the model itself
	Name   string
	Detail string // why
}

// Error is one line, as in "nn: module encoder: the name \"a.b\": a name has no dots".
func (e *NameError) Error() string {
	where := "nn: "
	if e.Module != "" {
		where += "module " + excerpt.Of(e.Module) + ": "
	}
	return fmt.Sprintf("%sthe name %q: %s", where, excerpt.Of(e.Name), e.Detail)
}
