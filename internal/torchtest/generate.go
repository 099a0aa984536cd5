package torchtest

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// generator makes a program. It runs each step at once, so that it knows the types and shapes that the next one may have.
type generator struct {
	*rand.Rand
	live    *run
	p       *Program
	main    string  // the type of most inputs
	special float64 // the probability that an element is a special one
	ended   bool    // by a step that was refused
}

// twiceShare is how many of the programs with gradients are differentiated twice.
var twiceShare = 0.17

// Generate makes the program of a seed.
func (r *Runner) Generate(seed uint64) *Program {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x7043)), p: &Program{Seed: seed}}
	if g.chance(0.04) {
		g.p.Train = g.train()
		return g.p.clone()
	}
	g.main = g.floatType()
	if g.chance(0.25) {
		g.special = 0.15
	}
	g.p.Eager = g.chance(0.35)
	g.p.Autocast = !g.p.Eager && g.chance(0.04)
	if g.p.Autocast {
		g.main, g.special = "float32", 0
	}
	g.live = &run{Runner: r, p: g.p, values: map[string]reflect.Value{}, layers: map[string]nn.Layer{}}
	g.live.start()
	defer g.live.release()
	for range 1 + g.IntN(9) {
		if g.ended {
			break
		}
		g.guarded()
	}
	if !g.p.Eager && !g.ended {
		g.p.Backward = g.backward()
		g.twice()
	}
	return g.p.clone()
}

// guarded adds a step; a panic ends the program with the step that panics.
func (g *generator) guarded() {
	defer func() {
		if x := recover(); x != nil {
			if s, ok := x.(string); ok && strings.HasPrefix(s, "torchtest:") {
				panic(x)
			}
			g.ended = true
		}
	}()
	makers := graphMakers
	if g.p.Eager {
		makers = eagerMakers
	}
	if g.p.Autocast {
		makers = castMakers
	}
	makers[g.IntN(len(makers))](g)
}

func (g *generator) chance(p float64) bool { return g.Float64() < p }

func oneOf[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

func (g *generator) floatType() string {
	return oneOf(g, "float32", "float32", "float32", "float32", "float32", "float64", "float64", "bfloat16", "float16")
}

func (g *generator) intType() string { return oneOf(g, "int64", "int64", "int32", "uint8", "bool") }

// dtype is the type of an input of any type.
func (g *generator) dtype() string {
	switch {
	case g.chance(0.75):
		return g.main
	case g.chance(0.4):
		return g.floatType()
	}
	return g.intType()
}

func (g *generator) size() int { return oneOf(g, 1, 1, 2, 2, 3, 3, 4, 5, 7, 0) }

func (g *generator) shape(least, most int) []int {
	s := make([]int, least+g.IntN(most-least+1))
	for i := range s {
		for s[i] = g.size(); s[i] == 0 && g.chance(0.7); s[i] = g.size() {
		}
	}
	return s
}

func (g *generator) anyShape() []int { return g.shape(0, 4) }

// add runs a step and adds it to the program. It reports whether the step gave results.
func (g *generator) add(s Step) (string, bool) {
	if g.ended {
		return "", false
	}
	s.ID = len(g.p.Steps)
	g.p.Steps = append(g.p.Steps, s)
	q := (&Program{Steps: []Step{s}}).clone()
	if err := g.live.step(&q.Steps[0]); err != nil {
		g.ended = true
		return s.name(), false
	}
	return s.name(), true
}

func (g *generator) call(op string, args ...any) (string, bool) {
	return g.add(Step{Op: op, Args: args})
}

// limits of elements of inputs.
type domain int

const (
	anyNumber domain = iota
	positive         // 0.1..4
	unit             // 0..1
	share            // 0.1..1: where the target is 0 KLDivLoss has gradients of 0 and PyTorch's are NaN
	logs             // logarithms of probabilities
)

func (g *generator) input(dtype string, shape []int) string {
	return g.inputOf(dtype, shape, anyNumber)
}

func (g *generator) inputOf(dtype string, shape []int, d domain) string {
	base, views := g.viewOf(shape)
	words := make([]string, product(base))
	round := g.chance(0.5)
	for i := range words {
		words[i] = g.element(dtype, d, round)
	}
	return g.inputData(dtype, base, views, words)
}

// weights makes an input that needs no gradient: PyTorch has none for weights of losses, or refuses.
func (g *generator) weights(dt tensor.DType, shape []int) string {
	words := make([]string, product(shape))
	for i := range words {
		words[i] = g.element(dt.String(), positive, true)
	}
	name, _ := g.add(Step{Op: "Input", DType: dt.String(), Base: shape, Data: strings.Join(words, " ")})
	return name
}

// integers makes an input of numbers below n.
func (g *generator) integers(dtype string, shape []int, n int) string {
	base, views := g.viewOf(shape)
	words := make([]string, product(base))
	for i := range words {
		words[i] = strconv.Itoa(g.IntN(max(n, 1)))
	}
	return g.inputData(dtype, base, views, words)
}

func (g *generator) inputData(dtype string, base []int, views [][]any, words []string) string {
	grad := !g.p.Eager && dtypes[dtype].IsFloat() && g.chance(0.7)
	name, _ := g.add(Step{Op: "Input", DType: dtype, Base: base, Views: views, Data: strings.Join(words, " "), Grad: grad})
	return name
}

func product(shape []int) int {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return n
}

// viewOf chooses a view that has a shape.
func (g *generator) viewOf(shape []int) (base []int, views [][]any) {
	base = slices.Clone(shape)
	for g.chance(0.35) && len(views) < 3 {
		var v []any
		base, v = g.viewStep(base)
		if v != nil {
			views = append([][]any{v}, views...)
		}
	}
	return base, views
}

func (g *generator) viewStep(shape []int) ([]int, []any) {
	base := slices.Clone(shape)
	n := len(shape)
	if n == 0 {
		return []int{3}, []any{"select", 0, g.IntN(3)}
	}
	if n == 4 && g.chance(0.4) {
		return base, []any{"last"}
	}
	d := g.IntN(n)
	switch g.IntN(5) {
	case 0:
		e := g.IntN(n)
		base[d], base[e] = base[e], base[d]
		return base, []any{"transpose", d, e}
	case 1:
		step, start := 1+g.IntN(3), g.IntN(3)
		if shape[d] == 0 {
			return base, nil
		}
		base[d] = start + (shape[d]-1)*step + 1 + g.IntN(2)
		return base, []any{"slice", d, start, start + (shape[d]-1)*step + 1, step}
	case 2:
		if shape[d] == 0 {
			return base, nil
		}
		base[d] = 1
		v := []any{"expand"}
		for _, s := range shape {
			v = append(v, s)
		}
		return base, v
	case 3:
		base = slices.Insert(base, d, 2)
		return base, []any{"select", d, g.IntN(2)}
	}
	if shape[d] == 1 {
		return slices.Delete(base, d, d+1), []any{"unsqueeze", d}
	}
	return base, nil
}

var specials = map[string][]string{
	"float32":  {"nan", "inf", "-inf", "-0", "0", "1e-45", "-1e-40", "3.4028234663852886e+38", "1", "-1", "1e-20", "16777217"},
	"float64":  {"nan", "inf", "-inf", "-0", "0", "5e-324", "-1e-310", "1.7976931348623157e+308", "1", "-1", "1e-200"},
	"float16":  {"nan", "inf", "-inf", "-0", "0", "5.960464477539063e-08", "65504", "1"},
	"bfloat16": {"nan", "inf", "-inf", "-0", "0", "9.183549615799121e-41", "3.3895313892515355e+38", "1"},
	"int64":    {"9223372036854775807", "-9223372036854775808", "0", "-1", "9007199254740993"},
	"int32":    {"2147483647", "-2147483648", "0", "-1"},
	"uint8":    {"255", "0", "128"},
	"bool":     {"0", "1"},
}

func (g *generator) element(dtype string, d domain, round bool) string {
	dt := dtypes[dtype]
	if g.special > 0 && d == anyNumber && g.chance(g.special) {
		return oneOf(g, specials[dtype]...)
	}
	switch {
	case dtype == "bool":
		return strconv.Itoa(g.IntN(2))
	case dtype == "uint8":
		return strconv.Itoa(g.IntN(12))
	case !dt.IsFloat():
		return strconv.Itoa(g.IntN(13) - 6)
	}
	f := g.NormFloat64() * 1.5
	switch d {
	case positive:
		f = 0.1 + 3.9*g.Float64()
	case unit:
		f = g.Float64()
	case share:
		return number(rounded(dtype, 0.1+0.9*g.Float64()))
	case logs:
		f = -3 * g.Float64()
	}
	if round {
		f = math.Round(f*4) / 4
	}
	return number(rounded(dtype, f))
}

// rounded is f as the type holds it.
func rounded(dtype string, f float64) float64 {
	switch dtype {
	case "float32":
		return float64(float32(f))
	case "float16":
		return math.Round(f*256) / 256
	case "bfloat16":
		return math.Round(f*32) / 32
	}
	return f
}

// value is what a generator knows of a value.
type value struct {
	name  string
	dtype tensor.DType
	shape []int
}

func (v value) float() bool { return v.dtype.IsFloat() }

func (g *generator) info(name string) value {
	if g.ended {
		return value{name: name, dtype: tensor.Float32}
	}
	t, err := g.live.tensor(name)
	if err != nil {
		g.ended = true
		return value{name: name, dtype: tensor.Float32}
	}
	return value{name: name, dtype: t.DType(), shape: t.Shape()}
}

// pick takes a value that there is, or makes one if none is accepted.
func (g *generator) pick(accept func(v value) bool, otherwise func() string) value {
	if len(g.live.names) > 0 && g.chance(0.8) {
		for range 6 {
			k := g.IntN(len(g.live.names))
			if g.chance(0.5) {
				k = len(g.live.names) - 1
			}
			v := g.info(g.live.names[k])
			if !g.ended && product(v.shape) <= 400 && accept(v) {
				return v
			}
		}
	}
	return g.info(otherwise())
}

func (g *generator) any() value {
	return g.pick(func(value) bool { return true }, func() string { return g.input(g.dtype(), g.anyShape()) })
}

// float picks a value of a floating-point type.
func (g *generator) float() value { return g.floats(0, 4) }

// floats picks one with so many dimensions.
func (g *generator) floats(least, most int) value {
	return g.pick(func(v value) bool { return v.float() && len(v.shape) >= least && len(v.shape) <= most },
		func() string { return g.input(g.main, g.shape(least, most)) })
}

// dims picks a value of any type with at least one dimension.
func (g *generator) dims(least, most int) value {
	return g.pick(func(v value) bool { return len(v.shape) >= least && len(v.shape) <= most },
		func() string { return g.input(g.dtype(), g.shape(least, most)) })
}

// like makes or finds a value of exactly a shape and type.
func (g *generator) like(dtype tensor.DType, shape []int) string {
	return g.pick(func(v value) bool { return v.dtype == dtype && slices.Equal(v.shape, shape) },
		func() string { return g.input(dtype.String(), shape) }).name
}

// broadcast makes or finds a value that broadcasts with v.
func (g *generator) broadcast(v value) string {
	if g.chance(0.02) {
		return g.any().name
	}
	return g.pick(func(u value) bool {
		_, err := tensor.BroadcastShapes(v.shape, u.shape)
		return err == nil
	}, func() string {
		dtype := g.dtype()
		if g.chance(0.6) {
			dtype = v.dtype.String()
		}
		return g.input(dtype, g.narrower(v.shape))
	}).name
}

// narrower is a shape that broadcasts to another.
func (g *generator) narrower(shape []int) []int {
	s := slices.Clone(shape)
	for i := range s {
		if g.chance(0.25) {
			s[i] = 1
		}
	}
	if g.chance(0.3) {
		s = s[g.IntN(len(s)+1):]
	}
	return s
}

// dim is a dimension, sometimes counted from the end, seldom one that is not there.
func (g *generator) dim(v value) int {
	n := max(len(v.shape), 1)
	if g.chance(0.01) {
		return n + g.IntN(2)
	}
	return g.IntN(2*n) - n
}

func (g *generator) dimList(v value) []int {
	if g.chance(0.25) || len(v.shape) == 0 {
		return nil
	}
	list := g.Perm(len(v.shape))[:1+g.IntN(len(v.shape))]
	for i := range list {
		if g.chance(0.4) {
			list[i] -= len(v.shape)
		}
	}
	return list
}

func (g *generator) number() any {
	if g.chance(0.03) {
		return oneOf[any](g, "inf", "-inf", "nan", 0.0, 0x1p100) // which every type but float16 holds
	}
	if g.chance(0.5) {
		return g.IntN(7) - 3
	}
	return float64(g.IntN(41)-20) / 8
}

// backward chooses where the pass begins and what it is for.
func (g *generator) backward() *Backward {
	var roots, inner []string
	for _, s := range g.p.Steps {
		for _, name := range g.live.names {
			if stepOf(name) != s.name() {
				continue
			}
			v, ok := g.live.values[name].Interface().(variable)
			if !ok || !v.RequiresGrad() || !v.DType().IsFloat() {
				continue
			}
			if s.Op != "Input" && !strings.HasSuffix(s.Op, "InPlace") {
				roots = append(roots, name)
			}
			if !strings.HasSuffix(s.Op, "Cell") { // whose results are made together here, and one of the other in PyTorch
				inner = append(inner, name)
			}
		}
	}
	if len(roots) == 0 {
		return nil
	}
	b := &Backward{}
	seen := map[variable]bool{}
	for len(b.Of) == 0 || g.chance(0.25) {
		name := roots[max(0, len(roots)-1-g.IntN(3))]
		v := g.live.values[name].Interface().(variable)
		if seen[v] {
			break
		}
		seen[v] = true
		b.Of = append(b.Of, name)
		words := make([]string, v.Len())
		ones := g.chance(0.5)
		for i := range words {
			words[i] = "1"
			if !ones {
				words[i] = number(rounded(v.DType().String(), math.Round(g.NormFloat64()*4)/4))
			}
		}
		b.Seeds = append(b.Seeds, strings.Join(words, " "))
	}
	var others []string
	for k, name := range inner {
		if g.chance(0.3) && !slices.Contains(inner[:k], name) {
			others = append(others, name)
		}
	}
	hooked := slices.ContainsFunc(g.p.Steps, func(s Step) bool { return s.Op == "Hook" }) // Grad calls them, since PyTorch 2 also there
	if g.chance(0.3) && !hooked {
		b.Wrt = others
	} else {
		for _, name := range others {
			if v := g.live.values[name].Interface().(variable); !v.IsLeaf() {
				b.Retain = append(b.Retain, name)
			}
		}
	}
	return b
}

// twice has a share of the programs differentiate the gradients of the inputs.
func (g *generator) twice() {
	hooked := slices.ContainsFunc(g.p.Steps, func(s Step) bool { return s.Op == "Hook" }) // as for Grad
	leaves := slices.ContainsFunc(g.p.Steps, func(s Step) bool { return s.Grad })
	if b := g.p.Backward; b != nil && leaves && !hooked && g.chance(twiceShare) {
		b.Twice, b.Retain, b.Wrt = true, nil, nil
	}
}
