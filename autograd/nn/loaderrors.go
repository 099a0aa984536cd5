package nn

import (
	"cmp"
	stderrors "errors"
	"fmt"
	"io"
	"strings"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/safetensors"
)

// FormatError says that what Load, ReadTensors or ListTensors read is not a file in the safetensors format, or not a sound one: one that is cut short, or was
// damaged.
type FormatError struct {
	Call          string // as in "ReadTensors"; empty is Load
	File          string // the reader's Name, if it has one, as files have
	Tensor        string // if it is about one
	Detail        string
	Wanted, Found string // if there are such
}

func (e *FormatError) Error() string {
	return prefix(e.Call, e.File) + "not a sound safetensors file: " + safetensors.Describe(e.Tensor, e.Detail, e.Wanted, e.Found)
}

// MismatchError says that a file and a model do not have the same parameters, or a file not what ReadTensors was asked for.
type MismatchError struct {
	Call       string   // as in "ReadTensors"; empty is Load
	File       string   // the reader's Name, if it has one
	Missing    []string // in the model, not in the file
	Unexpected []string // in the file, not in the model
	Shapes     []string // of different shapes, with both
	Detail     string   // what else loads the file, where that is known; then there are no names
}

func (e *MismatchError) Error() string {
	if e.Detail != "" {
		return prefix(e.Call, e.File) + e.Detail
	}
	var parts []string
	for _, p := range []struct {
		what  string
		names []string
	}{{"missing from the file", e.Missing}, {"not in the model", e.Unexpected}, {"of another shape", e.Shapes}} {
		if len(p.names) > 0 {
			parts = append(parts, p.what+": "+excerpt.List(p.names))
		}
	}
	return prefix(e.Call, e.File) + strings.Join(parts, "; ")
}

// PartialError says that Load or LoadFile failed after it had begun to change the model: a file changed or could not be read again after
// it had been checked, or a device failed, also when the old values were to be put back.
type PartialError struct {
	Call   string   // as in "LoadFile"; empty is Load
	File   string   // the reader's Name, if it has one
	Loaded []string // the parameters that have, or may have, new values; nil if nobody knows
	Err    error
}

func (e *PartialError) Error() string {
	which := "unknown parameters"
	if e.Loaded != nil {
		which = excerpt.List(e.Loaded)
	}
	return prefix(e.Call, e.File) + fmt.Sprintf("the model is partly loaded (%s): %s", which, excerpt.Once(e.Err, e.File))
}

// Unwrap returns the cause.
func (e *PartialError) Unwrap() error { return e.Err }

func prefix(call, file string) string {
	text := "nn: " + cmp.Or(call, "Load") + ": "
	if file != "" {
		text += excerpt.Long(file) + ": "
	}
	return text
}

// nameOf is what a file is called.
func nameOf(r io.Reader) string {
	if f, ok := r.(interface{ Name() string }); ok {
		return f.Name()
	}
	return ""
}

// inFile says where an error is from.
func inFile(call, file string, err error) error {
	if err == nil {
		return nil
	}
	var unsound *safetensors.Error
	if stderrors.As(err, &unsound) {
		return &FormatError{call, file, unsound.Tensor, unsound.Detail, unsound.Wanted, unsound.Found}
	}
	return &loadError{call, file, err}
}

// loadError is any other error of reading a file, such as that of the file system or of a device.
type loadError struct {
	call, file string
	err        error
}

func (e *loadError) Error() string { return prefix(e.call, e.file) + excerpt.Once(e.err, e.file) }

func (e *loadError) Unwrap() error { return e.err }
