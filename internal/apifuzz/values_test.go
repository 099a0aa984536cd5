package apifuzz

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"

	gorgonia "gorgonia.org/tensor"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/safetensors"
)

// maxDepth is how many constructors stand inside each other.
const maxDepth = 4

// value is an argument and how it is written.
type value struct {
	v    reflect.Value
	text string
}

func valueOf[T any](v T, format string, args ...any) value {
	return value{reflect.ValueOf(&v).Elem(), fmt.Sprintf(format, args...)} // Elem: interfaces keep their type
}

func zero(t reflect.Type) value {
	if t.Kind() == reflect.Struct {
		return value{reflect.Zero(t), typeName(t) + "{}"}
	}
	return value{reflect.Zero(t), "nil"}
}

// special makes the types for which it matters what there is.
var special map[reflect.Type]func(w *world, depth int) value

func init() {
	special = map[reflect.Type]func(w *world, depth int) value{
		reflect.TypeFor[*tensor.Tensor]():      (*world).tensor,
		reflect.TypeFor[tensor.DType]():        (*world).elementType,
		reflect.TypeFor[tensor.Shape]():        func(w *world, _ int) value { return w.ints(reflect.TypeFor[tensor.Shape]()) },
		reflect.TypeFor[gorgonia.Shape]():      func(w *world, _ int) value { return w.ints(reflect.TypeFor[gorgonia.Shape]()) },
		reflect.TypeFor[[]int]():               func(w *world, _ int) value { return w.ints(reflect.TypeFor[[]int]()) },
		reflect.TypeFor[tensor.Exec]():         (*world).execution,
		reflect.TypeFor[*tensor.Generator]():   (*world).generator,
		reflect.TypeFor[*gorgonia.Dense]():     (*world).dense,
		reflect.TypeFor[*autograd.Graph]():     (*world).aGraph,
		reflect.TypeFor[*autograd.Variable]():  (*world).variable,
		reflect.TypeFor[*autograd.Parameter](): (*world).parameter,
		reflect.TypeFor[device.Device]():       (*world).device,
		reflect.TypeFor[*host.Device]():        (*world).hostDevice,
		reflect.TypeFor[device.Stream]():       (*world).stream,
		reflect.TypeFor[device.Event]():        (*world).event,
		reflect.TypeFor[device.Ptr]():          (*world).pointer,
		reflect.TypeFor[memory.Allocator]():    (*world).allocator,
		reflect.TypeFor[memory.Block]():        (*world).block,
		reflect.TypeFor[nn.Module]():           (*world).module,
		reflect.TypeFor[nn.Layer]():            (*world).layer,
		reflect.TypeFor[context.Context]():     (*world).context,
		reflect.TypeFor[io.Reader]():           (*world).reader,
		reflect.TypeFor[io.Writer]():           (*world).writer,
		reflect.TypeFor[*safetensors.File]():   (*world).weights,
		reflect.TypeFor[error]():               func(w *world, _ int) value { return valueOf(pick(w, nil, errGiven), "err") },
		reflect.TypeFor[fmt.State]():           func(w *world, _ int) value { return valueOf[fmt.State](printing{}, "state") },
		reflect.TypeFor[http.Handler]():        func(w *world, _ int) value { return valueOf(http.NotFoundHandler(), "handler") },
	}
}

// make makes a value of type t.
func (w *world) make(t reflect.Type, depth int) value {
	if f := special[t]; f != nil {
		return f(w, depth)
	}
	if depth < maxDepth && !w.mischief() {
		if v, ok := w.construct(t, depth); ok {
			return v
		}
	}
	return w.byKind(t, depth)
}

// construct calls a function that makes a t.
func (w *world) construct(t reflect.Type, depth int) (value, bool) {
	list := makers(t)
	if t.PkgPath() == "" && t.Kind() != reflect.Pointer || len(list) == 0 { // numbers and strings are better made by kind
		return value{}, false
	}
	c := list[w.rng.IntN(len(list))]
	text, out := w.call(c, reflect.Value{}, "", depth+1)
	if len(out) > 1 && out[len(out)-1].Type() == errorType && !out[len(out)-1].IsNil() {
		return value{}, false
	}
	for _, o := range out {
		w.keep(o)
	}
	v := reflect.New(t).Elem()
	v.Set(out[0])
	name := fmt.Sprintf("v%d", len(w.says)+1)
	w.says = append(w.says, name+" := "+text)
	return value{v, name}, true
}

// call calls a target with arguments of the world. The text is there before the call.
func (w *world) call(c target, recv reflect.Value, prefix string, depth int) (string, []reflect.Value) {
	var in []reflect.Value
	var texts []string
	for i := range c.sig.NumIn() {
		t := c.sig.In(i)
		if c.sig.IsVariadic() && i == c.sig.NumIn()-1 {
			for _, v := range w.rest(t.Elem(), depth) {
				in, texts = append(in, v.v), append(texts, v.text)
			}
			break
		}
		v := w.make(t, depth)
		in, texts = append(in, v.v), append(texts, v.text)
	}
	name := c.name
	if recv.IsValid() {
		name = prefix + c.name[strings.LastIndexByte(c.name, '.'):]
	}
	text := name + "(" + strings.Join(texts, ", ") + ")"
	w.says = append(w.says, text)
	running.Store(&progress{text: w.text()})
	out := c.fn(recv).Call(in)
	w.says = w.says[:len(w.says)-1]
	return text, out
}

// rest are the arguments of a variadic parameter.
func (w *world) rest(t reflect.Type, depth int) []value {
	if t.Kind() == reflect.Int {
		list := w.ints(reflect.TypeFor[[]int]())
		var all []value
		for i := range list.v.Len() {
			all = append(all, valueOf(int(list.v.Index(i).Int()), "%d", list.v.Index(i).Int()))
		}
		return all
	}
	var all []value
	for range w.rng.IntN(4) {
		all = append(all, w.make(t, depth))
	}
	return all
}

// byKind makes a value by what its type is made of.
func (w *world) byKind(t reflect.Type, depth int) value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(w.chance(0.5))
	case reflect.Int, reflect.Int64:
		v.SetInt(w.number())
	case reflect.Int8, reflect.Int16, reflect.Int32:
		v.SetInt(int64(int8(w.number())))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(uint64(w.number()) & (math.MaxUint64 >> (64 - t.Bits())))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(w.float())
	case reflect.String:
		v.SetString(w.string())
		return value{v, fmt.Sprintf("%q", v.String())}
	case reflect.Slice:
		return w.slice(t, depth)
	case reflect.Array:
		for i := range t.Len() {
			v.Index(i).Set(w.make(t.Elem(), depth+1).v)
		}
	case reflect.Struct:
		return w.structure(t, depth)
	case reflect.Pointer:
		if w.mischief() || depth >= maxDepth || opaque(t.Elem()) {
			return zero(t)
		}
		inner := w.make(t.Elem(), depth+1)
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(inner.v)
		return value{v, "&" + inner.text}
	case reflect.Map:
		return w.dictionary(t, depth)
	case reflect.Func:
		return w.function(t, depth)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return value{v, "nil"}
		}
		return w.anything(depth)
	default:
		return value{v, "nil"}
	}
	return value{v, fmt.Sprintf("%v", v.Interface())}
}

func (w *world) number() int64 {
	if w.mischief() {
		return pick[int64](w, -1, -2, math.MinInt64, math.MinInt32, 1<<31, 1<<31-1, 1<<62, math.MaxInt64, 1<<40, 100, 1<<33+1)
	}
	if w.chance(0.1) {
		return -1
	}
	return int64(pick(w, 0, 1, 1, 2, 2, 3, 4, w.sizes[0], w.sizes[1]))
}

func (w *world) float() float64 {
	if w.mischief() {
		return pick[float64](w, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, 5e-324, 1e19, -1, math.Copysign(0, -1))
	}
	return pick[float64](w, 0, 1, 0.5, 0.1, 2, 1e-5)
}

func (w *world) string() string {
	return pick(w, "", "weight", "ij,jk->ik", "i,i->", "ii->i", "...ij->...ji", "sim:1MiB", "host", "x/../y", "\x00\xff", "1MiB", "ab->", "1e400",
		"max_split_size_mb:20", "expandable_segments:True", strings.Repeat("a", 300), "[[", "naïve", ",", "->")
}

// ints is a list of numbers: most of the time a shape, or numbers of dimensions.
func (w *world) ints(t reflect.Type) value {
	if w.mischief() && w.chance(0.2) {
		return value{reflect.Zero(t), "nil"}
	}
	list := w.shape
	switch {
	case w.mischief():
		list = make([]int, pick(w, 0, 1, 2, 3, 4, 5, 9, 40))
		for i := range list {
			list[i] = int(w.number())
		}
	case w.chance(0.3):
		list = w.shapeOf(w.rng.IntN(4))
	case w.chance(0.4):
		list = w.rng.Perm(w.rng.IntN(4))
	}
	v := reflect.ValueOf(append([]int{}, list...)).Convert(t)
	return value{v, typeName(t) + "{" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(list)), ", "), "[]") + "}"}
}

// shapeOf is a shape of n dimensions of a few elements.
func (w *world) shapeOf(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = w.sizes[w.rng.IntN(len(w.sizes))]
		if w.mischief() && w.chance(0.3) {
			s[i] = 0
		}
	}
	return s
}

func (w *world) slice(t reflect.Type, depth int) value {
	if w.mischief() {
		return value{reflect.Zero(t), "nil"}
	}
	v := reflect.MakeSlice(t, 0, 4)
	var texts []string
	for range w.rng.IntN(4) {
		e := w.make(t.Elem(), depth+1)
		v, texts = reflect.Append(v, e.v), append(texts, e.text)
	}
	return value{v, typeName(t) + "{" + strings.Join(texts, ", ") + "}"}
}

func (w *world) structure(t reflect.Type, depth int) value {
	v := reflect.New(t).Elem()
	var texts []string
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && w.chance(0.6) && depth < maxDepth {
			e := w.make(f.Type, depth+1)
			v.Field(i).Set(e.v)
			texts = append(texts, f.Name+": "+e.text)
		}
	}
	return value{v, typeName(t) + "{" + strings.Join(texts, ", ") + "}"}
}

// opaque reports whether a type has fields that are its package's own: its values are made by functions, and the methods of others are
// not called. Functions of a program's own are made as they are.
func opaque(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || strings.HasPrefix(t.Name(), "Function[") {
		return false
	}
	for i := range t.NumField() {
		if f := t.Field(i); !f.IsExported() || f.Anonymous {
			return true
		}
	}
	return false
}

func (w *world) dictionary(t reflect.Type, depth int) value {
	if w.mischief() {
		return value{reflect.Zero(t), "nil"}
	}
	v := reflect.MakeMap(t)
	var texts []string
	for range w.rng.IntN(3) {
		k, e := w.make(t.Key(), depth+1), w.make(t.Elem(), depth+1)
		v.SetMapIndex(k.v, e.v)
		texts = append(texts, k.text+": "+e.text)
	}
	return value{v, typeName(t) + "{" + strings.Join(texts, ", ") + "}"}
}

// function is a function that returns values of the world, or errors. Most return an argument that fits.
func (w *world) function(t reflect.Type, depth int) value {
	if w.mischief() || depth >= maxDepth {
		return zero(t)
	}
	kind := w.rng.IntN(5)
	f := reflect.MakeFunc(t, func(args []reflect.Value) []reflect.Value {
		w.calls++
		out := make([]reflect.Value, t.NumOut())
		fails := kind == 0 && t.NumOut() > 0 && t.Out(t.NumOut()-1) == errorType
		for i := range out {
			out[i] = w.result(t.Out(i), args, kind, fails, depth)
		}
		return out
	})
	return value{f, fmt.Sprintf("func%d", kind)}
}

// result is what a function that was passed returns: kind 0 fails, 1 returns nil, 2 makes something, the others return an argument.
func (w *world) result(t reflect.Type, args []reflect.Value, kind int, fails bool, depth int) reflect.Value {
	switch {
	case t == errorType:
		v := reflect.New(t).Elem()
		if fails {
			v.Set(reflect.ValueOf(errGiven))
		}
		return v
	case fails || kind == 1 || w.calls > 20:
		return reflect.Zero(t)
	}
	if kind > 2 {
		for _, a := range args {
			if a.Type() == t {
				return a
			}
			if a.Kind() == reflect.Slice && a.Type().Elem() == t && a.Len() > 0 {
				return a.Index(0)
			}
		}
	}
	return w.make(t, depth+1).v
}

func (w *world) anything(depth int) value {
	var v value
	switch w.rng.IntN(6) {
	case 0:
		return valueOf[any](nil, "nil")
	case 1:
		return valueOf[any]([]int{1}, "[]int{1}")
	case 2:
		v = w.tensor(depth)
	case 3:
		v = w.byKind(reflect.TypeFor[float64](), depth)
	case 4:
		v = w.byKind(reflect.TypeFor[string](), depth)
	default:
		v = w.byKind(reflect.TypeFor[int](), depth)
	}
	return valueOf(v.v.Interface(), "%s", v.text)
}

func (w *world) elementType(int) value {
	dt := w.dtype
	switch {
	case w.mischief():
		dt = pick(w, tensor.DType(0), tensor.DType(200), tensor.DType(9), tensor.Bool, tensor.Uint8)
	case w.chance(0.2):
		dt = tensor.DType(1 + w.rng.IntN(8))
	}
	return valueOf(dt, "%v", dt)
}

func (w *world) execution(int) value {
	if w.mischief() {
		switch w.rng.IntN(3) {
		case 0:
			return valueOf(tensor.Exec{}, "tensor.Exec{}")
		case 1:
			return valueOf(w.elsewhere(), "simExec")
		}
		s := must(w.dev.NewStream())
		e := must(tensor.On(w.dev, tensor.WithStream(s)))
		_ = s.Close()
		return valueOf(e, "closedStreamExec")
	}
	if w.chance(0.1) {
		return valueOf(w.exec.Owned(), "exec.Owned()")
	}
	return valueOf(w.exec, "exec")
}

func (w *world) generator(int) value {
	if w.mischief() {
		return pick(w, valueOf[*tensor.Generator](nil, "nil"), valueOf(new(tensor.Generator), "new(Generator)"))
	}
	return valueOf(tensor.NewGenerator(w.rng.Uint64()), "generator")
}

func (w *world) dense(int) value {
	if w.mischief() {
		return pick(w, valueOf[*gorgonia.Dense](nil, "nil"), valueOf(new(gorgonia.Dense), "&Dense{}"),
			valueOf(gorgonia.New(gorgonia.Of(gorgonia.String), gorgonia.WithShape(2)), "stringDense"))
	}
	if w.chance(0.2) {
		return valueOf(gorgonia.New(gorgonia.FromScalar(float32(1))), "scalarDense")
	}
	d := gorgonia.New(gorgonia.WithShape(2, 3), gorgonia.WithBacking([]float32{1, 2, 3, 4, 5, 6}))
	if w.chance(0.3) {
		_ = d.T()
		return valueOf(d, "dense.T()")
	}
	return valueOf(d, "dense")
}

// tensor makes tensors of all types, shapes and states.
func (w *world) tensor(int) value {
	if w.mischief() {
		return w.oddTensor()
	}
	shape := w.shape
	if w.chance(0.4) {
		shape = w.shapeOf(w.rng.IntN(5))
	}
	dt := w.dtype
	if w.chance(0.15) {
		dt = tensor.DType(1 + w.rng.IntN(8))
	}
	if w.chance(0.1) {
		dt = tensor.Int64
	}
	return w.view(w.fresh(w.exec, dt, shape))
}

// fresh is a new tensor of small numbers.
func (w *world) fresh(e tensor.Exec, dt tensor.DType, shape []int) (*tensor.Tensor, string) {
	n := tensor.Shape(shape).Len()
	data := make([]float64, n)
	for i := range data {
		data[i] = float64(w.rng.IntN(4))
		if dt.IsFloat() && w.chance(0.5) {
			data[i] = w.rng.NormFloat64()
		}
	}
	if e.Device() != w.dev {
		t := must(tensor.Zeros(e, dt, shape...))
		w.keep(reflect.ValueOf(t))
		return t, fmt.Sprintf("onSim(%v%v)", dt, shape)
	}
	wide := must(tensor.FromSlice(e, data, shape...))
	defer wide.Release()
	t := must(wide.To(dt))
	w.keep(reflect.ValueOf(t))
	return t, fmt.Sprintf("%v%v", dt, shape)
}

// view is t, or one of its views.
func (w *world) view(t *tensor.Tensor, text string) value {
	var u *tensor.Tensor
	var err error
	switch w.rng.IntN(12) {
	case 0:
		u, err = t.Transpose(0, -1)
		text += ".Transpose(0, -1)"
	case 1:
		u, err = t.Unsqueeze(0)
		text += ".Unsqueeze(0)"
	case 2:
		shape := append([]int{2}, t.Shape()...)
		u, err = t.Expand(shape...)
		text += fmt.Sprintf(".Expand(%v)", shape)
	case 3:
		u, err = t.Slice(0, 0, tensor.End, 2)
		text += ".Slice(0, 0, End, 2)"
	}
	if u == nil || err != nil {
		return valueOf(t, "%s", text)
	}
	w.keep(reflect.ValueOf(u))
	return valueOf(u, "%s", text)
}

// oddTensor is what operations must refuse, or what they rarely get.
func (w *world) oddTensor() value {
	switch w.rng.IntN(9) {
	case 0:
		return valueOf[*tensor.Tensor](nil, "nil")
	case 1:
		t, text := w.fresh(w.exec, w.dtype, w.shape)
		t.Release()
		return valueOf(t, "released(%s)", text)
	case 2:
		t, text := w.fresh(w.elsewhere(), w.dtype, w.shape)
		return valueOf(t, "%s", text)
	case 3:
		t, text := w.fresh(w.exec, w.dtype, w.shape)
		u := t.On(w.elsewhere())
		w.keep(reflect.ValueOf(u))
		return valueOf(u, "%s.On(simExec)", text)
	case 4:
		t, _ := w.fresh(w.exec, w.dtype, []int{1})
		shape := []int{1<<18 + 1} // more would only show that computing takes time
		u := must(t.Expand(shape...))
		w.keep(reflect.ValueOf(u))
		return valueOf(u, "%v[1].Expand(%v)", w.dtype, shape)
	case 5:
		return w.view(w.fresh(w.exec, w.dtype, append([]int{0}, w.shape[:min(len(w.shape), 3)]...)))
	case 6:
		t := must(tensor.Full(w.exec, pick(w, math.NaN(), math.Inf(1), math.MaxFloat32), tensor.Float32, w.shape...))
		w.keep(reflect.ValueOf(t))
		return valueOf(t, "NaN%v", w.shape)
	case 7: // no elements, but dimensions that nobody may count to, or make something for
		shape := pick(w, []int{0, 1 << 40}, []int{1 << 40, 0}, []int{1, 0, 1 << 40}, []int{1 << 40, 2, 0}, []int{2, 1 << 40, 0, 3})
		t := must(tensor.Empty(w.exec, w.dtype, shape...))
		w.keep(reflect.ValueOf(t))
		return valueOf(t, "%v%v", w.dtype, shape)
	}
	return valueOf(new(tensor.Tensor), "&Tensor{}")
}

func (w *world) aGraph(int) value {
	if w.mischief() {
		switch w.rng.IntN(4) {
		case 0:
			return valueOf[*autograd.Graph](nil, "nil")
		case 1:
			return valueOf(w.releasedGraph(), "releasedGraph")
		case 2:
			return valueOf(w.failedGraph(), "failedGraph")
		}
		return valueOf(w.newGraph(autograd.NoGrad()), "noGradGraph")
	}
	return valueOf(w.mainGraph(), "g")
}

func (w *world) releasedGraph() *autograd.Graph {
	g := w.newGraph()
	g.Release()
	return g
}

func (w *world) failedGraph() *autograd.Graph {
	g := w.newGraph()
	g.Fail(errGiven)
	return g
}

func (w *world) variable(depth int) value {
	if w.mischief() {
		return w.oddVariable(depth)
	}
	t := w.tensor(depth)
	if x := t.v.Interface().(*tensor.Tensor); x != nil && x.DType().IsFloat() && w.chance(0.7) {
		return valueOf(w.mainGraph().Input(x, autograd.RequiresGrad()), "g.Input(%s, RequiresGrad())", t.text)
	}
	return valueOf(w.mainGraph().Input(t.v.Interface().(*tensor.Tensor)), "g.Input(%s)", t.text)
}

func (w *world) oddVariable(depth int) value {
	t, text := w.fresh(w.exec, w.dtype, w.shape)
	switch w.rng.IntN(6) {
	case 0:
		return valueOf[*autograd.Variable](nil, "nil")
	case 1:
		g := w.newGraph()
		v := g.Input(t)
		g.Release()
		return valueOf(v, "releasedGraph.Input(%s)", text)
	case 2:
		return valueOf(w.failedGraph().Input(t), "failedGraph.Input(%s)", text)
	case 3:
		v := w.mainGraph().Input(t)
		v.Release()
		return valueOf(v, "released(g.Input(%s))", text)
	case 4:
		return valueOf(w.newGraph(autograd.NoGrad()).Input(t), "otherGraph.Input(%s)", text)
	}
	return valueOf(w.mainGraph().Input(t).AddScalar(1), "g.Input(%s).AddScalar(1)", text)
}

func (w *world) parameter(depth int) value {
	if w.mischief() {
		switch w.rng.IntN(4) {
		case 0:
			return valueOf[*autograd.Parameter](nil, "nil")
		case 1:
			p := autograd.DeclareParameter("w", nn.Zeros, w.shape...)
			w.keep(reflect.ValueOf(p))
			return valueOf(p, "DeclareParameter(w, Zeros, %v)", w.shape)
		case 2:
			return valueOf(autograd.DeclareParameter("w", nil, -1, 1<<62), "DeclareParameter(w, nil, -1, 1<<62)")
		}
		return valueOf(new(autograd.Parameter), "&Parameter{}")
	}
	shape := w.shape
	if w.chance(0.3) {
		shape = w.shapeOf(w.rng.IntN(3))
	}
	t, text := w.fresh(w.exec, tensor.Float32, shape)
	p := autograd.NewParameter("w", t)
	w.keep(reflect.ValueOf(p))
	if w.chance(0.5) {
		grad, more := w.fresh(w.exec, tensor.Float32, shape)
		if p.SetGrad(grad) == nil {
			text += ", SetGrad(" + more + ")"
		} else {
			grad.Release()
		}
	}
	return valueOf(p, "NewParameter(%s)", text)
}

func (w *world) device(int) value {
	if w.mischief() {
		switch w.rng.IntN(3) {
		case 0:
			return valueOf[device.Device](nil, "nil")
		case 1:
			d := host.New()
			_ = d.Close()
			w.undo = append(w.undo, func() { _ = memory.Drop(d) })
			return valueOf[device.Device](d, "closedDevice")
		}
		return valueOf[device.Device](w.simulated(), "sim")
	}
	return valueOf[device.Device](w.dev, "dev")
}

func (w *world) hostDevice(int) value {
	if w.mischief() {
		return valueOf[*host.Device](nil, "nil")
	}
	return valueOf(w.dev, "dev")
}

func (w *world) stream(int) value {
	if w.mischief() {
		switch w.rng.IntN(3) {
		case 0:
			return valueOf[device.Stream](nil, "nil")
		case 1:
			return valueOf(w.simulated().DefaultStream(), "simStream")
		}
		s := must(w.dev.NewStream())
		_ = s.Close()
		return valueOf(s, "closedStream")
	}
	if w.chance(0.3) {
		if s, err := w.dev.NewStream(); err == nil {
			w.undo = append(w.undo, func() { _ = s.Close() })
			return valueOf(s, "newStream")
		}
	}
	return valueOf(w.dev.DefaultStream(), "stream")
}

func (w *world) event(int) value {
	if w.mischief() {
		e := must(w.simulated().NewEvent())
		return pick(w, valueOf[device.Event](nil, "nil"), valueOf(e, "simEvent"))
	}
	e, err := w.dev.NewEvent()
	if err != nil {
		return valueOf[device.Event](nil, "nil")
	}
	w.keep(reflect.ValueOf(e))
	return valueOf(e, "event")
}

// pointer is an address that the device knows, or 0: others are for unsafe code.
func (w *world) pointer(int) value {
	p, err := w.dev.Malloc(4096)
	if w.mischief() || err != nil {
		return valueOf(device.Ptr(0), "Ptr(0)")
	}
	return valueOf(p, "dev.Malloc(4096)")
}

func (w *world) allocator(depth int) value {
	if w.mischief() {
		return pick(w, valueOf[memory.Allocator](nil, "nil"), valueOf(must(memory.For(w.simulated())), "simAllocator"))
	}
	if v, ok := w.construct(reflect.TypeFor[memory.Allocator](), depth); ok && w.chance(0.3) {
		return v
	}
	return valueOf(w.alloc, "alloc")
}

func (w *world) block(int) value {
	if w.mischief() {
		b, err := w.alloc.Alloc(512, w.dev.DefaultStream())
		if err == nil {
			_ = w.alloc.Free(b)
		}
		return pick(w, valueOf(memory.Block{}, "Block{}"), valueOf(b, "freedBlock"))
	}
	b, err := w.alloc.Alloc(1024, w.dev.DefaultStream())
	if err != nil {
		return valueOf(memory.Block{}, "Block{}")
	}
	w.keep(reflect.ValueOf(b))
	return valueOf(b, "block")
}

// module is a module, with memory most of the time.
func (w *world) module(depth int) value {
	if w.mischief() {
		return pick(w, valueOf[nn.Module](nil, "nil"), valueOf[nn.Module]((*nn.LinearLayer)(nil), "(*LinearLayer)(nil)"))
	}
	v, ok := w.construct(reflect.TypeFor[nn.Module](), depth)
	if !ok {
		return valueOf[nn.Module](nn.ReLU(), "nn.ReLU()")
	}
	if m, _ := v.v.Interface().(nn.Module); !isnil.Value(m) && w.chance(0.7) && m.To(w.dev) == nil {
		w.says = append(w.says, v.text+".To(dev)")
	}
	return v
}

// layer is a module with one input.
func (w *world) layer(depth int) value {
	if w.mischief() {
		return pick(w, valueOf[nn.Layer](nil, "nil"), valueOf[nn.Layer]((*nn.LinearLayer)(nil), "(*LinearLayer)(nil)"))
	}
	v, ok := w.construct(reflect.TypeFor[nn.Layer](), depth)
	if !ok {
		return valueOf[nn.Layer](nn.ReLU(), "nn.ReLU()")
	}
	if m, _ := v.v.Interface().(nn.Layer); !isnil.Value(m) && w.chance(0.7) && m.To(w.dev) == nil {
		w.says = append(w.says, v.text+".To(dev)")
	}
	return v
}

func (w *world) context(int) value {
	if w.mischief() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return valueOf(ctx, "cancelled")
	}
	return valueOf(context.Background(), "ctx")
}

func (w *world) reader(int) value {
	if w.mischief() {
		return pick(w, valueOf[io.Reader](nil, "nil"), valueOf[io.Reader](failing{}, "failingReader"))
	}
	text := pick(w, "", "junk", "PK\x03\x04", strings.Repeat("\x00", 100), strings.Repeat("\xff", 100), `{"a":1}`)
	return valueOf[io.Reader](strings.NewReader(text), "reader(%q)", text)
}

// weights is a file with tensors of names that strings have.
func (w *world) weights(int) value {
	if w.mischief() {
		return pick(w, valueOf[*safetensors.File](nil, "nil"), valueOf(new(safetensors.File), "new(safetensors.File)"))
	}
	const header = `{"weight":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"a":{"dtype":"I8","shape":[1],"data_offsets":[8,9]}}`
	text := string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + strings.Repeat("\x00", 9)
	return valueOf(must(safetensors.NewFile(strings.NewReader(text), int64(len(text)))), "file")
}

func (w *world) writer(int) value {
	if w.mischief() {
		return pick(w, valueOf[io.Writer](nil, "nil"), valueOf[io.Writer](failing{}, "failingWriter"))
	}
	return valueOf[io.Writer](new(bytes.Buffer), "buffer")
}

// failing is a reader and writer that cannot.
type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errGiven }
func (failing) Write([]byte) (int, error) { return 0, errors.Join(errGiven) }

// printing is what a Formatter writes to.
type printing struct{}

func (printing) Write(b []byte) (int, error) { return len(b), nil }
func (printing) Width() (int, bool)          { return 3, true }
func (printing) Precision() (int, bool)      { return 2, true }
func (printing) Flag(c int) bool             { return c == '#' }
