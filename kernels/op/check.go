package op

import (
	"strings"

	"github.com/cistern-ml/cistern/device/dtype"
)

// Check compares a call with the specification of its operation: the number of views, their types, their shapes, and the
// scalars that shapes depend on. It returns nil or an *Error matching ErrCall. It cannot see whether memory is large
// enough or whether views overlap. Package kernels calls it before each launch in builds with the invariants tag; callers
// are otherwise trusted, because package tensor has validated what its users wrote.
func Check(c *Call) error {
	if !c.Op.Valid() {
		return Errorf(c.Op, ErrCall, "no such operation")
	}
	if c.Stream == nil {
		return Errorf(c.Op, ErrCall, "no stream")
	}
	s := &specs[c.Op]
	if err := checkViews(c); err != nil {
		return err
	}
	switch s.rule {
	case steps:
		return checkGroups(c)
	case ampUnscale:
		return checkUnscale(c)
	case castMany:
		return checkCastMany(c)
	case gradNorm, clipNorm, clipValue:
		return checkClip(c, s.rule)
	}
	if s.rule == norm {
		return checkNorm(c)
	}
	if s.rule == bag {
		return checkBag(c)
	}
	if err := checkTypes(c, s); err != nil {
		return err
	}
	return checkShapes(c, s)
}

// checkViews looks at each view for itself.
func checkViews(c *Call) error {
	each := func(kind string, views []View) error {
		for i := range views {
			v := &views[i]
			if !v.DType.Valid() || v.NDim < 0 || v.NDim > MaxDims {
				return Errorf(c.Op, ErrCall, "%s %d has type %s and %d dimensions", kind, i, v.DType, v.NDim)
			}
			for d, n := range v.Shape[:v.NDim] {
				if n < 0 {
					return Errorf(c.Op, ErrCall, "%s %d has shape %v", kind, i, v.Shape[:v.NDim])
				}
				if kind == "output" && n > 1 && v.Strides[d] == 0 && v.Len() > 0 {
					return Errorf(c.Op, ErrCall, "output %d has stride 0 in dimension %d of %v", i, d, v.Shape[:v.NDim])
				}
			}
			if v.Ptr == 0 && v.Len() > 0 {
				return Errorf(c.Op, ErrCall, "%s %d of shape %v has no memory", kind, i, v.Shape[:v.NDim])
			}
		}
		return nil
	}
	if err := each("output", c.Out); err != nil {
		return err
	}
	return each("input", c.In)
}

// checkTypes compares number and types of the views with the letters of the spec.
func checkTypes(c *Call, s *spec) error {
	given := len(c.In)
	if (s.rule == attention || s.rule == attentionGrad) && c.I[3] != 0 {
		given-- // AttentionSeed, which checkAttention looks at
	}
	in, out := optional(s.in, given), optional(s.out, len(c.Out))
	if product := s.rule == matMul || s.rule == matMulAct; len(c.In) == 2 && (product && c.F[1] == 0 || s.biased()) {
		in = in[:2]
	}
	if len(c.Out) != len(out) || given != len(in) {
		return Errorf(c.Op, ErrCall, "%d outputs and %d inputs, want %d and %d", len(c.Out), given, len(out), len(in))
	}
	key := c.Key()
	if !s.types.has(key) {
		return Errorf(c.Op, ErrCall, "not defined for %s", key)
	}
	for i := range c.Out {
		if want := letterType(out[i], key); want != c.Out[i].DType && out[i] != 'x' {
			return Errorf(c.Op, ErrCall, "output is %s, want %s", c.Out[i].DType, want)
		}
	}
	for i := range given {
		if want := letterType(in[i], key); want != c.In[i].DType && in[i] != 'x' && !(in[i] == 'm' && c.In[i].DType == dtype.Bool) {
			return Errorf(c.Op, ErrCall, "input %d is %s, want %s", i, c.In[i].DType, want)
		}
	}
	return nil
}

// optional is the letters for n views: those behind a ? only if there are as many.
func optional(letters string, n int) string {
	must, may, _ := strings.Cut(letters, "?")
	if n > len(must) {
		return must + may
	}
	return must
}

// arity is the least and the largest number of views that the letters allow.
func arity(letters string) (least, most int) {
	must, may, _ := strings.Cut(letters, "?")
	return len(must), len(must) + len(may)
}

func letterType(letter byte, key dtype.DType) dtype.DType {
	switch letter {
	case 'k', 'm':
		return key
	case 'c':
		return ComputeType(key)
	case 'b':
		return dtype.Bool
	case 'i':
		return dtype.Int64
	case 'j':
		return dtype.Int32
	case 'd':
		return dtype.Float64
	case 's':
		return SumType(key)
	}
	return dtype.Invalid
}

// SumType is the type that Sum and Prod of elements of type d give: Int64 for integers and Bool, else d itself.
func SumType(d dtype.DType) dtype.DType {
	if d.IsInteger() || d == dtype.Bool {
		return dtype.Int64
	}
	return d
}

// ComputeType is the type that elements of the float type d are computed with: Float32 for Float16 and BFloat16, else d.
func ComputeType(d dtype.DType) dtype.DType {
	if d == dtype.Float16 || d == dtype.BFloat16 {
		return dtype.Float32
	}
	return d
}

// checkUnscale checks a call of AmpUnscale.
func checkUnscale(c *Call) error {
	n := int(c.I[0])
	if n < 0 || len(c.Out) != n+1 || len(c.In) != 1 {
		return Errorf(c.Op, ErrCall, "%d outputs and %d inputs for %d gradients, want %d and 1", len(c.Out), len(c.In), n, n+1)
	}
	for i := range n {
		g := &c.Out[i]
		if !floats.has(g.DType) || g.DType != c.Out[0].DType || !g.Contiguous() {
			return Errorf(c.Op, ErrCall, "gradient %d is %s and has shape %v, the first is %s; they must be contiguous and of one type",
				i, g.DType, g.dims(), c.Out[0].DType)
		}
	}
	for _, v := range []*View{&c.Out[n], &c.In[0]} {
		if v.DType != dtype.Float32 || v.Len() != 1 {
			return Errorf(c.Op, ErrCall, "scale or flag is %s of shape %v, want one float32", v.DType, v.dims())
		}
	}
	return nil
}

// checkCastMany checks a call of CastMany.
func checkCastMany(c *Call) error {
	n := int(c.I[0])
	if n < 0 || len(c.Out) != n || len(c.In) != n {
		return Errorf(c.Op, ErrCall, "%d outputs and %d inputs for %d tensors", len(c.Out), len(c.In), n)
	}
	for i := range n {
		to, from := &c.Out[i], &c.In[i]
		if !halves.has(to.DType) || to.DType != c.Out[0].DType || from.DType != dtype.Float32 {
			return Errorf(c.Op, ErrCall, "tensor %d is %s of %s, the first %s; they must be of one half type, and of float32", i, to.DType, from.DType, c.Out[0].DType)
		}
		if to.Len() != from.Len() || !to.Contiguous() || !from.Contiguous() {
			return Errorf(c.Op, ErrCall, "tensor %d: %v and %v must be contiguous and of one size", i, to.dims(), from.dims())
		}
	}
	return nil
}

// checkClip checks the calls of the clipping operations: a list of tensors, and a number in double precision on the other
// side.
func checkClip(c *Call, r rule) error {
	list, rest := c.Out, c.In
	if r == gradNorm {
		list, rest = c.In, c.Out
	}
	want := 1
	if r == clipValue {
		want = 0
	}
	if n := int(c.I[0]); n < 0 || len(list) != n || len(rest) != want {
		return Errorf(c.Op, ErrCall, "%d tensors and %d others, want %d and %d", len(list), len(rest), n, want)
	}
	for i := range list {
		v := &list[i]
		if !floats.has(v.DType) || v.DType != list[0].DType || !v.Contiguous() {
			return Errorf(c.Op, ErrCall, "tensor %d is %s and has shape %v, the first is %s; they must be contiguous and of one type",
				i, v.DType, v.dims(), list[0].DType)
		}
	}
	for i := range rest {
		if v := &rest[i]; v.DType != dtype.Float64 || v.Len() != 1 {
			return Errorf(c.Op, ErrCall, "the norm is %s of shape %v, want one float64", v.DType, v.dims())
		}
	}
	return nil
}
