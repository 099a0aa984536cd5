package dense

import (
	"errors"
	"fmt"

	gorgonia "gorgonia.org/tensor"

	"github.com/cistern-ml/cistern/memory"
)

// The operations are those of gorgonia's standard engine. That makes the results of some in Go's memory, by an engine of its own: they are
// moved to the Engine's memory, so that what is computed from them is there too. And it panics where memory cannot be had, in copies of
// operands: that is an error here.

// OperationError is an operation of gorgonia's standard engine that failed.
type OperationError struct {
	Op  string // as in "dense.Engine.Add"
	Err error  // what gorgonia said, or a *memory.OOMError
}

// Error returns one line.
func (e *OperationError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap returns Err.
func (e *OperationError) Unwrap() error { return e.Err }

// standard has the operations.
var standard gorgonia.StdEng

// run is an operation with a result of the Engine. The options are those that it was called with.
func (e *Engine) run(name string, opts []gorgonia.FuncOpt, operation func() (gorgonia.Tensor, error)) (r gorgonia.Tensor, err error) {
	err = e.try(name, func() error {
		if r, err = operation(); err == nil {
			r, err = e.own(r, opts)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// try is attempt where the Engine's memory is accessible.
func (e *Engine) try(name string, operation func() error) error {
	op := "dense.Engine." + name
	if err := e.usable(op); err != nil {
		return err
	}
	if !e.AllocAccessible() {
		return &OperationError{op, fmt.Errorf("gorgonia computes on the host, and the Engine's memory is on %v", e.exec.Device().ID())}
	}
	return attempt(op, operation)
}

// attempt makes an *OperationError of an operation's error or panic.
func attempt(op string, operation func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &OperationError{op, reason(p)}
		}
	}()
	if err := operation(); err != nil {
		return &OperationError{op, err}
	}
	return nil
}

// reason is the error of a panic.
func reason(p any) error {
	var oom *memory.OOMError
	if err, ok := p.(error); ok && errors.As(err, &oom) {
		return err
	}
	return fmt.Errorf("gorgonia panics: %v", p)
}

// own moves a result to the Engine's memory. It stays where it is if the caller said where it goes, if it has a mask, and if it is the
// Engine's already.
func (e *Engine) own(r gorgonia.Tensor, opts []gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	d, ok := r.(*gorgonia.Dense)
	if !ok || d == nil || d.IsMasked() {
		return r, nil
	}
	if _, standard := d.Engine().(gorgonia.StdEng); !standard || reused(d, opts) {
		return r, nil
	}
	mine := gorgonia.New(gorgonia.Of(d.Dtype()), gorgonia.WithShape(d.Shape().Clone()...), gorgonia.WithEngine(e))
	if err := gorgonia.Copy(mine, d); err != nil {
		return nil, errors.Join(err, e.Free(mine, 0))
	}
	return mine, nil
}

// reused reports whether an option gave the tensor of the result.
func reused(d *gorgonia.Dense, opts []gorgonia.FuncOpt) bool {
	if len(opts) == 0 {
		return false
	}
	o := gorgonia.ParseFuncOpts(opts...)
	return o.Reuse() == gorgonia.Tensor(d) || o.Incr() == gorgonia.Tensor(d)
}

// Add is gorgonia's.
func (e *Engine) Add(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Add", opts, func() (gorgonia.Tensor, error) { return standard.Add(a, b, opts...) })
}

// Sub is gorgonia's.
func (e *Engine) Sub(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Sub", opts, func() (gorgonia.Tensor, error) { return standard.Sub(a, b, opts...) })
}

// Mul is gorgonia's.
func (e *Engine) Mul(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Mul", opts, func() (gorgonia.Tensor, error) { return standard.Mul(a, b, opts...) })
}

// Div is gorgonia's.
func (e *Engine) Div(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Div", opts, func() (gorgonia.Tensor, error) { return standard.Div(a, b, opts...) })
}

// Pow is gorgonia's.
func (e *Engine) Pow(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Pow", opts, func() (gorgonia.Tensor, error) { return standard.Pow(a, b, opts...) })
}

// Mod is gorgonia's.
func (e *Engine) Mod(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Mod", opts, func() (gorgonia.Tensor, error) { return standard.Mod(a, b, opts...) })
}

// Gt is gorgonia's.
func (e *Engine) Gt(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Gt", opts, func() (gorgonia.Tensor, error) { return standard.Gt(a, b, opts...) })
}

// Gte is gorgonia's.
func (e *Engine) Gte(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Gte", opts, func() (gorgonia.Tensor, error) { return standard.Gte(a, b, opts...) })
}

// Lt is gorgonia's.
func (e *Engine) Lt(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Lt", opts, func() (gorgonia.Tensor, error) { return standard.Lt(a, b, opts...) })
}

// Lte is gorgonia's.
func (e *Engine) Lte(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Lte", opts, func() (gorgonia.Tensor, error) { return standard.Lte(a, b, opts...) })
}

// ElEq is gorgonia's.
func (e *Engine) ElEq(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("ElEq", opts, func() (gorgonia.Tensor, error) { return standard.ElEq(a, b, opts...) })
}

// ElNe is gorgonia's.
func (e *Engine) ElNe(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("ElNe", opts, func() (gorgonia.Tensor, error) { return standard.ElNe(a, b, opts...) })
}

// MinBetween is gorgonia's.
func (e *Engine) MinBetween(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("MinBetween", opts, func() (gorgonia.Tensor, error) { return standard.MinBetween(a, b, opts...) })
}

// MaxBetween is gorgonia's.
func (e *Engine) MaxBetween(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("MaxBetween", opts, func() (gorgonia.Tensor, error) { return standard.MaxBetween(a, b, opts...) })
}

// Dot is gorgonia's.
func (e *Engine) Dot(a, b gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Dot", opts, func() (gorgonia.Tensor, error) { return standard.Dot(a, b, opts...) })
}

// AddScalar is gorgonia's.
func (e *Engine) AddScalar(t gorgonia.Tensor, s any, leftTensor bool, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("AddScalar", opts, func() (gorgonia.Tensor, error) { return standard.AddScalar(t, s, leftTensor, opts...) })
}

// SubScalar is gorgonia's.
func (e *Engine) SubScalar(t gorgonia.Tensor, s any, leftTensor bool, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("SubScalar", opts, func() (gorgonia.Tensor, error) { return standard.SubScalar(t, s, leftTensor, opts...) })
}

// MulScalar is gorgonia's.
func (e *Engine) MulScalar(t gorgonia.Tensor, s any, leftTensor bool, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("MulScalar", opts, func() (gorgonia.Tensor, error) { return standard.MulScalar(t, s, leftTensor, opts...) })
}

// DivScalar is gorgonia's.
func (e *Engine) DivScalar(t gorgonia.Tensor, s any, leftTensor bool, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("DivScalar", opts, func() (gorgonia.Tensor, error) { return standard.DivScalar(t, s, leftTensor, opts...) })
}

// PowScalar is gorgonia's.
func (e *Engine) PowScalar(t gorgonia.Tensor, s any, leftTensor bool, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("PowScalar", opts, func() (gorgonia.Tensor, error) { return standard.PowScalar(t, s, leftTensor, opts...) })
}

// ModScalar is gorgonia's.
func (e *Engine) ModScalar(t gorgonia.Tensor, s any, leftTensor bool, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("ModScalar", opts, func() (gorgonia.Tensor, error) { return standard.ModScalar(t, s, leftTensor, opts...) })
}

// GtScalar is gorgonia's.
func (e *Engine) GtScalar(t gorgonia.Tensor, s any, leftTensor bool, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("GtScalar", opts, func() (gorgonia.Tensor, error) { return standard.GtScalar(t, s, leftTensor, opts...) })
}

// GteScalar is gorgonia's.
func (e *Engine) GteScalar(t gorgonia.Tensor, s any, leftTensor bool, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("GteScalar", opts, func() (gorgonia.Tensor, error) { return standard.GteScalar(t, s, leftTensor, opts...) })
}

// LtScalar is gorgonia's.
func (e *Engine) LtScalar(t gorgonia.Tensor, s any, leftTensor bool, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("LtScalar", opts, func() (gorgonia.Tensor, error) { return standard.LtScalar(t, s, leftTensor, opts...) })
}

// LteScalar is gorgonia's.
func (e *Engine) LteScalar(t gorgonia.Tensor, s any, leftTensor bool, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("LteScalar", opts, func() (gorgonia.Tensor, error) { return standard.LteScalar(t, s, leftTensor, opts...) })
}

// EqScalar is gorgonia's.
func (e *Engine) EqScalar(t gorgonia.Tensor, s any, leftTensor bool, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("EqScalar", opts, func() (gorgonia.Tensor, error) { return standard.EqScalar(t, s, leftTensor, opts...) })
}

// NeScalar is gorgonia's.
func (e *Engine) NeScalar(t gorgonia.Tensor, s any, leftTensor bool, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("NeScalar", opts, func() (gorgonia.Tensor, error) { return standard.NeScalar(t, s, leftTensor, opts...) })
}

// MinBetweenScalar is gorgonia's.
func (e *Engine) MinBetweenScalar(t gorgonia.Tensor, s any, leftTensor bool, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("MinBetweenScalar", opts, func() (gorgonia.Tensor, error) { return standard.MinBetweenScalar(t, s, leftTensor, opts...) })
}

// MaxBetweenScalar is gorgonia's.
func (e *Engine) MaxBetweenScalar(t gorgonia.Tensor, s any, leftTensor bool, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("MaxBetweenScalar", opts, func() (gorgonia.Tensor, error) { return standard.MaxBetweenScalar(t, s, leftTensor, opts...) })
}

// Neg is gorgonia's.
func (e *Engine) Neg(t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Neg", opts, func() (gorgonia.Tensor, error) { return standard.Neg(t, opts...) })
}

// Inv is gorgonia's.
func (e *Engine) Inv(t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Inv", opts, func() (gorgonia.Tensor, error) { return standard.Inv(t, opts...) })
}

// Square is gorgonia's.
func (e *Engine) Square(t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Square", opts, func() (gorgonia.Tensor, error) { return standard.Square(t, opts...) })
}

// Cube is gorgonia's.
func (e *Engine) Cube(t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Cube", opts, func() (gorgonia.Tensor, error) { return standard.Cube(t, opts...) })
}

// Exp is gorgonia's.
func (e *Engine) Exp(t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Exp", opts, func() (gorgonia.Tensor, error) { return standard.Exp(t, opts...) })
}

// Tanh is gorgonia's.
func (e *Engine) Tanh(t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Tanh", opts, func() (gorgonia.Tensor, error) { return standard.Tanh(t, opts...) })
}

// Log is gorgonia's.
func (e *Engine) Log(t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Log", opts, func() (gorgonia.Tensor, error) { return standard.Log(t, opts...) })
}

// Log2 is gorgonia's.
func (e *Engine) Log2(t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Log2", opts, func() (gorgonia.Tensor, error) { return standard.Log2(t, opts...) })
}

// Log10 is gorgonia's.
func (e *Engine) Log10(t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Log10", opts, func() (gorgonia.Tensor, error) { return standard.Log10(t, opts...) })
}

// Sqrt is gorgonia's.
func (e *Engine) Sqrt(t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Sqrt", opts, func() (gorgonia.Tensor, error) { return standard.Sqrt(t, opts...) })
}

// Cbrt is gorgonia's.
func (e *Engine) Cbrt(t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Cbrt", opts, func() (gorgonia.Tensor, error) { return standard.Cbrt(t, opts...) })
}

// InvSqrt is gorgonia's.
func (e *Engine) InvSqrt(t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("InvSqrt", opts, func() (gorgonia.Tensor, error) { return standard.InvSqrt(t, opts...) })
}

// Abs is gorgonia's.
func (e *Engine) Abs(t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Abs", opts, func() (gorgonia.Tensor, error) { return standard.Abs(t, opts...) })
}

// Sign is gorgonia's.
func (e *Engine) Sign(t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Sign", opts, func() (gorgonia.Tensor, error) { return standard.Sign(t, opts...) })
}

// Clamp is gorgonia's.
func (e *Engine) Clamp(t gorgonia.Tensor, lo, hi any, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Clamp", opts, func() (gorgonia.Tensor, error) { return standard.Clamp(t, lo, hi, opts...) })
}

// FMA is gorgonia's.
func (e *Engine) FMA(a, x, y gorgonia.Tensor) (gorgonia.Tensor, error) {
	return e.run("FMA", nil, func() (gorgonia.Tensor, error) { return standard.FMA(a, x, y) })
}

// FMAScalar is gorgonia's.
func (e *Engine) FMAScalar(a gorgonia.Tensor, x any, y gorgonia.Tensor) (gorgonia.Tensor, error) {
	return e.run("FMAScalar", nil, func() (gorgonia.Tensor, error) { return standard.FMAScalar(a, x, y) })
}

// Map is gorgonia's.
func (e *Engine) Map(fn any, t gorgonia.Tensor, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Map", opts, func() (gorgonia.Tensor, error) { return standard.Map(fn, t, opts...) })
}

// Sum is gorgonia's.
func (e *Engine) Sum(t gorgonia.Tensor, along ...int) (gorgonia.Tensor, error) {
	return e.run("Sum", nil, func() (gorgonia.Tensor, error) { return standard.Sum(t, along...) })
}

// Min is gorgonia's.
func (e *Engine) Min(t gorgonia.Tensor, along ...int) (gorgonia.Tensor, error) {
	return e.run("Min", nil, func() (gorgonia.Tensor, error) { return standard.Min(t, along...) })
}

// Max is gorgonia's.
func (e *Engine) Max(t gorgonia.Tensor, along ...int) (gorgonia.Tensor, error) {
	return e.run("Max", nil, func() (gorgonia.Tensor, error) { return standard.Max(t, along...) })
}

// Argmax is gorgonia's.
func (e *Engine) Argmax(t gorgonia.Tensor, axis int) (gorgonia.Tensor, error) {
	return e.run("Argmax", nil, func() (gorgonia.Tensor, error) { return standard.Argmax(t, axis) })
}

// Argmin is gorgonia's.
func (e *Engine) Argmin(t gorgonia.Tensor, axis int) (gorgonia.Tensor, error) {
	return e.run("Argmin", nil, func() (gorgonia.Tensor, error) { return standard.Argmin(t, axis) })
}

// Reduce is gorgonia's.
func (e *Engine) Reduce(fn any, t gorgonia.Tensor, axis int, defaultValue any, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("Reduce", opts, func() (gorgonia.Tensor, error) { return standard.Reduce(fn, t, axis, defaultValue, opts...) })
}

// OptimizedReduce is gorgonia's.
func (e *Engine) OptimizedReduce(t gorgonia.Tensor, axis int, firstFn, lastFn, defaultFn, defaultValue any, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("OptimizedReduce", opts, func() (gorgonia.Tensor, error) {
		return standard.OptimizedReduce(t, axis, firstFn, lastFn, defaultFn, defaultValue, opts...)
	})
}

// Diag is gorgonia's.
func (e *Engine) Diag(t gorgonia.Tensor) (gorgonia.Tensor, error) {
	return e.run("Diag", nil, func() (gorgonia.Tensor, error) { return standard.Diag(t) })
}

// Repeat is gorgonia's.
func (e *Engine) Repeat(t gorgonia.Tensor, axis int, repeats ...int) (gorgonia.Tensor, error) {
	return e.run("Repeat", nil, func() (gorgonia.Tensor, error) { return standard.Repeat(t, axis, repeats...) })
}

// Concat is gorgonia's.
func (e *Engine) Concat(t gorgonia.Tensor, axis int, others ...gorgonia.Tensor) (gorgonia.Tensor, error) {
	return e.run("Concat", nil, func() (gorgonia.Tensor, error) { return standard.Concat(t, axis, others...) })
}

// SelectByIndices is gorgonia's.
func (e *Engine) SelectByIndices(t, indices gorgonia.Tensor, axis int, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("SelectByIndices", opts, func() (gorgonia.Tensor, error) { return standard.SelectByIndices(t, indices, axis, opts...) })
}

// SelectByIndicesB is gorgonia's.
func (e *Engine) SelectByIndicesB(input, grad, indices gorgonia.Tensor, axis int, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("SelectByIndicesB", opts, func() (gorgonia.Tensor, error) { return standard.SelectByIndicesB(input, grad, indices, axis, opts...) })
}

// SoftMax is gorgonia's.
func (e *Engine) SoftMax(t gorgonia.Tensor, axis int, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("SoftMax", opts, func() (gorgonia.Tensor, error) { return standard.SoftMax(t, axis, opts...) })
}

// LogSoftMax is gorgonia's.
func (e *Engine) LogSoftMax(t gorgonia.Tensor, axis int, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("LogSoftMax", opts, func() (gorgonia.Tensor, error) { return standard.LogSoftMax(t, axis, opts...) })
}

// SoftMaxB is gorgonia's.
func (e *Engine) SoftMaxB(output, grad gorgonia.Tensor, axis int, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("SoftMaxB", opts, func() (gorgonia.Tensor, error) { return standard.SoftMaxB(output, grad, axis, opts...) })
}

// LogSoftMaxB is gorgonia's.
func (e *Engine) LogSoftMaxB(output, grad gorgonia.Tensor, axis int, opts ...gorgonia.FuncOpt) (gorgonia.Tensor, error) {
	return e.run("LogSoftMaxB", opts, func() (gorgonia.Tensor, error) { return standard.LogSoftMaxB(output, grad, axis, opts...) })
}

// RepeatReuse is gorgonia's: the result is reuse.
func (e *Engine) RepeatReuse(t, reuse gorgonia.Tensor, axis int, repeats ...int) (r gorgonia.Tensor, err error) {
	err = e.try("RepeatReuse", func() error {
		r, err = standard.RepeatReuse(t, reuse, axis, repeats...)
		return err
	})
	return r, err
}

// StackDense is gorgonia's.
func (e *Engine) StackDense(t gorgonia.DenseTensor, axis int, others ...gorgonia.DenseTensor) (gorgonia.DenseTensor, error) {
	r, err := e.run("StackDense", nil, func() (gorgonia.Tensor, error) { return standard.StackDense(t, axis, others...) })
	if err != nil {
		return nil, err
	}
	return r.(gorgonia.DenseTensor), nil
}

// SVD is gorgonia's; u and v are nil without uv.
func (e *Engine) SVD(t gorgonia.Tensor, uv, full bool) (s, u, v gorgonia.Tensor, err error) {
	err = e.try("SVD", func() error {
		all, err := make([]gorgonia.Tensor, 3), error(nil)
		if all[0], all[1], all[2], err = standard.SVD(t, uv, full); err != nil {
			return err
		}
		for i, r := range all {
			if all[i], err = e.own(r, nil); err != nil {
				return err
			}
		}
		s, u, v = all[0], all[1], all[2]
		return nil
	})
	return s, u, v, err
}

// Trace is gorgonia's: a number.
func (e *Engine) Trace(t gorgonia.Tensor) (r any, err error) {
	err = e.try("Trace", func() error {
		r, err = standard.Trace(t)
		return err
	})
	return r, err
}

// Inner is gorgonia's: a number.
func (e *Engine) Inner(a, b gorgonia.Tensor) (r any, err error) {
	err = e.try("Inner", func() error {
		r, err = standard.Inner(a, b)
		return err
	})
	return r, err
}

// MatVecMul is gorgonia's: the result is prealloc.
func (e *Engine) MatVecMul(a, b, prealloc gorgonia.Tensor) error {
	return e.try("MatVecMul", func() error { return standard.MatVecMul(a, b, prealloc) })
}

// MatMul is gorgonia's: the result is prealloc.
func (e *Engine) MatMul(a, b, prealloc gorgonia.Tensor) error {
	return e.try("MatMul", func() error { return standard.MatMul(a, b, prealloc) })
}

// Outer is gorgonia's: the result is prealloc.
func (e *Engine) Outer(a, b, prealloc gorgonia.Tensor) error {
	return e.try("Outer", func() error { return standard.Outer(a, b, prealloc) })
}

// Transpose is gorgonia's, in place.
func (e *Engine) Transpose(t gorgonia.Tensor, strides []int) error {
	return e.try("Transpose", func() error { return standard.Transpose(t, strides) })
}
