package idx

import (
	"errors"
	"fmt"
)

// Sentinels for errors.Is. A file that does not exist matches fs.ErrNotExist, a read that failed the error of the read.
var (
	ErrMagic      = errors.New("not the expected kind of IDX file")
	ErrDimensions = errors.New("impossible dimensions")
	ErrTruncated  = errors.New("file ends too early")
	ErrTrailing   = errors.New("bytes after the end of the data")
	ErrLabel      = errors.New("label out of range")
	ErrGzip       = errors.New("corrupt gzip data")
	ErrMismatch   = errors.New("images and labels do not belong together")
)

// Error says which file could not be read, why, and the values that show it.
type Error struct {
	File   string // the name that the caller gave
	Err    error  // a sentinel of this package, fs.ErrNotExist, or the error of the read
	Detail string // the values; may be empty
}

// Error returns one line: file, reason, values.
func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s: %v: %s", e.File, e.Err, e.Detail)
}

// Unwrap returns the reason, for errors.Is.
func (e *Error) Unwrap() error { return e.Err }
