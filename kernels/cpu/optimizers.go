package cpu

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// AMSGrad, RMSprop, Adagrad and Lion, and the rows of all optimizers.

func stepRows() []op.Row {
	return []op.Row{
		row(op.SGDStep, floats(
			func(l accessor[float32]) op.Func { return optimizer(l, sgdScalarsOf[float32], sgdStep[float32]) },
			func(l accessor[float64]) op.Func { return optimizer(l, sgdScalarsOf[float64], sgdStep[float64]) })),
		row(op.AdamStep, floats(
			func(l accessor[float32]) op.Func { return optimizer(l, adamScalarsOf[float32], adamStep[float32]) },
			func(l accessor[float64]) op.Func { return optimizer(l, adamScalarsOf[float64], adamStep[float64]) })),
		row(op.RMSPropStep, floats(
			func(l accessor[float32]) op.Func { return optimizer(l, rmspropScalarsOf[float32], rmsprop[float32]) },
			func(l accessor[float64]) op.Func { return optimizer(l, rmspropScalarsOf[float64], rmsprop[float64]) })),
		row(op.AdagradStep, floats(
			func(l accessor[float32]) op.Func { return optimizer(l, adagradScalarsOf[float32], adagrad[float32]) },
			func(l accessor[float64]) op.Func { return optimizer(l, adagradScalarsOf[float64], adagrad[float64]) })),
		row(op.LionStep, floats(
			func(l accessor[float32]) op.Func { return optimizer(l, lionScalarsOf[float32], lion[float32]) },
			func(l accessor[float64]) op.Func { return optimizer(l, lionScalarsOf[float64], lion[float64]) })),
	}
}

// amsgrad is adam with the largest second moment so far, most, in the denominator.
func amsgrad[T float](p, m, v, most, g []T, s *adamScalars[T]) {
	m, v, most, g = m[:len(p)], v[:len(p)], most[:len(p)], g[:len(p)]
	for i := range p {
		d, w := T(s.sign*g[i]), T(s.shrink*p[i])
		if s.decay != 0 {
			d += T(s.decay * w)
		}
		m[i] = T(s.beta1*m[i]) + T(s.keep1*d)
		v[i] = T(s.beta2*v[i]) + T(T(s.keep2*d)*d)
		most[i] = max(most[i], v[i])
		p[i] = w - T(s.size*m[i])/(T(math.Sqrt(float64(most[i])))/s.root+s.eps)
	}
}

// rmspropScalars are the scalars of RMSPropStep as T.
type rmspropScalars[T float] struct {
	sign, lr, decay, alpha, keep, eps, momentum T
	centered                                    bool
}

func rmspropScalarsOf[T float](c *op.Call, at stepStart) rmspropScalars[T] {
	return rmspropScalars[T]{
		sign: signOf[T](c.I[2], at), lr: T(c.F[0]), decay: T(c.F[3]), alpha: T(c.F[1]), keep: T(1 - c.F[1]), eps: T(c.F[2]),
		momentum: T(c.F[4]), centered: c.I[1] != 0,
	}
}

func rmsprop[T float](v operands[T], s *rmspropScalars[T]) {
	p, square, buf, mean := v[0], v[1], v[2], v[3]
	if s.momentum == 0 {
		buf, mean = nil, v[2]
	}
	for i, g := range v[gradient][:len(p)] {
		g = T(g * s.sign)
		if s.decay != 0 {
			g += T(s.decay * p[i])
		}
		q := T(s.alpha*square[i]) + T(T(s.keep*g)*g)
		square[i] = q
		if s.centered {
			a := T(s.alpha*mean[i]) + T(s.keep*g)
			mean[i] = a
			q -= T(a * a)
		}
		move := g / (T(math.Sqrt(float64(q))) + s.eps)
		if buf != nil {
			move += T(s.momentum * buf[i])
			buf[i] = move
		}
		p[i] -= T(s.lr * move)
	}
}

// adagradScalars are the scalars of AdagradStep as T. lr is that of this step.
type adagradScalars[T float] struct{ sign, lr, decay, eps T }

func adagradScalarsOf[T float](c *op.Call, at stepStart) adagradScalars[T] {
	return adagradScalars[T]{sign: signOf[T](c.I[1], at), lr: T(c.F[0] / (1 + float64((at.step-1)*c.F[1]))), decay: T(c.F[3]), eps: T(c.F[2])}
}

func adagrad[T float](v operands[T], s *adagradScalars[T]) {
	p, sum := v[0], v[1]
	for i, g := range v[gradient][:len(p)] {
		g = T(g * s.sign)
		if s.decay != 0 {
			g += T(s.decay * p[i])
		}
		q := sum[i] + T(g*g)
		sum[i] = q
		p[i] -= T(s.lr*g) / (T(math.Sqrt(float64(q))) + s.eps)
	}
}

// lionScalars are the scalars of LionStep as T.
type lionScalars[T float] struct{ sign, lr, shrink, beta1, keep1, beta2, keep2 T }

func lionScalarsOf[T float](c *op.Call, at stepStart) lionScalars[T] {
	return lionScalars[T]{
		sign: signOf[T](c.I[1], at), lr: T(c.F[0]), shrink: T(1 - float64(c.F[0]*c.F[3])),
		beta1: T(c.F[1]), keep1: T(1 - c.F[1]), beta2: T(c.F[2]), keep2: T(1 - c.F[2]),
	}
}

func lion[T float](v operands[T], s *lionScalars[T]) {
	p, m := v[0], v[1]
	for i, g := range v[gradient][:len(p)] {
		g = T(g * s.sign)
		direction := T(s.beta1*m[i]) + T(s.keep1*g)
		w := T(s.shrink * p[i])
		switch {
		case direction > 0:
			w -= s.lr
		case direction < 0:
			w += s.lr
		}
		p[i] = w
		m[i] = T(s.beta2*m[i]) + T(s.keep2*g)
	}
}
