package device

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// Spec names a device to open: what ParseSpec reads from a flag or a configuration.
type Spec struct {
	Kind     Kind
	Index    int    // of a CUDA device; 0 for others
	Capacity uint64 // bytes of a host or sim device; 0 means its default
}

const allowedSpecs = `"host", "host:4GiB", "sim", "sim:80GiB", "sim:80GB", "cuda" or "cuda:0"`

// ParseSpec reads a specification: "host" and "sim", with or without a capacity as ParseBytes reads it ("host:4GiB", "sim:80GB", "sim:25253904384"), which
// without a unit is at least 1 MiB; and "cuda", with or without an index ("cuda:1"). Anything else is a *ParseError.
func ParseSpec(s string) (Spec, error) {
	name, rest, more := strings.Cut(s, ":")
	fail := func(why string, values ...any) (Spec, error) {
		return Spec{}, &ParseError{What: "device", Value: s, Allowed: allowedSpecs, Reason: fmt.Sprintf(why, values...)}
	}
	spec := Spec{}
	switch lower := strings.ToLower(name); {
	case s == "":
		return fail("it is empty")
	case name == "":
		return fail("there is nothing before the colon")
	case lower == Host.String():
		spec.Kind = Host
	case lower == Sim.String():
		spec.Kind = Sim
	case lower == CUDA.String():
		spec.Kind = CUDA
	default:
		return fail("there is no kind of device %s", excerpt.Quote(name))
	}
	switch {
	case name != spec.Kind.String():
		return fail("kinds of devices are in lower case, %q", spec.Kind.String())
	case !more:
		return spec, nil
	case rest == "":
		return fail("there is nothing after the colon")
	case strings.Contains(rest, ":"):
		return fail("there is more than one colon")
	}
	if spec.Kind == CUDA {
		index, err := strconv.ParseInt(rest, 10, 32)
		switch {
		case index < 0:
			return fail("the index %s is negative", excerpt.Quote(rest))
		case errors.Is(err, strconv.ErrRange):
			return fail("the index %s is more than %d", excerpt.Quote(rest), math.MaxInt32)
		case err != nil || rest[0] == '+':
			return fail("the index %s is not a whole number", excerpt.Quote(rest))
		}
		spec.Index = int(index)
		return spec, nil
	}
	// "sim:1" is refused because it is also how the second simulated device of a process is called, and "sim:80" because no one means 80 bytes.
	capacity, unit, err := parseBytes(rest)
	var wrong *ParseError
	switch {
	case errors.As(err, &wrong):
		return fail("%s", wrong.Reason)
	case capacity == 0:
		return fail("the capacity is 0")
	case !unit && capacity < MiB:
		return fail("%s has no unit, and is therefore a number of bytes, of which there must be at least %d", excerpt.Quote(rest), MiB)
	}
	spec.Capacity = capacity
	return spec, nil
}

// String returns the specification that ParseSpec reads as s.
func (s Spec) String() string {
	switch {
	case s.Kind == CUDA:
		return fmt.Sprintf("cuda:%d", s.Index)
	case s.Capacity > 0:
		return s.Kind.String() + ":" + exactBytes(s.Capacity)
	}
	return s.Kind.String()
}

// ParseError is text that does not name a device or a number of bytes. It matches ErrInvalidValue.
type ParseError struct {
	What    string // what was to be read, as in "device"
	Value   string // the text
	Allowed string // what may be written
	Reason  string // what is wrong with it; may be empty
}

// Error names the text and what is allowed.
func (e *ParseError) Error() string {
	reason := ""
	if e.Reason != "" {
		reason = e.Reason + "; "
	}
	return fmt.Sprintf("%s is not a %s: %sallowed: %s", excerpt.Quote(e.Value), e.What, reason, e.Allowed)
}

// Unwrap returns ErrInvalidValue.
func (e *ParseError) Unwrap() error { return ErrInvalidValue }
