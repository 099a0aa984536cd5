//go:build unix

package safetensors

import (
	"errors"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// readerOf maps a file into memory, where that is possible, and takes it over.
func readerOf(f *os.File, size int64) (in io.ReaderAt, end func() error) {
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil { // some file systems cannot, and an empty file has nothing to map
		return f, f.Close
	}
	return mapped(data), func() error { return errors.Join(unix.Munmap(data), f.Close()) }
}

// mapped reads from a file in memory. What is read is copied: from a file that was cut short meanwhile the copying fails, which can be caught
// here, and not where a driver or another goroutine would read the pages.
type mapped []byte

var errCutShort = errors.New("the file was cut short while it was open")

func (m mapped) ReadAt(b []byte, at int64) (n int, err error) {
	if at < 0 || at >= int64(len(m)) {
		return 0, io.EOF
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			n, err = 0, errCutShort
		}
	}()
	if n = copy(b, m[at:]); n < len(b) {
		err = io.EOF
	}
	return n, err
}
