package safetensors

import (
	"fmt"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// Error says that what was read is not a file in the format, or not a whole one. The packages that read files make errors of their own
// of it.
type Error struct {
	Tensor        string // if it is about one
	Detail        string
	Wanted, Found string // if there are such
}

func (e *Error) Error() string { return "safetensors: " + e.Text() }

// Text is the error without the package's name.
func (e *Error) Text() string { return Describe(e.Tensor, e.Detail, e.Wanted, e.Found) }

// Describe puts the parts of an error, each of which may be empty, into one line.
func Describe(tensor, detail, wanted, found string) string {
	text := excerpt.Long(detail)
	if tensor != "" {
		text = "tensor " + excerpt.Quote(tensor) + ": " + text
	}
	if wanted != "" || found != "" {
		text += fmt.Sprintf(": wanted %s, found %s", excerpt.Long(wanted), excerpt.Long(found))
	}
	return text
}

func unsound(format string, args ...any) error { return &Error{Detail: fmt.Sprintf(format, args...)} }
