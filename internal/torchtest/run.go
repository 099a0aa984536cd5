package torchtest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

type (
	variable = *autograd.Variable
	array    = *tensor.Tensor
)

var (
	variableType = reflect.TypeFor[variable]()
	arrayType    = reflect.TypeFor[array]()
	errorType    = reflect.TypeFor[error]()
	dtypeType    = reflect.TypeFor[tensor.DType]()
)

// Runner runs programs on a device, with an allocator of its own.
type Runner struct {
	dev   device.Device
	alloc memory.Allocator
	exec  tensor.Exec
	// Wrap, if it is set, changes the first result of the operation that it names: for tests of the comparison.
	wrapOp string
	wrap   func(v variable) variable
}

// NewRunner makes a Runner on dev.
func NewRunner(dev device.Device) (*Runner, error) {
	alloc, err := memory.New(dev, memory.Config{})
	if err != nil {
		return nil, err
	}
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	if err != nil {
		return nil, err
	}
	return &Runner{dev: dev, alloc: alloc, exec: e}, nil
}

// Close ends the runner, and not the device.
func (r *Runner) Close() error { return r.alloc.Close() }

func (r *Runner) allocated() (bytes, blocks int64) {
	s := r.alloc.Stats()
	return s.AllocatedBytes.All.Current, s.Allocation.All.Current
}

// Run runs a program. A panic is part of the answer, as is what was not given back.
func (r *Runner) Run(p *Program) *Answer {
	bytes, blocks := r.allocated()
	a := r.guarded(p)
	if b, n := r.allocated(); a.Panic == "" && (b != bytes || n != blocks) {
		a.Leak = fmt.Sprintf("%d bytes in %d blocks are allocated after the program", b-bytes, n-blocks)
	}
	return a
}

func (r *Runner) guarded(p *Program) (a *Answer) {
	c := &run{Runner: r, p: p, values: map[string]reflect.Value{}, layers: map[string]nn.Layer{}}
	defer func() {
		if x := recover(); x != nil {
			a = &Answer{Failed: c.at, Panic: fmt.Sprintf("%v\n%s", x, debug.Stack())}
		}
	}()
	if p.Train != nil {
		return r.train(p.Train)
	}
	defer c.release()
	return c.all()
}

// run is one run of a program.
type run struct {
	*Runner
	p      *Program
	g      *autograd.Graph // nil in eager programs
	at     int
	values map[string]reflect.Value
	names  []string // of the values, in their order
	layers map[string]nn.Layer
}

func (c *run) release() {
	if c.g != nil {
		c.g.Release()
	}
	for _, v := range c.values {
		if t, ok := v.Interface().(array); ok {
			t.Release()
		}
	}
	for _, m := range c.layers {
		m.Release()
	}
}

func (c *run) start() {
	if c.p.Eager {
		return
	}
	opts := []autograd.Option{autograd.WithAllocator(c.alloc)}
	if c.p.Autocast {
		opts = append(opts, amp.Autocast(tensor.BFloat16))
	}
	c.g = autograd.NewGraph(c.dev, opts...)
}

func (c *run) all() *Answer {
	c.start()
	for c.at = range c.p.Steps {
		if err := c.step(&c.p.Steps[c.at]); err != nil {
			return &Answer{Failed: c.at, Error: err.Error()}
		}
	}
	a := &Answer{Failed: -1, Values: map[string]Value{}, Grads: map[string]Value{}}
	c.at = len(c.p.Steps)
	for _, name := range c.names {
		v, err := c.read(name)
		if err != nil {
			return &Answer{Failed: c.at, Error: "reading " + name + ": " + err.Error()}
		}
		a.Values[name] = v
	}
	if c.p.Backward != nil {
		if err := c.backward(c.p.Backward, a.Grads); err != nil {
			return &Answer{Failed: c.at, Error: err.Error(), Values: a.Values}
		}
	}
	return a
}

func (c *run) read(name string) (Value, error) {
	t, err := c.tensor(name)
	if err != nil {
		return Value{}, err
	}
	return format(t)
}

func (c *run) tensor(name string) (array, error) {
	v, ok := c.values[name]
	if !ok {
		return nil, fmt.Errorf("there is no value %s", name)
	}
	switch x := v.Interface().(type) {
	case array:
		return x, nil
	case variable:
		return x.Tensor()
	}
	return nil, fmt.Errorf("%s is no tensor", name)
}

// step runs one step and keeps its results.
func (c *run) step(s *Step) error {
	var results []reflect.Value
	var err error
	switch {
	case s.Op == "Input":
		results, err = c.input(s)
	case len(s.Op) > 3 && s.Op[:3] == "nn.":
		results, err = c.layer(s)
	default:
		results, err = c.call(s)
	}
	if err == nil && c.g != nil {
		err = c.g.Err()
	}
	if err == nil && c.wrapOp == s.Op && c.g != nil {
		results[0] = reflect.ValueOf(c.wrap(results[0].Interface().(variable)))
	}
	if err != nil {
		for _, x := range results {
			if t, ok := x.Interface().(array); ok && t != nil {
				t.Release()
			}
		}
		return err
	}
	for k, x := range results {
		name := s.name()
		if k > 0 {
			name += "." + strconv.Itoa(k)
		}
		c.values[name] = x
		c.names = append(c.names, name)
	}
	return nil
}

// input makes a tensor, and a view of it, of which nobody else holds the memory.
func (c *run) input(s *Step) ([]reflect.Value, error) {
	t, err := parse(c.exec, s.DType, s.Data, s.Base)
	if err != nil {
		return nil, err
	}
	for _, v := range s.Views {
		next, err := view(t, v)
		t.Release()
		if err != nil {
			return nil, err
		}
		t = next
	}
	if c.g == nil {
		return []reflect.Value{reflect.ValueOf(t)}, nil
	}
	defer t.Release()
	if s.Grad {
		return []reflect.Value{reflect.ValueOf(c.g.Input(t, autograd.RequiresGrad()))}, nil
	}
	return []reflect.Value{reflect.ValueOf(c.g.Input(t))}, nil
}

func view(t array, v []any) (array, error) {
	n := make([]int, len(v)-1)
	for i, x := range v[1:] {
		n[i] = int(x.(float64))
	}
	switch v[0] {
	case "transpose":
		return t.Transpose(n[0], n[1])
	case "slice":
		return t.Slice(n[0], n[1], n[2], n[3])
	case "select":
		return t.Select(n[0], n[1])
	case "unsqueeze":
		return t.Unsqueeze(n[0])
	case "expand":
		return t.Expand(n...)
	case "last":
		return t.ToMemoryFormat(tensor.ChannelsLast)
	}
	return nil, fmt.Errorf("no view %v", v[0])
}

// call runs a function of the tables or a method of the first argument.
func (c *run) call(s *Step) ([]reflect.Value, error) {
	f, ok := c.function(s.Op)
	args := s.Args
	if !ok {
		receiver, found := c.values[fmt.Sprint(s.Args[0])]
		if !found {
			return nil, fmt.Errorf("there is no value %v", s.Args[0])
		}
		if f = receiver.MethodByName(s.Op); !f.IsValid() {
			return nil, fmt.Errorf("there is no method %s of %s", s.Op, receiver.Type())
		}
		args = args[1:]
	}
	in, err := c.arguments(f.Type(), args)
	if err != nil {
		return nil, err
	}
	var out []reflect.Value
	if f.Type().IsVariadic() && len(in) == f.Type().NumIn() {
		out = f.CallSlice(in)
	} else {
		out = f.Call(in)
	}
	return c.results(s, out)
}

func (c *run) function(op string) (reflect.Value, bool) {
	table := functions
	if c.g == nil {
		table = eagerFunctions
	}
	f, ok := table[op]
	return reflect.ValueOf(f), ok
}

// results takes an error apart from the values. A method that returns nothing else has changed its receiver.
func (c *run) results(s *Step, out []reflect.Value) ([]reflect.Value, error) {
	if n := len(out); n > 0 && out[n-1].Type() == errorType {
		if err, _ := out[n-1].Interface().(error); err != nil {
			return nil, err
		}
		out = out[:n-1]
		if n == 1 {
			t := c.values[s.Args[0].(string)].Interface().(array)
			return []reflect.Value{reflect.ValueOf(t.Retain())}, nil
		}
	}
	var list []reflect.Value
	for _, x := range out {
		if x.Kind() == reflect.Slice {
			for i := range x.Len() {
				list = append(list, x.Index(i))
			}
		} else if !x.IsNil() {
			list = append(list, x)
		}
	}
	if len(list) > 1 && slices.Contains(firstOnly, s.Op) { // the others are of use to gradients alone
		for _, x := range list[1:] {
			if t, ok := x.Interface().(array); ok {
				t.Release()
			}
		}
		list = list[:1]
	}
	return list, nil
}

// firstOnly are operations of tensors whose other results PyTorch does not have.
var firstOnly = []string{"MaxPool1d", "MaxPool2d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d"}

// arguments converts arguments to the types of f's parameters.
func (c *run) arguments(f reflect.Type, args []any) ([]reflect.Value, error) {
	in := make([]reflect.Value, len(args))
	for i, a := range args {
		if i >= f.NumIn() {
			return nil, fmt.Errorf("%d arguments are too many", len(args))
		}
		v, err := c.argument(f.In(i), a)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
		in[i] = v
	}
	return in, nil
}

func (c *run) argument(t reflect.Type, a any) (reflect.Value, error) {
	switch {
	case t == variableType || t == arrayType:
		if a == nil {
			return reflect.Zero(t), nil
		}
		v, ok := c.values[fmt.Sprint(a)]
		if !ok || v.Type() != t {
			return v, fmt.Errorf("there is no value %v", a)
		}
		return v, nil
	case t.Kind() == reflect.Slice && (t.Elem() == variableType || t.Elem() == arrayType):
		list := reflect.MakeSlice(t, 0, 4)
		for _, x := range a.([]any) {
			v, err := c.argument(t.Elem(), x)
			if err != nil {
				return v, err
			}
			list = reflect.Append(list, v)
		}
		return list, nil
	case t == dtypeType:
		return reflect.ValueOf(dtypes[a.(string)]), nil
	case t.Kind() == reflect.Float64:
		if s, ok := a.(string); ok {
			f, err := strconv.ParseFloat(s, 64)
			return reflect.ValueOf(f), err
		}
	}
	text, err := json.Marshal(a)
	if err != nil {
		return reflect.Value{}, err
	}
	v := reflect.New(t)
	err = json.Unmarshal(text, v.Interface())
	return v.Elem(), err
}

// backward runs the pass and reads gradients.
func (c *run) backward(b *Backward, grads map[string]Value) error {
	var roots []variable
	var seeds []array
	for i, name := range b.Of {
		v := c.values[name].Interface().(variable)
		t, err := parse(c.exec, v.DType().String(), b.Seeds[i], v.Shape())
		if err != nil {
			return err
		}
		defer t.Release()
		roots, seeds = append(roots, v), append(seeds, t)
	}
	if b.Twice {
		return c.twice(roots, seeds, grads)
	}
	if len(b.Wrt) > 0 {
		return c.grad(b, roots, seeds, grads)
	}
	for _, name := range b.Retain {
		c.values[name].Interface().(variable).RetainGrad()
	}
	if err := c.fromAll(roots, seeds); err != nil {
		return err
	}
	for _, s := range c.p.Steps {
		if s.Grad {
			if err := c.readGrad(s.name(), grads); err != nil {
				return err
			}
		}
	}
	for _, name := range b.Retain {
		if err := c.readGrad(name, grads); err != nil {
			return err
		}
	}
	return c.readLayers(grads)
}

// fromAll is Backward from several roots: the sum of their products with the seeds has one gradient.
func (c *run) fromAll(roots []variable, seeds []array) error {
	if len(roots) == 1 {
		return roots[0].Backward(autograd.WithGradient(seeds[0]))
	}
	return joined.Apply(seeds, roots...).Backward()
}

// joined is an operation whose inputs get the gradients that it is given.
var joined = &autograd.Function[[]array]{
	Name: "joined",
	Forward: func(c *autograd.Context, _ []array, in []array) (array, error) {
		return tensor.Zeros(c.Exec(), tensor.Float32)
	},
	Backward: func(c *autograd.Context, seeds []array, _ array) ([]array, error) {
		r := make([]array, len(seeds))
		for i, t := range seeds {
			r[i] = t.Retain()
		}
		return r, nil
	},
}

func (c *run) grad(b *Backward, roots []variable, seeds []array, grads map[string]Value) error {
	var wrt []variable
	for _, name := range b.Wrt {
		wrt = append(wrt, c.values[name].Interface().(variable))
	}
	list, err := autograd.Grad(roots, wrt, autograd.WithGradient(seeds...))
	if err != nil {
		return err
	}
	for i, d := range list {
		if grads[b.Wrt[i]], err = readVariable(d); err != nil {
			return err
		}
	}
	return nil
}

func (c *run) readGrad(name string, grads map[string]Value) error {
	t := c.values[name].Interface().(variable).Grad()
	if t == nil {
		grads[name] = Value{DType: "none"}
		return nil
	}
	v, err := format(t)
	grads[name] = v
	return err
}

// readLayers reads the gradients of the parameters of layers, and buffers.
func (c *run) readLayers(grads map[string]Value) error {
	for name, m := range c.layers {
		for _, p := range nn.NamedParameters(m) {
			v := Value{DType: "none"}
			var err error
			if t := p.Parameter.Grad(); t != nil {
				v, err = format(t)
			}
			if err != nil {
				return err
			}
			grads[name+"."+p.Name] = v
		}
		for _, p := range nn.NamedBuffers(m) {
			if !p.Parameter.Tensor().DType().IsFloat() {
				continue
			}
			v, err := format(p.Parameter.Tensor())
			if err != nil {
				return err
			}
			grads[name+"."+p.Name] = v
		}
	}
	return nil
}
