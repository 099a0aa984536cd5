package session

import (
	"fmt"

	"github.com/cistern-ml/cistern/internal/command"
)

// ErrInterrupted is the error of a program that Ctrl-C has ended, after it has saved and printed what it had. Its exit code is
// InterruptedCode.
var ErrInterrupted error = interrupted{}

type interrupted struct{}

func (interrupted) Error() string { return "interrupted" }

// ExitCode is what package command asks for.
func (interrupted) ExitCode() int { return InterruptedCode }

// InterruptedCode is the exit code of a program that was interrupted.
const InterruptedCode = command.Interrupted

// Interrupted reports whether the program was asked to stop, by Ctrl-C. Programs ask between steps. A second Ctrl-C ends the
// process at once, with InterruptedCode.
func (s *Session) Interrupted() bool { return s.interrupt.Err() != nil }

// Output is a file that a program writes at its end, and the flag that names it.
type Output struct{ Flag, File string }

// distinct refuses a file that several flags name: each would write over what another has written.
func distinct(outputs []Output) error {
	for i, o := range outputs {
		for _, before := range outputs[:i] {
			if o.File != "" && before.File != "" && command.SameFile(before.File, o.File) {
				return command.Twice(before.Flag, o.Flag, o.File)
			}
		}
	}
	return nil
}

// CheckOutputs refuses files that cannot be written, before hours of training. Empty names are none.
func CheckOutputs(outputs ...Output) error {
	for _, o := range outputs {
		if o.File == "" {
			continue
		}
		if err := command.Writable(o.File); err != nil {
			return fmt.Errorf("-%s cannot be written: %w", o.Flag, err)
		}
	}
	return nil
}
