package session

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"

	"github.com/cistern-ml/cistern/device"
)

// On is Open for a device that the program has made itself. Closing the session closes it, and so does an error.
func (w *Watch) On(dev device.Device, stderr io.Writer) (*Session, error) {
	if err := w.check(); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	s, err := On(dev, 1)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	s.opened = true
	if err := w.begin(s, stderr); err != nil {
		return nil, s.Close(err)
	}
	return s, nil
}

// Coloured reports whether a program may write colours on w: it is a terminal that shows them, and nobody has set NO_COLOR.
func Coloured(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || !terminal(f) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	return runtime.GOOS != "windows" || os.Getenv("WT_SESSION") != ""
}

// Interrupt is done after Ctrl-C: for what waits between steps.
func (s *Session) Interrupt() context.Context { return s.interrupt }
