//go:build !unix

package safetensors

import (
	"io"
	"os"
)

// readerOf reads a file where it is, and takes it over.
func readerOf(f *os.File, _ int64) (in io.ReaderAt, end func() error) { return f, f.Close }
