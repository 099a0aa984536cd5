package apifuzz

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// errGiven is what functions return that the fuzzer passes.
var errGiven = errors.New("the error of a function that was passed")

// world is what one call happens in. All in it is made for the call, from its seed.
type world struct {
	rng   *rand.Rand
	wild  float64 // how likely an argument is one that nobody should pass
	sizes [3]int  // what most dimensions are, so that shapes go together at times
	shape []int   // what many shapes are
	dtype tensor.DType

	dev   *host.Device
	alloc memory.Allocator
	exec  tensor.Exec
	sim   *sim.Device // made when needed
	graph *autograd.Graph

	devices []device.Device // that arguments are, or were made with
	graphs  []*autograd.Graph
	made    []reflect.Value // what is released after the call
	undo    []func()        // run after that
	says    []string        // the calls that made the arguments, and the call
	calls   int             // of functions that were passed
}

func newWorld(target string, seed uint64) *world {
	h := fnv.New64a()
	h.Write([]byte(target))
	w := &world{rng: rand.New(rand.NewPCG(h.Sum64(), seed))}
	w.wild = []float64{0, 0.05, 0.3}[w.rng.IntN(3)]
	for i := range w.sizes {
		w.sizes[i] = 1 + w.rng.IntN(4)
	}
	w.shape = w.shapeOf(w.rng.IntN(5))
	w.dtype = tensor.Float32
	if w.chance(0.3) {
		w.dtype = tensor.DType(1 + w.rng.IntN(8))
	}
	w.dev = host.New(host.Capacity(64<<20), host.CheckBounds())
	w.alloc = must(memory.For(w.dev))
	w.exec = must(tensor.On(w.dev))
	return w
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// mischief reports whether the next argument is one that nobody should pass.
func (w *world) mischief() bool { return w.chance(w.wild) }

// pick is one of its arguments.
func pick[T any](w *world, of ...T) T { return of[w.rng.IntN(len(of))] }

// keep has something released after the call.
func (w *world) keep(v reflect.Value) { w.made = append(w.made, v) }

// simulated is a device of another kind.
func (w *world) simulated() *sim.Device {
	if w.sim == nil {
		w.sim = sim.New(64 << 20)
	}
	return w.sim
}

// elsewhere is an Exec on another device.
func (w *world) elsewhere() tensor.Exec { return must(tensor.On(w.simulated())) }

// newGraph makes a graph with the world's memory.
func (w *world) newGraph(opts ...autograd.Option) *autograd.Graph {
	g := autograd.NewGraph(w.dev, opts...)
	w.graphs = append(w.graphs, g)
	w.keep(reflect.ValueOf(g))
	return g
}

// mainGraph is the graph of most variables of the call.
func (w *world) mainGraph() *autograd.Graph {
	if w.graph == nil {
		w.graph = w.newGraph()
	}
	return w.graph
}

// end releases everything, and returns what should not be.
func (w *world) end() error {
	for i := len(w.made) - 1; i >= 0; i-- {
		w.dispose(w.made[i], 0)
	}
	for i := len(w.undo) - 1; i >= 0; i-- {
		w.undo[i]()
	}
	var leaked []string
	devices := append(w.devices, w.dev)
	if w.sim != nil {
		devices = append(devices, w.sim)
	}
	for _, a := range memory.Allocators() {
		if b, err := a.Alloc(1, w.dev.DefaultStream()); err == nil { // it frees what is to be freed later
			_ = a.Free(b)
		}
		if n := a.Stats().AllocatedBytes.All.Current; n != 0 {
			leaked = append(leaked, fmt.Sprintf("%d bytes are still allocated on %v", n, a.Device()))
		}
		_ = a.EmptyCache()
	}
	for _, d := range devices {
		_ = memory.Drop(d) // a *memory.LeakError tells the same as above
		if err := d.Close(); err != nil && !known(err) {
			leaked = append(leaked, err.Error())
		}
	}
	if leaked != nil {
		return errors.New(strings.Join(leaked, "; "))
	}
	return nil
}

// dispose releases what v is or has.
func (w *world) dispose(v reflect.Value, depth int) {
	if !v.IsValid() || depth > 4 {
		return
	}
	if nilled(v) {
		return
	}
	switch x := v.Interface().(type) {
	case memory.Block:
		for _, a := range memory.Allocators() { // one of them has it
			_ = a.Free(x)
		}
		return
	case device.Device: // later, after what is on it
		w.devices = append(w.devices, x)
		return
	}
	for _, name := range []string{"Release", "Close"} {
		if m := v.MethodByName(name); m.IsValid() && m.Type().NumIn() == 0 {
			m.Call(nil)
			return
		}
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		w.dispose(v.Elem(), depth+1)
	case reflect.Slice:
		switch v.Type().Elem().Kind() {
		case reflect.Pointer, reflect.Interface, reflect.Struct:
			for i := range v.Len() {
				w.dispose(v.Index(i), depth+1)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				w.dispose(v.Field(i), depth+1)
			}
		}
	}
}

// text is the call, after those that made its arguments.
func (w *world) text() string { return strings.Join(w.says, "\n") }

// stack is where a panic came from.
func stack() string {
	buf := make([]byte, 16<<10)
	return string(buf[:runtime.Stack(buf, false)])
}
