package parallel

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/internal/atomicfile"
)

// storage is what a Checkpoint asks of a file system. Tests have one that fails.
type storage interface {
	atomicfile.FS
	// MakeFolder makes a folder and those above it, if they are not there.
	MakeFolder(path string) error
	// OpenPart opens a file to be read.
	OpenPart(path string) (partFile, error)
}

// partFile is a file that is read.
type partFile interface {
	io.ReaderAt
	Size() (int64, error)
	Close() error
}

// system is the operating system's.
type system struct{ atomicfile.OS }

func (system) MakeFolder(path string) error {
	if err := os.MkdirAll(path, 0o777); err != nil { // less the umask
		return err
	}
	above, err := atomicfile.OS{}.OpenDir(filepath.Dir(filepath.Clean(path)))
	if err != nil {
		return err
	}
	return errors.Join(above.Sync(), above.Close()) // the folder lasts, as what is renamed in it
}

func (system) OpenPart(path string) (partFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return regular{f}, nil
}

type regular struct{ *os.File }

func (f regular) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, atomicfile.ErrNotRegular
	}
	return info.Size(), nil
}

// fileError is a step with a file that failed.
func fileError(file, op string, err error) error {
	if err == nil {
		return nil
	}
	path := file
	var step *atomicfile.Error
	var located *fs.PathError
	switch {
	case errors.As(err, &step):
		op, path, err = step.Op, step.Path, step.Err
	case errors.As(err, &located):
		err = located.Err
	}
	return &checkpoint.FileError{File: file, Op: op, Path: path, Err: err}
}
