package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cistern-ml/cistern/internal/atomicfile"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/safetensors"
)

// FormatError says that what was read is not a checkpoint, or not a sound one: one that is cut short, or was damaged.
type FormatError struct {
	File          string // the reader's Name, if it has one, as files have
	Section       string // if it is about one
	Tensor        string // likewise
	Detail        string
	Wanted, Found string // if there are such
}

func (e *FormatError) Error() string {
	return prefix(e.File, e.Section) + "not a sound checkpoint: " + safetensors.Describe(e.Tensor, e.Detail, e.Wanted, e.Found)
}

// ArgumentError is an argument that a method of Checkpoint does not take.
type ArgumentError struct {
	Call   string // as in "Read"
	Detail string
}

func (e *ArgumentError) Error() string { return "checkpoint: " + e.Call + ": " + e.Detail }

func malformed(format string, args ...any) *FormatError {
	return &FormatError{Detail: fmt.Sprintf(format, args...)}
}

// MismatchError says that a file and the objects that it is loaded into do not belong together.
type MismatchError struct {
	File        string // the reader's Name, if it has one
	Section     string
	Detail      string
	Differences []Difference // of tensors, sorted by name
}

// Difference is a tensor that is not in a file as it is in the program.
type Difference struct {
	Tensor        string
	Wanted, Found string // by the program and in the file, as in "shape [2, 3]"; "nothing" if it is not there
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: wanted %s, found %s", excerpt.Of(d.Tensor), d.Wanted, d.Found)
}

func (e *MismatchError) Error() string {
	parts := make([]string, 0, len(e.Differences)+1)
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	for _, d := range e.Differences {
		parts = append(parts, d.String())
	}
	return prefix(e.File, e.Section) + strings.Join(parts, "; ")
}

// absent is the error of a section of nothing.
func absent(what string) error { return &MismatchError{Detail: "the " + what + " is nil"} }

// SectionError is an error of a section: what an object says of a state that is none of its, or that a device failed.
type SectionError struct {
	File    string // the reader's Name, if it has one
	Section string
	Err     error
}

func (e *SectionError) Error() string {
	return prefix(e.File, e.Section) + excerpt.Once(e.Err, e.File)
}

// Unwrap returns the cause.
func (e *SectionError) Unwrap() error { return e.Err }

// PartialError says that a device failed while a file that fits was loaded, and again when the old state was to be put back. What the
// objects have now is unknown.
type PartialError struct {
	File string // the reader's Name, if it has one
	Err  error  // both
}

func (e *PartialError) Error() string {
	return prefix(e.File, "") + "partly loaded, and what was changed could not be put back: " + excerpt.Once(e.Err, e.File)
}

// Unwrap returns the cause.
func (e *PartialError) Unwrap() error { return e.Err }

// FileError is a step of writing or opening a file that failed.
type FileError struct {
	File string // as it was given
	Op   string // as in "rename"
	Path string // what the step was about, such as the temporary file or the folder
	Err  error
}

func (e *FileError) Error() string {
	why := e.Err
	switch step := why.(type) { // the operation is named, as the path is
	case *fs.PathError:
		why = step.Err
	case *os.LinkError:
		why = step.Err
	}
	return prefix(e.File, "") + e.Op + e.about() + ": " + excerpt.Once(why, e.File, e.Path)
}

// about is what the step was about, unless that is the file.
func (e *FileError) about() string {
	switch {
	case filepath.Clean(e.Path) == filepath.Clean(e.File):
		return ""
	case atomicfile.Temporary(e.Path):
		return " the temporary file beside it"
	case filepath.Clean(e.Path) == filepath.Dir(e.File):
		return " its folder"
	}
	return " " + excerpt.Long(e.Path)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

func prefix(file, section string) string {
	text := "checkpoint: "
	if file != "" {
		text += excerpt.Long(file) + ": "
	}
	if section != "" {
		text += excerpt.Of(section) + ": "
	}
	return text
}

// located completes an error with where it is from.
func located(file, section string, err error) error {
	var unsound *safetensors.Error
	var format *FormatError
	var mismatch *MismatchError
	var step *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unsound):
		return &FormatError{file, section, unsound.Tensor, unsound.Detail, unsound.Wanted, unsound.Found}
	case errors.As(err, &format):
		e := *format
		e.File, e.Section = file, section
		return &e
	case errors.As(err, &mismatch):
		e := *mismatch
		e.File, e.Section = file, section
		return &e
	case section == "" && errors.As(err, &step):
		return &FileError{file, step.Op, step.Path, step.Err}
	case section != "":
		return &SectionError{file, section, err}
	}
	return fmt.Errorf("%s%w", prefix(file, ""), err)
}

// filed makes errors of the file system typed, and leaves others, which are located already. A temporary file that could not be removed
// after an error is told behind it.
func filed(path string, err error) error {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for i, e := range all {
		if step, ok := e.(*atomicfile.Error); ok {
			all[i] = &FileError{path, step.Op, step.Path, step.Err}
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}
