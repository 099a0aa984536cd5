package idx

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// file is an IDX file while it is being read.
type file struct {
	name string
	r    io.Reader // decompressed
}

// open looks at the first bytes and puts a decompressor in front if they are gzip's.
func open(r io.Reader, name string) (*file, error) {
	buffered := bufio.NewReader(r)
	f := &file{name: name, r: buffered}
	head, err := buffered.Peek(2)
	if err != nil && err != io.EOF {
		return nil, f.readError(err, "magic number", 4, len(head))
	}
	if !bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return f, nil
	}
	unzipped, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, f.readError(err, "gzip header", 0, 0)
	}
	f.r = unzipped
	return f, nil
}

// read returns the dimensions and the values of a file with the given magic number.
func (f *file) read(magic uint32) ([]int, []byte, error) {
	got, err := f.uint32("magic number")
	if err != nil {
		return nil, nil, err
	}
	if got != magic {
		return nil, nil, f.fail(ErrMagic, "magic number %#08x, want %#08x", got, magic)
	}
	dims, size, err := f.dimensions(int(magic & 0xff))
	if err != nil {
		return nil, nil, err
	}
	data, err := f.data(size)
	if err != nil {
		return nil, nil, err
	}
	return dims, data, f.end()
}

// dimensions reads n dimensions and returns them with their product, which is between 1 and MaxBytes.
func (f *file) dimensions(n int) ([]int, int, error) {
	dims, size := make([]int, n), uint64(1)
	for i := range dims {
		d, err := f.uint32("dimensions")
		if err != nil {
			return nil, 0, err
		}
		size *= uint64(d) // below 2^62: size was at most MaxBytes
		if size == 0 || size > MaxBytes {
			return nil, 0, f.fail(ErrDimensions, "dimension %d is %d, so that the data is not 1 to %d bytes", i, d, MaxBytes)
		}
		dims[i] = int(d)
	}
	return dims, int(size), nil
}

// firstRead is how many bytes data makes room for before it has seen any.
const firstRead = 1 << 20

// data reads size bytes. The room for them doubles as they arrive, so a header that lies costs no memory.
func (f *file) data(size int) ([]byte, error) {
	data := make([]byte, 0, min(size, firstRead))
	for {
		n, err := io.ReadFull(f.r, data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err != nil {
			return nil, f.readError(err, "data", size, len(data))
		}
		if len(data) == size {
			return data, nil
		}
		data = append(make([]byte, 0, min(size, 2*cap(data))), data...)
	}
}

// end checks that the file ends here. For gzip this is also what checks the checksum.
func (f *file) end() error {
	var b [1]byte
	n, err := io.ReadFull(f.r, b[:])
	if n > 0 {
		return f.fail(ErrTrailing, "first of them %#02x", b[0])
	}
	if err == io.EOF {
		return nil
	}
	return f.readError(err, "gzip trailer", 0, 0)
}

// uint32 reads one big-endian number; what says which, for the error.
func (f *file) uint32(what string) (uint32, error) {
	var b [4]byte
	n, err := io.ReadFull(f.r, b[:])
	if err != nil {
		return 0, f.readError(err, what, len(b), n)
	}
	return binary.BigEndian.Uint32(b[:]), nil
}

// fail returns an *Error of this file.
func (f *file) fail(reason error, format string, values ...any) error {
	return &Error{File: f.name, Err: reason, Detail: fmt.Sprintf(format, values...)}
}

// readError returns the *Error for a read of want bytes of something that gave got bytes and err. Want is 0 where the
// bytes cannot be counted.
func (f *file) readError(err error, what string, want, got int) error {
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && want == 0:
		return f.fail(ErrTruncated, "in the %s", what)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return f.fail(ErrTruncated, "%s has %d of %d bytes", what, got, want)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return f.fail(ErrGzip, "%v in the %s", err, what)
	}
	return f.fail(err, "reading the %s", what)
}

// openError returns the *Error for a file that could not be opened. The name is in File, so it is dropped from err.
func openError(name string, err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return &Error{File: name, Err: e.Err, Detail: e.Op}
	}
	return &Error{File: name, Err: err}
}
