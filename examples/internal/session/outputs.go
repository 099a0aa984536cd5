package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrInterrupted is the error of a program that Ctrl-C has ended, after it has saved and printed what it had. Its exit code is
// InterruptedCode.
var ErrInterrupted error = interrupted{}

type interrupted struct{}

func (interrupted) Error() string { return "interrupted" }

// ExitCode is what package command asks for.
func (interrupted) ExitCode() int { return InterruptedCode }

// InterruptedCode is the exit code of a program that was interrupted: 128 and the number of SIGINT, as of shells.
const InterruptedCode = 130

// Interrupted reports whether the program was asked to stop, by Ctrl-C. Programs ask between steps. A second Ctrl-C ends the
// process at once.
func (s *Session) Interrupted() bool { return s.interrupt.Err() != nil }

// Output is a file that a program writes at its end, and the flag that names it.
type Output struct{ Flag, File string }

// CheckOutputs refuses files that cannot be written, before hours of training. Empty names are none.
func CheckOutputs(outputs ...Output) error {
	for _, o := range outputs {
		if o.File == "" {
			continue
		}
		if err := writable(o.File); err != nil {
			return fmt.Errorf("-%s cannot be written: %w", o.Flag, err)
		}
	}
	return nil
}

// writable reports whether a file can be made or replaced, and leaves everything as it is.
func writable(file string) error {
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
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
