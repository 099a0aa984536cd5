package atomicfile

import (
	"errors"
	"io/fs"
	"testing"
)

// errInjected is what the faulty file system fails with.
var errInjected = errors.New("injected")

// faulty is the operating system's file system, of which one call fails: the one number fail, counted from 1. It lists the calls.
type faulty struct {
	OS
	fail  int
	calls []string
}

func (s *faulty) call(name string) error {
	s.calls = append(s.calls, name)
	if len(s.calls) == s.fail {
		return errInjected
	}
	return nil
}

// after does what f does unless the call fails.
func after[T any](s *faulty, name string, f func() (T, error)) (T, error) {
	if err := s.call(name); err != nil {
		var zero T
		return zero, err
	}
	return f()
}

func (s *faulty) EvalSymlinks(path string) (string, error) {
	return after(s, "evalsymlinks", func() (string, error) { return s.OS.EvalSymlinks(path) })
}

func (s *faulty) Lstat(path string) (fs.FileInfo, error) {
	return after(s, "lstat", func() (fs.FileInfo, error) { return s.OS.Lstat(path) })
}

func (s *faulty) Readlink(path string) (string, error) {
	return after(s, "readlink", func() (string, error) { return s.OS.Readlink(path) })
}

func (s *faulty) ReadDir(path string) ([]fs.DirEntry, error) {
	return after(s, "readdir", func() ([]fs.DirEntry, error) { return s.OS.ReadDir(path) })
}

func (s *faulty) Create(path string, mode fs.FileMode) (File, error) {
	return after(s, "create", func() (File, error) { return s.file(s.OS.Create(path, mode)) })
}

func (s *faulty) Open(path string) (File, error) {
	return after(s, "open", func() (File, error) { return s.file(s.OS.Open(path)) })
}

func (s *faulty) OpenDir(path string) (Dir, error) {
	return after(s, "opendir", func() (Dir, error) {
		d, err := s.OS.OpenDir(path)
		return &faultyDir{d, s}, err
	})
}

func (s *faulty) Rename(from, to string) error {
	if err := s.call("rename"); err != nil {
		return err
	}
	return s.OS.Rename(from, to)
}

func (s *faulty) Remove(path string) error {
	if err := s.call("remove"); err != nil {
		return err
	}
	return s.OS.Remove(path)
}

func (s *faulty) file(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return &faultyFile{f, s}, nil
}

type faultyFile struct {
	File
	s *faulty
}

func (f *faultyFile) Write(b []byte) (int, error) {
	if err := f.s.call("write"); err != nil {
		n, _ := f.File.Write(b[:len(b)/2]) // a full disk takes a part
		return n, err
	}
	return f.File.Write(b)
}

func (f *faultyFile) WriteAt(b []byte, at int64) (int, error) {
	return after(f.s, "writeat", func() (int, error) { return f.File.WriteAt(b, at) })
}

func (f *faultyFile) Stat() (fs.FileInfo, error) { return after(f.s, "stat", f.File.Stat) }
func (f *faultyFile) Lock() (bool, error)        { return after(f.s, "lock", f.File.Lock) }

func (f *faultyFile) Chmod(mode fs.FileMode) error {
	if err := f.s.call("chmod"); err != nil {
		return err
	}
	return f.File.Chmod(mode)
}

func (f *faultyFile) Sync() error {
	if err := f.s.call("sync"); err != nil {
		return err
	}
	return f.File.Sync()
}

// Close closes the file, also if it fails.
func (f *faultyFile) Close() error { return errors.Join(f.s.call("close"), f.File.Close()) }

type faultyDir struct {
	Dir
	s *faulty
}

func (d *faultyDir) Sync() error {
	if err := d.s.call("syncdir"); err != nil {
		return err
	}
	return d.Dir.Sync()
}

// contains checks that a test did what it is there for.
func (s *faulty) contains(t *testing.T, names ...string) {
	t.Helper()
	have := map[string]bool{}
	for _, c := range s.calls {
		have[c] = true
	}
	for _, n := range names {
		if !have[n] {
			t.Errorf("no call of %s among %v", n, s.calls)
		}
	}
}
