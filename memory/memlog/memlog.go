package memlog

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory"
)

// The messages of the events. Their attributes have the sizes in bytes.
const (
	OutOfMemory = "device memory: out of memory"      // slog.LevelError
	Retry       = "device memory: cache emptied"      // slog.LevelWarn: for a request; costs time if it happens at every step
	Released    = "device memory: returned to driver" // slog.LevelInfo
)

// told is an allocator that tells what happens.
type told interface {
	OnOOM(func(*memory.OOMError))
	OnRelease(func(memory.Release))
}

// To writes the events of an allocator to l, from now on. Events are written by the goroutine whose call they belong to, when no lock of the
// allocator is held; a handler that blocks makes that call slow, and one that panics has it panic. Calling To twice writes
// everything twice. The error is a *memory.ArgumentError for a nil logger or allocator, and for allocators that have no such events: those of
// memory.NewDirect and memory.NewAsync, which keep no cache, and pools, whose events are their allocator's.
func To(l *slog.Logger, a memory.Allocator) error {
	if l == nil || l.Handler() == nil {
		return &memory.ArgumentError{Call: "memlog.To", Detail: "the logger is nil or a zero value"}
	}
	if why := isnil.Why("allocator", a); why != "" {
		return &memory.ArgumentError{Call: "memlog.To", Detail: why}
	}
	t, ok := a.(told)
	if !ok {
		return &memory.ArgumentError{Call: "memlog.To", Detail: fmt.Sprintf("the allocator of %s is a %T, which has no events", a.Device(), a)}
	}
	t.OnOOM(func(e *memory.OOMError) { outOfMemory(l, e) })
	t.OnRelease(func(r memory.Release) { released(l, r) })
	return nil
}

func outOfMemory(l *slog.Logger, e *memory.OOMError) {
	attrs := []slog.Attr{
		slog.String("device", e.Device.String()), slog.Uint64("stream", uint64(e.Stream)), slog.Uint64("requested", e.Requested),
		slog.Uint64("allocated", e.Allocated), slog.Uint64("reserved", e.Reserved), slog.Uint64("largest_free", e.LargestFree),
		slog.Uint64("device_free", e.DeviceFree), slog.Uint64("device_total", e.DeviceTotal),
	}
	if e.LimitHit {
		attrs = append(attrs, slog.Uint64("limit", e.Limit))
	}
	if e.Setting != "" {
		attrs = append(attrs, slog.String("setting", e.Setting))
	}
	if e.Hint != "" {
		attrs = append(attrs, slog.String("hint", e.Hint))
	}
	l.LogAttrs(context.Background(), slog.LevelError, OutOfMemory, attrs...)
}

func released(l *slog.Logger, r memory.Release) {
	if r.Cause == memory.ReleaseRetry && r.Bytes == 0 && !r.Served {
		return // nothing went back and nothing came of it: the error says it all
	}
	attrs := []slog.Attr{
		slog.String("device", r.Device.String()), slog.String("cause", string(r.Cause)),
		slog.Uint64("released", r.Bytes), slog.Int64("driver_calls", r.Calls),
	}
	if r.Cause != memory.ReleaseAsked {
		attrs = append(attrs, slog.Uint64("stream", uint64(r.Stream)), slog.Uint64("requested", r.Requested), slog.Bool("served", r.Served))
	}
	level, message := slog.LevelInfo, Released
	if r.Cause == memory.ReleaseRetry {
		level, message = slog.LevelWarn, Retry
	}
	l.LogAttrs(context.Background(), level, message, attrs...)
}
