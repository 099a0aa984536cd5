package cuda

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// Result is the number that a driver function returned, CUresult. It is the innermost error of every *device.Error that comes
// from the driver, and wraps the sentinel of package device that says the same.
type Result uint32

// Error returns the name in the driver's header and the number, as in "CUDA_ERROR_OUT_OF_MEMORY (2)".
func (r Result) Error() string { return driver.Result(r).String() }

// Sticky reports whether the device cannot be used any more after this result.
func (r Result) Sticky() bool { return driver.Result(r).Sticky() }

// Unwrap returns the sentinel of package device.
func (r Result) Unwrap() error {
	switch d := driver.Result(r); {
	case d == driver.OutOfMemory:
		return device.ErrOutOfMemory
	case d.Sticky():
		return device.ErrLaunch
	case d == driver.Deinitialized:
		return device.ErrClosed
	}
	switch {
	// What the machine, its driver or its setup lacks, and no other arguments would help: 8xx are permissions, services and versions;
	// 3, 34 and 36 a driver that is not there, a stub of it, or too old; 46, 100 and 102 the GPU; 217 peer access; 221 and 223
	// the PTX compiler; 304 the operating system; 999 anything.
	case r >= 800 && r < 900, r == 3, r == 34, r == 36, r == 46, r == 100, r == 102, r == 217, r == 221, r == 223, r == 304, r == 999:
		return device.ErrUnavailable
	}
	return device.ErrInvalidValue
}

// fail makes the error of a call that this package refuses.
func (d *Device) fail(call string, err error, format string, values ...any) error {
	if d == absent {
		return noDevice(call)
	}
	return &device.Error{Device: d.id, Call: call, Detail: fmt.Sprintf(format, values...), Err: err}
}

// failed makes the error of a driver call. A sticky result ends the device; the error then names the operations that may
// have caused it.
func (d *Device) failed(f driver.Func, r driver.Result, format string, values ...any) error {
	detail := fmt.Sprintf(format, values...)
	if !r.Sticky() {
		return &device.Error{Device: d.id, Call: f.String(), Detail: detail, Err: Result(r)}
	}
	// Any call may return the error of earlier work, so f is only who told. Work of other streams is as suspect as the stream's own:
	// the result belongs to the context.
	suspects := d.suspects()
	call := f.String()
	if len(suspects) > 0 {
		call = suspects[0]
		if len(suspects) > 1 {
			call = "one of " + strings.Join(suspects, ", ")
		}
		detail = strings.TrimPrefix(detail+"; ", "; ") + "told by " + f.String()
		if len(suspects) > 1 {
			detail += "; CUDA_LAUNCH_BLOCKING=1 in the environment tells which"
		}
	}
	err := device.LaunchError(d.id, call, Result(r))
	err.Detail = detail
	d.broken.CompareAndSwap(nil, err) // of two goroutines that are told at once, one is right: the context broke once
	return err
}

// unusable is the error of every call after a sticky result. The driver's documentation wants a new process: the context is in an
// undefined state, and all that the process has on the device is in this one context.
func (d *Device) unusable(call string, first *device.Error) error {
	return &device.Error{Device: d.id, Call: call, Err: &lost{first}, Detail: "start a new process to use it again"}
}

// lost ties ErrUnavailable to the error that ended the device.
type lost struct{ first *device.Error }

func (l *lost) Error() string {
	return "the device is unusable since an earlier error: " + l.first.Error()
}

func (l *lost) Unwrap() []error { return []error{device.ErrUnavailable, l.first} }

// Err returns nil while the device can be used, and otherwise the error that ended it.
func (d *Device) Err() error {
	d = d.orAbsent()
	if d == absent {
		return noDevice("Err")
	}
	if first := d.broken.Load(); first != nil {
		return first
	}
	return nil
}

// usable reports whether an error leaves the device in working order, so that the call can be made again.
func (d *Device) usable() bool { return d.broken.Load() == nil }

// wrongDevice is the error for an object of another device, or of no device of this package.
func (d *Device) wrongDevice(call, what string) error {
	return d.fail(call, device.ErrInvalidValue, "the %s is not of this device", what)
}

// join is errors.Join that keeps a single error as it is.
func join(errs ...error) error {
	var only error
	n := 0
	for _, err := range errs {
		if err != nil {
			only, n = err, n+1
		}
	}
	if n < 2 {
		return only
	}
	return errors.Join(errs...)
}
