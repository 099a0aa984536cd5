// Package atomicfile replaces files whole or not at all.
//
// A file is written under another name in the same folder, "NAME.cistern-0123456789abcdef.tmp", synced, and renamed; then the folder is
// synced. A process or a machine that stops on the way leaves the old file as it was, and perhaps the other one. That is removed by the
// next Write to the same name: while it is written its writer holds a lock on it (flock), which ends with the process, so that it is seen
// whether there still is one. Files of other names are never touched. Where there are no such locks (Windows, some network file systems)
// nothing is removed.
package atomicfile

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// Error says which step failed with which file.
type Error struct {
	Op   string // as in "rename"
	Path string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrNotRegular is the cause of the error of a Write to a folder, a device, a pipe.
var ErrNotRegular = errors.New("it is not a regular file")

// Write replaces the file at path by what write writes. A new file has the permissions that the process gives new files; one that is
// replaced keeps them. A symbolic link stays, and its target is replaced. Other names of the same file (hard links) keep the old content.
// If the file system fails after the renaming, there is an error and the new file.
func Write(sys FS, path string, write func(f File) error) (err error) {
	r := replacement{sys: sys}
	if err := r.locate(path); err != nil {
		return err
	}
	r.clean()
	if err := r.create(); err != nil {
		return err
	}
	done := false
	defer func() {
		if !done { // also after a panic of write's
			err = errors.Join(err, r.abandon())
		}
	}()
	if err := write(r.f); err != nil {
		return err
	}
	err = r.commit()
	done = err == nil
	return err
}

// replacement is one call of Write.
type replacement struct {
	sys       FS
	dir, base string
	old       fs.FileInfo // nil if there is no file yet
	temp      string      // name of the new file while it is one
	f         File
}

func (r *replacement) target() string { return filepath.Join(r.dir, r.base) }

// maxLinks is how many links are followed, as in Linux.
const maxLinks = 40

// locate finds the file that path leads to.
func (r *replacement) locate(path string) error {
	at := path
	for range maxLinks {
		dir, base := filepath.Split(at)
		if base == "" || base == "." || base == ".." {
			return &Error{"write", path, ErrNotRegular}
		}
		if dir == "" {
			dir = "."
		}
		folder := dir
		dir, err := r.sys.EvalSymlinks(folder)
		if err != nil {
			return &Error{"find", filepath.Clean(folder), err}
		}
		r.dir, r.base = dir, base
		info, err := r.sys.Lstat(r.target())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return &Error{"find", path, err}
		case info.Mode().IsRegular():
			r.old = info
			return nil
		case info.Mode()&fs.ModeSymlink == 0:
			return &Error{"write", path, ErrNotRegular}
		}
		if at, err = r.sys.Readlink(r.target()); err != nil {
			return &Error{"find", path, err}
		}
		if !filepath.IsAbs(at) {
			at = dir + string(filepath.Separator) + at // not cleaned: ".." after a link is not the folder before it
		}
	}
	return &Error{"find", path, errors.New("too many symbolic links")}
}

const randomBytes = 8

// prefix is how the names of our temporary files for this target begin. Names of files can have 255 bytes.
func (r *replacement) prefix() string { return r.base[:min(len(r.base), 200)] + ".cistern-" }

var temporary = regexp.MustCompile(fmt.Sprintf(`\.cistern-[0-9a-f]{%d}\.tmp$`, 2*randomBytes))

// Temporary reports whether path is called as the files are that Write renames.
func Temporary(path string) bool { return temporary.MatchString(path) }

func (r *replacement) ours() *regexp.Regexp {
	return regexp.MustCompile(fmt.Sprintf(`^%s[0-9a-f]{%d}\.tmp$`, regexp.QuoteMeta(r.prefix()), 2*randomBytes))
}

// clean removes what writers left that are no more. It is a favour: what it cannot do is left.
func (r *replacement) clean() {
	entries, err := r.sys.ReadDir(r.dir)
	if err != nil {
		return
	}
	ours := r.ours()
	for _, e := range entries {
		if e.Type().IsRegular() && ours.MatchString(e.Name()) {
			r.cleanOne(filepath.Join(r.dir, e.Name()))
		}
	}
}

func (r *replacement) cleanOne(name string) {
	f, err := r.sys.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	if free, err := f.Lock(); free && err == nil && r.is(f, name) { // the writer could have renamed it meanwhile
		r.sys.Remove(name)
	}
}

// is reports whether f is what has a name.
func (r *replacement) is(f File, name string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := r.sys.Lstat(name)
	return err == nil && os.SameFile(mine, there)
}

// create makes the new file, locked. Another process may take it for a dead one's before it is locked; then there is another.
func (r *replacement) create() error {
	mode := fs.FileMode(0o666) // less the umask
	if r.old != nil {
		mode = 0o600 // until it is as the old one's
	}
	for range 100 {
		var random [randomBytes]byte
		if _, err := rand.Read(random[:]); err != nil {
			return &Error{"create", r.target(), err}
		}
		name := filepath.Join(r.dir, r.prefix()+hex.EncodeToString(random[:])+".tmp")
		f, err := r.sys.Create(name, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return &Error{"create", name, err}
		}
		locked, err := f.Lock()
		if err != nil || locked && r.is(f, name) { // an error: there are no locks here, and so nobody cleans
			r.temp, r.f = name, f
			return nil
		}
		f.Close()
		r.sys.Remove(name)
	}
	return &Error{"create", r.target(), errors.New("others remove the temporary file each time")}
}

// abandon removes the new file, if it has not become the target.
func (r *replacement) abandon() error {
	if r.f != nil {
		r.f.Close()
	}
	if r.temp == "" {
		return nil
	}
	if err := r.sys.Remove(r.temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &Error{"remove", r.temp, err}
	}
	return nil
}

// commit gives the new file its permissions and its name, and makes both last.
func (r *replacement) commit() error {
	if r.old != nil {
		if err := r.f.Chmod(r.old.Mode().Perm()); err != nil {
			return &Error{"chmod", r.temp, err}
		}
	}
	if err := r.f.Sync(); err != nil {
		return &Error{"sync", r.temp, err}
	}
	dir, err := r.sys.OpenDir(r.dir) // before the renaming, after which nothing should fail
	if err != nil {
		return &Error{"open", r.dir, err}
	}
	defer dir.Close()
	if closeFirst {
		if err := r.close(); err != nil {
			return err
		}
	}
	if err := r.sys.Rename(r.temp, r.target()); err != nil {
		return &Error{"rename", r.temp, err}
	}
	r.temp = ""
	if err := dir.Sync(); err != nil {
		return &Error{"sync", r.dir, err}
	}
	return r.close()
}

// close ends the lock, too: not before there is nothing left to be taken for a dead writer's.
func (r *replacement) close() error {
	f := r.f
	r.f = nil
	if f == nil {
		return nil
	}
	if err := f.Close(); err != nil {
		return &Error{"close", r.target(), err}
	}
	return nil
}
