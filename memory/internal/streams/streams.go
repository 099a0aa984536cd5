// Package streams answers what allocators ask about streams.
package streams

import (
	"errors"

	"github.com/cistern-ml/cistern/device"
)

// Closed reports whether a stream was closed: then its work is done, because closing waits for it.
func Closed(s device.Stream) bool {
	c, ok := s.(device.CloseReporter)
	return ok && c.Closed()
}

// Capture returns the number of the graph capture that a stream is part of, or 0.
func Capture(s device.Stream) uint64 {
	if c, ok := s.(device.Capturer); ok {
		return c.CaptureID()
	}
	return 0
}

// Capturing reports whether work on s goes into a graph.
func Capturing(s device.Stream) bool { return Capture(s) != 0 }

// Same compares streams of possibly different devices.
func Same(a, b device.Stream) bool {
	return a.ID() == b.ID() && a.Device().ID() == b.Device().ID()
}

// IgnoreClosed makes an error of waiting for a closed stream, or asking one, no error: closing has waited.
func IgnoreClosed(err error) error {
	if errors.Is(err, device.ErrClosed) {
		return nil
	}
	return err
}
