package nn

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// NormOption changes WeightNorm and SpectralNorm. One that the function does not have is an *ArgumentError.
type NormOption func(*normConfig)

type normConfig struct {
	given
	parameter string
	dim       *int
	steps     int
	eps       float64
}

// NormParameter is the name of the parameter, "weight" unless given.
func NormParameter(name string) NormOption {
	return func(c *normConfig) { c.note("NormParameter"); c.parameter = name }
}

// NormDim is the dimension whose rows have norms of their own (WeightNorm), -1 for one norm of all, or the rows of the matrix (SpectralNorm). The default
// is 0, and 1 for SpectralNorm of a transposed convolution.
func NormDim(dim int) NormOption { return func(c *normConfig) { c.note("NormDim"); c.dim = &dim } }

// PowerIterations are the steps of SpectralNorm in each forward pass in training; the default is 1.
func PowerIterations(n int) NormOption {
	return func(c *normConfig) { c.note("PowerIterations"); c.steps = n }
}

// SpectralEps is the least norm that SpectralNorm divides by; the default is 1e-12.
func SpectralEps(eps float64) NormOption {
	return func(c *normConfig) { c.note("SpectralEps"); c.eps = eps }
}

func normOf(opts []NormOption) normConfig {
	c := normConfig{parameter: "weight", steps: 1, eps: 1e-12}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	return c
}

// WeightNorm computes the weight of m as g*v/|v|: a length for each of its rows, and a direction (Salimans and Kingma, 2016;
// torch.nn.utils.parametrizations.weight_norm). They are parametrizations.weight.original0, g, [rows, 1, ...], and original1, v, of the weight's
// shape. In files of the older torch.nn.utils.weight_norm they are weight_g and weight_v: see Rename. See Parametrize for all else.
func WeightNorm(m Module, opts ...NormOption) error {
	c := normOf(opts)
	if err := c.refuse("WeightNorm", "NormParameter NormDim"); err != nil {
		return err
	}
	w := &weightNorm{}
	w.listed = true
	if c.dim != nil {
		w.dim = *c.dim
	}
	return Parametrize(m, c.parameter, w)
}

// refuse is the error of the first option that is not in own.
func (c *normConfig) refuse(call, own string) error {
	var b Base
	b.refuseForeign(&c.given, call, own)
	return b.wrong
}

// weightNorm is the parametrization of WeightNorm.
type weightNorm struct {
	Base
	dim int // -1 for none
}

// String is PyTorch's description.
func (w *weightNorm) String() string { return "_WeightNorm()" }

// Originals implements Parametrization.
func (w *weightNorm) Originals(shape tensor.Shape) ([]tensor.Shape, error) {
	if w.dim < -1 || w.dim >= len(shape) || len(shape) == 0 {
		return nil, argumentErr("WeightNorm", "dimension %d; the parameter has %d, and -1 stands for one norm of all", w.dim, len(shape))
	}
	if w.dim == -1 {
		return []tensor.Shape{{}, shape}, nil
	}
	norms := make(tensor.Shape, len(shape))
	for d := range norms {
		norms[d] = 1
	}
	norms[w.dim] = shape[w.dim]
	return []tensor.Shape{norms, shape}, nil
}

// others are the dimensions that norms are taken over, none for all.
func (w *weightNorm) others(n int) (dims []int) {
	for d := range n {
		if w.dim >= 0 && d != w.dim {
			dims = append(dims, d)
		}
	}
	return dims
}

// Invert implements Parametrization.
func (w *weightNorm) Invert(t *tensor.Tensor) ([]*tensor.Tensor, error) {
	var norm *tensor.Tensor
	var err error
	if w.dim >= 0 && t.NDim() == 1 { // each row is one number
		norm, err = t.Abs()
	} else {
		norm, err = t.Norm(2, w.others(t.NDim()), w.dim >= 0)
	}
	if err != nil {
		return nil, err
	}
	v, err := t.Clone()
	return []*tensor.Tensor{norm, v}, err
}

// Compute implements Parametrization.
func (w *weightNorm) Compute(originals []*autograd.Variable) *autograd.Variable {
	g, v := originals[0], originals[1]
	if w.dim >= 0 && v.NDim() == 1 {
		return v.Mul(g.Div(v.Abs()))
	}
	return v.Mul(g.Div(v.Norm(2, w.others(v.NDim()), w.dim >= 0)))
}

// SpectralNorm divides the weight of m, as a matrix, by its largest singular value (Miyato et al., 2018;
// torch.nn.utils.parametrizations.spectral_norm). It is estimated by power iteration, of which each forward pass in training takes PowerIterations steps
// from the vectors that the one before has left; 15 are taken at first. The weight is parametrizations.weight.original, the vectors are the buffers
// parametrizations.weight.0._u and _v. After Eval the vectors stay what they are. A parameter of one dimension is divided by its norm. See
// Parametrize for all else.
func SpectralNorm(m Module, opts ...NormOption) error {
	c := normOf(opts)
	if err := c.refuse("SpectralNorm", "NormParameter NormDim PowerIterations SpectralEps"); err != nil {
		return err
	}
	if c.steps < 1 {
		return argumentErr("SpectralNorm", "%d power iterations; there must be at least 1", c.steps)
	}
	s := &spectralNorm{steps: c.steps, eps: c.eps}
	s.listed = true
	if _, transposed := m.(*ConvTransposeLayer); transposed {
		s.dim = 1
	}
	if c.dim != nil {
		s.dim = *c.dim
	}
	return Parametrize(m, c.parameter, s)
}

// spectralNorm is the parametrization of SpectralNorm.
type spectralNorm struct {
	Base
	dim, steps int
	eps        float64
	u, v       *autograd.Parameter // nil for a parameter of one dimension
}

// String is PyTorch's description.
func (s *spectralNorm) String() string { return "_SpectralNorm()" }

// Originals implements Parametrization.
func (s *spectralNorm) Originals(shape tensor.Shape) ([]tensor.Shape, error) {
	if s.dim < 0 || s.dim >= len(shape) {
		return nil, argumentErr("SpectralNorm", "dimension %d; the parameter has %d", s.dim, len(shape))
	}
	if len(shape) > 1 {
		rows := shape[s.dim]
		s.u, s.v = statistic("_u", nil, rows), statistic("_v", nil, shape.Len()/max(rows, 1))
		s.RegisterBufferField("_u", &s.u)
		s.RegisterBufferField("_v", &s.v)
	}
	return []tensor.Shape{shape}, nil
}

// Invert implements Parametrization.
func (s *spectralNorm) Invert(t *tensor.Tensor) ([]*tensor.Tensor, error) {
	c, err := t.Clone()
	return []*tensor.Tensor{c}, err
}

// Compute implements Parametrization.
func (s *spectralNorm) Compute(originals []*autograd.Variable) *autograd.Variable {
	w := originals[0]
	g := w.Graph()
	if w.NDim() == 1 {
		return w.Div(w.Norm(2, nil, false).Clamp(s.eps, math.Inf(1)))
	}
	m := s.matrix(w)
	if g.Err() != nil {
		return m
	}
	u, v := s.vectors(g, m)
	return w.Div(u.Dot(m.MV(v)))
}

// matrix is the weight with its rows in front.
func (s *spectralNorm) matrix(w *autograd.Variable) *autograd.Variable {
	return w.Permute(s.order(w.NDim())...).Flatten(1, -1)
}

// order puts the dimension of the rows in front of n dimensions.
func (s *spectralNorm) order(n int) []int {
	dims := []int{s.dim}
	for d := range n {
		if d != s.dim {
			dims = append(dims, d)
		}
	}
	return dims
}

// vectors are u and v, after the steps of training: copies, which later steps do not change.
func (s *spectralNorm) vectors(g *autograd.Graph, m *autograd.Variable) (u, v *autograd.Variable) {
	u, v = param(g, s, "_u", s.u), param(g, s, "_v", s.v)
	if !s.Training() {
		return u.MulScalar(1), v.MulScalar(1)
	}
	if g.Err() != nil {
		return u, v
	}
	next, err := s.step(m, u, v)
	if err != nil {
		failed := g.Refuse("spectral_norm", err, m)
		return failed, failed
	}
	own := func(t *tensor.Tensor) *autograd.Variable {
		return g.New(func(tensor.Exec) (*tensor.Tensor, error) { return t, nil })
	}
	return own(next[0]), own(next[1])
}

// step takes the steps of training, and keeps what they have found in u and v.
func (s *spectralNorm) step(m, u, v *autograd.Variable) (next []*tensor.Tensor, err error) {
	var now [3]*tensor.Tensor
	for i, x := range []*autograd.Variable{m, u, v} {
		if now[i], err = x.Tensor(); err != nil {
			return nil, err
		}
	}
	if next, err = iterated(now[0], now[1], now[2], s.steps, s.eps); err != nil {
		return nil, err
	}
	for i, p := range []*autograd.Parameter{s.u, s.v} {
		to := p.Tensor()
		if x := []*autograd.Variable{u, v}[i]; x.Parameter() != p { // WithParameters has put another one there
			to = now[i+1]
		}
		e := to.Exec()
		if err = follows(e, next[i].Exec()); err == nil {
			if err = to.CopyFrom(next[i]); err == nil {
				err = follows(next[i].Exec(), e)
			}
		}
		if err != nil {
			releaseAll(next)
			return nil, err
		}
	}
	return next, nil
}

func releaseAll(ts []*tensor.Tensor) {
	for _, t := range ts {
		t.Release()
	}
}

// beginning is how many steps are taken from random vectors.
const beginning = 15

// begin makes the first u and v for the weight w.
func (s *spectralNorm) begin(e tensor.Exec, gen *tensor.Generator, dt tensor.DType, w *tensor.Tensor) ([]*tensor.Tensor, error) {
	start := make([]*tensor.Tensor, 2)
	defer func() { releaseAll(start) }()
	var err error
	for i, p := range []*autograd.Parameter{s.u, s.v} {
		if start[i], err = tensor.RandN(e, gen, dt, p.Shape()...); err != nil {
			return nil, err
		}
	}
	if w == nil { // of a model that is yet to be loaded (Unset), and so are these
		u, v := start[0].Retain(), start[1].Retain()
		return []*tensor.Tensor{u, v}, nil
	}
	rows, err := w.Permute(s.order(w.NDim())...)
	if err != nil {
		return nil, err
	}
	defer rows.Release()
	m, err := rows.Flatten(1, -1)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	return iterated(m, start[0], start[1], beginning, s.eps)
}

// iterated are u and v after n steps of power iteration with the matrix m.
func iterated(m, u, v *tensor.Tensor, n int, eps float64) (next []*tensor.Tensor, err error) {
	turned, err := m.Transpose(0, 1)
	if err != nil {
		return nil, err
	}
	defer turned.Release()
	u, v = u.Retain(), v.Retain()
	for range n {
		if err = times(&u, m, v, eps); err == nil {
			err = times(&v, turned, u, eps)
		}
		if err != nil {
			releaseAll([]*tensor.Tensor{u, v})
			return nil, err
		}
	}
	return []*tensor.Tensor{u, v}, nil
}

// times sets x, which it releases, to m times y over its norm.
func times(x **tensor.Tensor, m, y *tensor.Tensor, eps float64) error {
	product, err := m.MatMul(y)
	if err != nil {
		return err
	}
	defer product.Release()
	norm, err := product.Norm(2, nil, false)
	if err != nil {
		return err
	}
	defer norm.Release()
	least, err := norm.Clamp(eps, math.Inf(1))
	if err != nil {
		return err
	}
	defer least.Release()
	quotient, err := product.Div(least)
	if err != nil {
		return err
	}
	(*x).Release()
	*x = quotient
	return nil
}
