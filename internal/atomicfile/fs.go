package atomicfile

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// FS is what Write asks of a file system. Tests have one that fails.
type FS interface {
	EvalSymlinks(path string) (string, error)
	Lstat(path string) (fs.FileInfo, error)
	Readlink(path string) (string, error)
	ReadDir(path string) ([]fs.DirEntry, error)
	// Create makes a file that was not there.
	Create(path string, mode fs.FileMode) (File, error)
	Open(path string) (File, error)
	OpenDir(path string) (Dir, error)
	Rename(from, to string) error
	Remove(path string) error
}

// File is an open file.
type File interface {
	io.Writer
	io.WriterAt
	Stat() (fs.FileInfo, error)
	Chmod(mode fs.FileMode) error
	Sync() error
	Close() error
	// Lock takes the lock that ends when the file is closed or the process ends, and reports whether nobody else has it. Where
	// there are no locks it is an error.
	Lock() (bool, error)
}

// Dir is an open folder.
type Dir interface {
	// Sync makes renamings in it last.
	Sync() error
	Close() error
}

// OS is the operating system's file system.
type OS struct{}

// EvalSymlinks is filepath.EvalSymlinks.
func (OS) EvalSymlinks(path string) (string, error) { return filepath.EvalSymlinks(path) }

// Lstat is os.Lstat.
func (OS) Lstat(path string) (fs.FileInfo, error) { return os.Lstat(path) }

// Readlink is os.Readlink.
func (OS) Readlink(path string) (string, error) { return os.Readlink(path) }

// ReadDir is os.ReadDir.
func (OS) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

// Create is os.OpenFile.
func (OS) Create(path string, mode fs.FileMode) (File, error) {
	return opened(os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode))
}

// Open is os.OpenFile.
func (OS) Open(path string) (File, error) { return opened(os.OpenFile(path, os.O_RDWR, 0)) }

// OpenDir is os.Open.
func (OS) OpenDir(path string) (Dir, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return dir{f}, nil
}

// Rename is os.Rename.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove is os.Remove.
func (OS) Remove(path string) error { return os.Remove(path) }

type file struct{ *os.File }

func opened(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (f file) Lock() (bool, error) { return lock(f.File) }

type dir struct{ *os.File }

func (d dir) Sync() error { return syncDir(d.File) }
