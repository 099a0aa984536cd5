package safetensors

import (
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/internal/atomicfile"
	"github.com/cistern-ml/cistern/internal/excerpt"
	format "github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

// ErrClosed is the error of reading from a File that was closed.
var ErrClosed = errors.New("safetensors: the file is closed")

// FormatError says that a file is not one in the format, or not a sound one: one that is cut short, or was damaged.
type FormatError struct {
	File          string // its path, or the reader's Name; empty if it has none
	Tensor        string // if it is about one
	Detail        string
	Wanted, Found string // if there are such
}

func (e *FormatError) Error() string {
	return in(e.File) + "not a sound safetensors file: " + format.Describe(e.Tensor, e.Detail, e.Wanted, e.Found)
}

// NameError says that there is no tensor of a name, or that the name cannot be written.
type NameError struct {
	File   string
	Name   string
	Detail string
}

func (e *NameError) Error() string {
	return in(e.File) + "tensor " + excerpt.Quote(e.Name) + ": " + e.Detail
}

// TypeError says that a tensor has elements of a type that package tensor has not.
type TypeError struct {
	File   string
	Tensor string
	Type   string // as the format calls it, as in "F8_E4M3"
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("%stensor %s has elements of type %s, which package tensor has not", in(e.File), excerpt.Quote(e.Tensor), excerpt.Quote(e.Type))
}

// ArgumentError is an argument that a function of this package does not take.
type ArgumentError struct {
	Call   string // as in "Read"
	Detail string
}

func (e *ArgumentError) Error() string { return "safetensors: " + e.Call + ": " + e.Detail }

func argumentErr(call, text string, args ...any) error {
	return &ArgumentError{call, fmt.Sprintf(text, args...)}
}

// FileError is an error of the file system.
type FileError struct {
	Op   string // as in "open"
	Path string
	Err  error
}

func (e *FileError) Error() string {
	return "safetensors: " + e.Op + " " + excerpt.Long(e.Path) + ": " + excerpt.Once(e.Err, e.Path)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

func in(file string) string {
	if file == "" {
		return "safetensors: "
	}
	return "safetensors: " + excerpt.Long(file) + ": "
}

// readError is any other error of reading or writing a tensor, such as that of a device.
type readError struct {
	file, tensor string
	err          error
}

func (e *readError) Error() string {
	return in(e.file) + "tensor " + excerpt.Quote(e.tensor) + ": " + excerpt.Once(e.err, e.file)
}

func (e *readError) Unwrap() error { return e.err }

// located says in which file something went wrong.
func located(file, tensor string, err error) error {
	var unsound *format.Error
	var step *atomicfile.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unsound):
		return &FormatError{file, unsound.Tensor, unsound.Detail, unsound.Wanted, unsound.Found}
	case errors.As(err, &step):
		return &FileError{step.Op, step.Path, step.Err}
	case tensor == "":
		return &FileError{"read", file, err}
	}
	return &readError{file, tensor, err}
}

// absent is the error of a zero Exec.
func absent(call string) error {
	return &tensor.DeviceError{Op: "safetensors." + call, Detail: "zero Exec: make one with tensor.On"}
}
