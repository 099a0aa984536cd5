package apifuzz

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
)

const (
	// maxTime is how long a call may take: enough for a busy machine, and for nothing that loops over a number that it was given.
	maxTime = 30 * time.Second
	// maxGoBytes is what a call may allocate in Go. The largest tensors of the world have thousands of elements.
	maxGoBytes = 256 << 20
	// snapshotBytes is what a snapshot has for each device before its own in the process: in an hour of calls these are millions.
	snapshotBytes = 32
)

// progress is what runs now, for the watch.
type progress struct {
	text string
}

var running atomic.Pointer[progress]

// failure is a call that did what it must not.
type failure struct {
	target string
	seed   uint64
	text   string // the call
	what   string
}

func (f *failure) String() string {
	return fmt.Sprintf("%s\n%s\nagain: APIFUZZ_CALL='%s:%d' go test ./internal/apifuzz", f.text, f.what, f.target, f.seed)
}

// devicesSoFar is how many host devices were made: the index of the next.
func devicesSoFar() uint64 { return uint64(host.New(host.Capacity(1)).ID().Index) }

// probe makes one call. It returns nil if all is well.
func probe(t target, seed uint64) (f *failure) {
	w := newWorld(t.name, seed)
	before := goBytes()
	what := w.guarded("", func() string { return w.run(t) })
	if used := goBytes() - before; what == "" && used > maxGoBytes && used > devicesSoFar()*snapshotBytes {
		what = fmt.Sprintf("took %d MiB of Go memory", used>>20)
	}
	text := w.text()
	after := w.guarded("while everything was released: ", func() string {
		if err := w.end(); err != nil {
			return err.Error()
		}
		return ""
	})
	if what == "" {
		what = after
	}
	if what == "" {
		return nil
	}
	return &failure{target: t.name, seed: seed, text: text, what: what}
}

// guarded runs f. A panic is a failure.
func (w *world) guarded(where string, f func() string) (what string) {
	defer func() {
		if p := recover(); p != nil {
			what = fmt.Sprintf("%spanic: %v\n%s", where, p, trimmed(stack()))
		}
	}()
	return f()
}

// trimmed leaves out the frames of the runtime and of the fuzzer.
func trimmed(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "panic(") {
			lines = lines[i+2:]
		}
	}
	mine := func(l string) bool {
		return strings.HasPrefix(l, "reflect.") || strings.Contains(l, "/internal/apifuzz.")
	}
	if i := slices.IndexFunc(lines, mine); i > 0 {
		lines = lines[:i]
	}
	return strings.Join(lines[:min(len(lines), 24)], "\n")
}

// run calls t, and looks at what it returned.
func (w *world) run(t target) string {
	var recv reflect.Value
	prefix := ""
	switch {
	case t.blank != nil:
		recv, prefix = t.blank(), strings.TrimSuffix(t.name, t.name[strings.LastIndexByte(t.name, '.'):])
	case t.recv != nil:
		r := w.make(t.recv, 0)
		if nilled(r.v) && !nilReceivers[typeName(t.recv)] {
			return ""
		}
		recv, prefix = r.v, r.text
	}
	text, out := w.call(t, recv, prefix, 0)
	w.says = append(w.says, text)
	if err := failed(out); err != nil {
		return judge(err)
	}
	for _, o := range out {
		w.keep(o)
	}
	for _, o := range out {
		if what := w.look(o); what != "" {
			return what
		}
	}
	for _, g := range w.graphs {
		if what := judge(g.Err()); what != "" {
			return "the graph's error: " + what
		}
	}
	return ""
}

func nilled(v reflect.Value) bool {
	if v.Kind() == reflect.Interface && !v.IsNil() {
		return nilled(v.Elem())
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map, reflect.Func:
		return v.IsNil()
	}
	return false
}

// failed is the error that a call returned. Of a method named Unwrap or Err it is a result and no failure.
func failed(out []reflect.Value) error {
	if len(out) == 0 || out[len(out)-1].Type() != errorType {
		return nil
	}
	err, _ := out[len(out)-1].Interface().(error)
	return err
}

// maxPieces is how many of many results are used: each goes back over all of what they are pieces of.
const maxPieces = 16

// maxSummed is how many elements of a result are added up: a view of one element may stand for more than a minute's work.
const maxSummed = 1 << 26

// look uses a result as a program would: its accessors, and backward.
func (w *world) look(o reflect.Value) string {
	switch v := o.Interface().(type) {
	case *autograd.Variable:
		return w.lookAt(v)
	case []*autograd.Variable:
		for _, e := range v[:min(len(v), maxPieces)] {
			if what := w.lookAt(e); what != "" {
				return what
			}
		}
	}
	return ""
}

func (w *world) lookAt(v *autograd.Variable) string {
	_, _, _, _ = v.Shape(), v.DType(), v.Len(), v.Dim(0)
	if _, err := v.Tensor(); err != nil {
		return judge(err)
	}
	if !v.Alive() || !v.RequiresGrad() || !v.DType().IsFloat() || w.graph == nil || w.graph.Err() != nil || v.Len() > maxSummed {
		return ""
	}
	w.says = append(w.says, "result.Sum(nil, false).Backward(RetainGraph())")
	running.Store(&progress{text: w.text()})
	return judge(v.Sum(nil, false).Backward(autograd.RetainGraph()))
}

// judge says what is wrong with an error.
func judge(err error) string {
	var p *device.PanicError
	if errors.As(err, &p) {
		return "an error that is a panic: " + err.Error() + "\n" + trimmed(string(p.Stack))
	}
	if err != nil && !known(err) {
		return fmt.Sprintf("an error of no exported type: %T: %v", err, err)
	}
	return ""
}

// known reports whether a program can tell the error from others: by an exported type, or by a sentinel.
func known(err error) bool {
	if err == nil {
		return true
	}
	for _, s := range append(sentinels, errGiven, io.EOF, io.ErrUnexpectedEOF, fs.ErrInvalid, context.Canceled, fs.ErrNotExist, fs.ErrExist) {
		if errors.Is(err, s) {
			return true
		}
	}
	return ours(err)
}

// ours reports whether an error in the tree is of an exported type of the module, or of the standard library.
func ours(err error) bool {
	t := reflect.TypeOf(err)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	exported := t.Name() != "" && t.Name()[0] >= 'A' && t.Name()[0] <= 'Z'
	if exported && (slices.Contains(types, t) || t.PkgPath() == "io/fs" || t.PkgPath() == "strconv") {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return e.Unwrap() != nil && ours(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), ours)
	}
	return false
}

// goBytes is how much the program has allocated in Go so far.
func goBytes() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
