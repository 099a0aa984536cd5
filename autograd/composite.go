package autograd

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// composite is an operation that is made of others, whose gradients are its own. Errors name it, also those of its steps.
type composite struct {
	name string
	wide bool   // autocasting takes it for one operation: a loss, which it computes in float32, if nothing is said
	as   string // which one
}

// run checks the inputs, by way of check unless that is nil, and computes f of them in a scope. Inputs that f wants and a caster shall see
// are in in.
func (c composite) run(in []*Variable, check func() error, f func(in []*Variable) *Variable) *Variable {
	out := c.runs(1, in, check, func(in []*Variable) []*Variable { return []*Variable{f(in)} })
	return out[0]
}

// runs is run for count results.
func (c composite) runs(count int, in []*Variable, check func() error, f func(in []*Variable) []*Variable) []*Variable {
	g := graphOf(in)
	failed := make([]*Variable, count)
	for i := range failed {
		failed[i] = g.failed()
	}
	if g == nil && len(in) == 0 {
		nothing := ofNothing(c.name, in)
		for i := range failed {
			failed[i] = nothing
		}
	}
	if g == nil || !g.ready(c.name) {
		return failed
	}
	err := (&node{g: g, in: in}).checkInputs()
	if err == nil && check != nil {
		err = check()
	}
	if err != nil {
		g.Refuse(c.name, err, in...)
		return failed
	}
	return g.named(c.name, in, func() []*Variable {
		if c.wide {
			return c.widened(g, in, f)
		}
		return f(in)
	})
}

// named runs f in a scope, as the steps of op, which the program called with in: errors of the steps are those of op.
func (g *Graph) named(op string, in []*Variable, f func() []*Variable) []*Variable {
	if g == nil || g.err != nil {
		return g.Scopes(f)
	}
	out := g.Scopes(f)
	if e, ok := g.err.(*OpError); ok && !e.Backward && e.Op != op {
		g.err = &OpError{Op: op, Module: e.Module, Operands: operands(in), Site: e.Site, Err: e.Err, Unreleased: e.Unreleased}
	}
	return out
}

// namedOne is named for one result.
func (g *Graph) namedOne(op string, in []*Variable, f func() *Variable) *Variable {
	if g == nil {
		return nil
	}
	return g.named(op, in, func() []*Variable { return []*Variable{f()} })[0]
}

// widened is f of what the caster makes of the inputs, with which all steps are computed: a product among them is not lowered.
func (c composite) widened(g *Graph, in []*Variable, f func(in []*Variable) []*Variable) []*Variable {
	caster := g.caster
	if caster == nil || g.casting {
		return f(in)
	}
	as := c.as
	if as == "" {
		as = mse.name
	}
	cast, err := g.castFor(as, slices.Clone(in))
	if err != nil {
		g.Refuse(c.name, err, in...)
		return f(in)
	}
	defer func() { g.caster = caster }()
	g.caster = nil
	return f(cast)
}

// castFor is what the caster makes of the inputs of op, which are those of several operations.
func (g *Graph) castFor(op string, in []*Variable) ([]*Variable, error) {
	cast, err := func() ([]*Variable, error) {
		defer func() { g.casting = false }()
		g.casting = true
		return g.caster.Cast(op, in)
	}()
	if err == nil && len(cast) != len(in) {
		err = fmt.Errorf("the caster returned %d inputs for %d", len(cast), len(in))
	}
	return cast, err
}

// CastFor is what the graph's caster makes of the inputs of an operation called op, under the names that casters know: for modules that compose of other
// operations what autocasting has to take for one, so that all steps have its types. Inputs that are nil stay so. Without a caster, and after an error, which is the
// graph's, it returns the inputs themselves.
func (g *Graph) CastFor(op string, in ...*Variable) []*Variable {
	out := slices.Clone(in)
	if g == nil || !g.ready(op) || g.caster == nil || g.casting {
		return out
	}
	given := slices.DeleteFunc(slices.Clone(in), func(v *Variable) bool { return v == nil })
	if len(given) == 0 {
		return out
	}
	err := (&node{g: g, in: given}).checkInputs()
	if err == nil {
		given, err = g.castFor(op, given)
	}
	if err != nil {
		g.Refuse(op, err, in...)
		return out
	}
	for i, v := range out {
		if v != nil {
			out[i], given = given[0], given[1:]
		}
	}
	return out
}

// loss is run for a loss of f's elements, whose inputs are of floating-point types.
func (c composite) loss(r Reduction, in []*Variable, check func() error, f func(in []*Variable) *Variable) *Variable {
	all := func() error {
		if r > NoReduction {
			return fmt.Errorf("%s is not a reduction of this loss", r)
		}
		if check == nil {
			return c.floats(in...)
		}
		return check()
	}
	return c.run(in, all, func(in []*Variable) *Variable { return f(in).reduced(r) })
}

// floats refuses types other than floating-point ones.
func (c composite) floats(vs ...*Variable) error {
	for _, v := range vs {
		if !v.dtype.IsFloat() {
			return &tensor.DTypeError{Op: c.name, DTypes: dtypesOf(vs), Detail: "needs floating-point types"}
		}
	}
	return nil
}

func dtypesOf(vs []*Variable) []tensor.DType {
	dts := make([]tensor.DType, len(vs))
	for i, v := range vs {
		dts[i] = v.dtype
	}
	return dts
}

// shapes is a *tensor.ShapeError of variables.
func (c composite) shapes(detail string, vs ...*Variable) error {
	shapes := make([]tensor.Shape, len(vs))
	for i, v := range vs {
		shapes[i] = v.Shape().Clone()
	}
	return &tensor.ShapeError{Op: c.name, Shapes: shapes, Detail: detail}
}

// values is a *tensor.ValueError.
func (c composite) values(format string, args ...any) error {
	return &tensor.ValueError{Op: c.name, Detail: fmt.Sprintf(format, args...)}
}

// broadcast refuses shapes that do not broadcast.
func (c composite) broadcast(vs ...*Variable) error {
	shapes := make([]tensor.Shape, len(vs))
	for i, v := range vs {
		shapes[i] = v.Shape()
	}
	if _, err := tensor.BroadcastShapes(shapes...); err != nil {
		return c.shapes("shapes do not broadcast", vs...)
	}
	return nil
}

// dim is a dimension counted from the front, or an error.
func (c composite) dim(v *Variable, dim int) (int, error) {
	n := max(v.NDim(), 1) // one without dimensions has dimension 0, as in PyTorch
	if dim < -n || dim >= n {
		return 0, c.shapes(fmt.Sprintf("there is no dimension %d", dim), v)
	}
	return (dim + n) % n, nil
}

// firstError is the first that there is.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// atLeast is v with least in the place of what is less, and v's gradient everywhere: a limit without a corner.
func (v *Variable) atLeast(least float64) *Variable {
	return Where(v.LtScalar(least), v.nothing().AddScalar(least), v)
}

// positivePart is v where it is more than 0, else 0, also where v is NaN.
func (v *Variable) positivePart() *Variable {
	return v.MaskedFill(v.GtScalar(0).Not(), 0)
}

// defaultTo is x, or what stands for 0.
func defaultTo(x, usual float64) float64 {
	if x == 0 {
		return usual
	}
	return x
}

// tooLarge is more than any size, stride or padding is.
const tooLarge = 1 << 30

// numbers are settings of n dimensions, of which a list has one for all or one for each, or none if missing stands for it.
func (c composite) numbers(what string, list []int, n, least, missing int) ([]int, error) {
	all := make([]int, n)
	for i := range all {
		all[i] = missing
	}
	if len(list) != 0 && len(list) != 1 && len(list) != n || len(list) == 0 && missing < least {
		return nil, c.values("%s is %v; it has 1 number or %d", what, list, n)
	}
	for i := range all {
		switch len(list) {
		case 0:
		case 1:
			all[i] = list[0]
		default:
			all[i] = list[i]
		}
		if all[i] < least || all[i] >= tooLarge {
			return nil, c.values("%s is %v; it is at least %d and less than %d", what, list, least, tooLarge)
		}
	}
	return all, nil
}
