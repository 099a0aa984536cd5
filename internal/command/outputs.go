package command

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// OutputVar adds a flag for a file that is written when all is done. Parse refuses one that cannot be: before hours of work, not after them.
func OutputVar(f *flag.FlagSet, to *string, name, usage string) { f.Var((*output)(to), name, usage) }

// output is the value of such a flag.
type output string

func (o *output) Set(file string) error { *o = output(file); return nil }
func (o *output) String() string {
	if o == nil { // as package flag asks a new one for what it prints
		return ""
	}
	return string(*o)
}

// unwritable is the error of a file that cannot be written.
type unwritable struct{ error }

func (u unwritable) Unwrap() error { return u.error }

// checkOutputs refuses files that cannot be written, and one for two flags. Flags that are not given name none.
func checkOutputs(f *flag.FlagSet) (err error) {
	var given []*flag.Flag
	f.Visit(func(f *flag.Flag) {
		if o, ok := f.Value.(*output); ok && *o != "" && err == nil {
			for _, other := range given {
				if SameFile(other.Value.String(), string(*o)) {
					err = Twice(other.Name, f.Name, string(*o))
					return
				}
			}
			given = append(given, f)
			if wrong := Writable(string(*o)); wrong != nil {
				err = unwritable{fmt.Errorf("-%s cannot be written: %w", f.Name, wrong)}
			}
		}
	})
	return err
}

// Twice is the error of a file that two flags name.
func Twice(flag, other, file string) error {
	return fmt.Errorf("-%s and -%s name one file, %s, which would keep only what is written last", flag, other, file)
}

// SameFile reports whether two names are of one regular file, there already or not: what is written to the one is lost when the other is written.
func SameFile(a, b string) bool {
	one, err := os.Stat(a)
	two, errTwo := os.Stat(b)
	switch {
	case err == nil && errTwo == nil:
		return one.Mode().IsRegular() && os.SameFile(one, two)
	case err == nil || errTwo == nil:
		return false
	}
	return full(a) == full(b)
}

// full is the name of a file that is not there from the root on, without links: of a link to what is not there, the name of that.
func full(file string) string {
	abs, err := filepath.Abs(file)
	if err != nil {
		return filepath.Clean(file)
	}
	for range 40 { // as many as systems follow
		to, err := os.Readlink(abs)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(abs), to)
		}
		abs = to
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		return filepath.Join(folder, filepath.Base(abs))
	}
	return abs
}

// Writable reports whether a file can be made or replaced, and leaves everything as it is.
func Writable(file string) error {
	if file == "-" { // whoever means the standard output does not want a file of that name
		return errors.New("- is no file: the standard output has what the program prints (./- is a file of that name)")
	}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder", file)
	case !info.Mode().IsRegular():
		return nil // a pipe or a device: opening one may have effects
	default:
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		if real, err := filepath.EvalSymlinks(file); err == nil {
			file = real
		}
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".writable*")
	if err != nil {
		var of *fs.PathError
		if errors.As(err, &of) {
			of.Path = file // and not that of ours
		}
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
