package fakecuda

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Library turns the knobs of a loaded library and reads its findings.
type Library struct {
	t    testing.TB
	path string

	set         func(name, value string) int32
	text        func(what string, out *byte, n uintptr) uintptr
	count       func(what string) uint64
	hold        func(on int32)
	holdStream  func(stream uintptr, on int32) int32
	clearFaults func()
	reset       func()
	skeleton    func(names string, out *byte, n uintptr) uintptr
	unknown     func(ptx string, out *byte, n uintptr) uintptr
}

// Path is the file that was opened.
func (l *Library) Path() string { return l.path }

// Reset ends all streams, forgets all that was made, counted and found, and sets every knob back, as if the library had just
// been loaded. Loaded kernels stay. No other goroutine may be inside the driver.
func (l *Library) Reset() { l.reset() }

// Set turns the knob of that name; README.md lists them. A name or value that the library does not know ends the test.
func (l *Library) Set(name, value string) {
	l.t.Helper()
	if l.set(name, value) != 0 {
		l.t.Fatalf("fakecuda: cannot set %s to %q", name, value)
	}
}

// Devices says how many devices there are from the next cuInit after a Reset. With none, cuInit answers
// CUDA_ERROR_NO_DEVICE.
func (l *Library) Devices(n int) { l.t.Helper(); l.Set("devices", strconv.Itoa(n)) }

// Capacity is the memory of one device in bytes, from the next cuInit after a Reset.
func (l *Library) Capacity(device int, bytes uint64) {
	l.t.Helper()
	l.Set("memory", fmt.Sprintf("%d:%d", device, bytes))
}

// Process makes another process hold memory of a device until the next Reset.
func (l *Library) Process(device, pid int, bytes uint64, name string) {
	l.t.Helper()
	l.Set("process", fmt.Sprintf("%d:%d:%d:%s", device, pid, bytes, name))
}

// Fail makes a call fail: the nth from now of the named function, with the given code. Function "*" counts calls of all
// functions, "work" pieces of work on streams, whose failure breaks the context. With nth 0 every call fails.
func (l *Library) Fail(function string, nth, code int) {
	l.t.Helper()
	l.Set("fail", fmt.Sprintf("%s:%d:%d", function, nth, code))
}

// ClearFaults forgets all that Fail asked for.
func (l *Library) ClearFaults() { l.clearFaults() }

// DelayCalls makes every call of the driver take at least d.
func (l *Library) DelayCalls(d time.Duration) {
	l.t.Helper()
	l.Set("call_delay_us", strconv.FormatInt(d.Microseconds(), 10))
}

// DelayWork makes every piece of work on a stream take d longer.
func (l *Library) DelayWork(d time.Duration) {
	l.t.Helper()
	l.Set("work_delay_us", strconv.FormatInt(d.Microseconds(), 10))
}

// Greedy chooses the second schedule of kernels and graphs: see README.md.
func (l *Library) Greedy(on bool) {
	l.t.Helper()
	l.Set("greedy", map[bool]string{false: "0", true: "1"}[on])
}

// InstantLaunch makes launches of kernels return at once and do nothing, to measure what they cost their caller.
func (l *Library) InstantLaunch(on bool) {
	l.t.Helper()
	l.Set("instant_launch", map[bool]string{false: "0", true: "1"}[on])
}

// Hold stops all streams before their next piece of work until Release. Calls that wait for them wait until then, too.
func (l *Library) Hold() { l.hold(1) }

// Release lets the streams go on after Hold.
func (l *Library) Release() { l.hold(0) }

// HoldStream and ReleaseStream do that to one stream, given by its CUstream.
func (l *Library) HoldStream(stream uintptr) { l.t.Helper(); l.setHold(stream, 1) }

// ReleaseStream lets a stream go on after HoldStream.
func (l *Library) ReleaseStream(stream uintptr) { l.t.Helper(); l.setHold(stream, 0) }

func (l *Library) setHold(stream uintptr, on int32) {
	l.t.Helper()
	if l.holdStream(stream, on) != 0 {
		l.t.Fatalf("fakecuda: there is no stream %#x", stream)
	}
}

// LoadKernels gives the library the kernels of a file that BuildKernels made. They stay until another file has kernels of
// the same names.
func (l *Library) LoadKernels(path string) { l.t.Helper(); l.Set("kernels", path) }

// SkeletonPTX is a PTX module with the given kernels, which must be loaded: their names and parameters without code. It is
// enough to launch the emulated kernels.
func (l *Library) SkeletonPTX(kernels ...string) string {
	l.t.Helper()
	s := fill(func(out *byte, n uintptr) uintptr { return l.skeleton(strings.Join(kernels, " "), out, n) })
	if s == "" {
		l.t.Fatalf("fakecuda: not all of these kernels are loaded: %v", kernels)
	}
	return s
}

// Leaks lists what is alive: memory, streams, events, modules, graphs, contexts, and what was alive when its context was
// destroyed. Each line names the call that made it.
func (l *Library) Leaks() []string { return l.lines("leaks") }

// Findings lists what the driver found wrong: double frees, stale handles, accesses out of bounds, broken rules.
func (l *Library) Findings() []string { return l.lines("errors") }

// UnknownPTX says of each kernel of a PTX text that the interpreter cannot run why it cannot.
func (l *Library) UnknownPTX(ptx string) []string {
	return textLines(func(out *byte, n uintptr) uintptr { return l.unknown(ptx, out, n) })
}

// Counts has a line for each kernel that ran while the knob "counts" was on, on the PTX interpreter: see README.md.
func (l *Library) Counts() []string { return l.lines("counts") }

// Calls is how often each function was called since the last Reset.
func (l *Library) Calls() map[string]int {
	calls := map[string]int{}
	for _, line := range l.lines("calls") {
		name, n, _ := strings.Cut(line, " ")
		calls[name], _ = strconv.Atoi(n)
	}
	return calls
}

// Total is the number of all calls since the last Reset: the range of nth for Fail("*", nth, code).
func (l *Library) Total() int { return int(l.count("calls")) }

// Work is the number of pieces of work that streams have begun since the last Reset.
func (l *Library) Work() int { return int(l.count("work")) }

// RequireClean fails the test if anything leaked or was found.
func (l *Library) RequireClean() {
	l.t.Helper()
	if leaks := l.Leaks(); len(leaks) > 0 {
		l.t.Errorf("fakecuda: %d leaks:\n%s", len(leaks), strings.Join(leaks, "\n"))
	}
	if found := l.Findings(); len(found) > 0 {
		l.t.Errorf("fakecuda: %d findings:\n%s", len(found), strings.Join(found, "\n"))
	}
}

func (l *Library) lines(what string) []string {
	return textLines(func(out *byte, n uintptr) uintptr { return l.text(what, out, n) })
}

// textLines are the lines of a text that fill gets.
func textLines(f func(out *byte, n uintptr) uintptr) []string {
	s := fill(f)
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// fill calls f, which writes at most n bytes with a zero at the end and returns the length that it wanted, until all fits.
func fill(f func(out *byte, n uintptr) uintptr) string {
	for buf := make([]byte, 4096); ; buf = make([]byte, 2*len(buf)) {
		if n := f(&buf[0], uintptr(len(buf))); n < uintptr(len(buf)) {
			return string(buf[:n])
		}
	}
}
