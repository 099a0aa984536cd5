package matrix

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/linalg"
)

// QR is q [..., m, k], whose columns are orthonormal, and r [..., k, n], upper triangular, with q*r = a, of matrices [..., m, n], where k is the
// lesser of m and n. Its gradient is of matrices whose first k columns are independent; else it is an error or not finite. Saves both, and a where
// it has more columns than rows.
func QR(a *autograd.Variable) (q, r *autograd.Variable) {
	both := qr.ApplyAll(none{}, a)
	return first(both, 0), first(both, 1)
}

// Of a matrix [x, y] with more columns than rows, r is [u, qT*y], and x = q*u.
var qr = autograd.Function[none]{
	Name:    "linalg_qr",
	Results: 2,
	ForwardAll: func(c *context, _ none, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		q, r, err := linalg.QR(in[0])
		if err != nil {
			return nil, err
		}
		if c.Save(q, r); in[0].Dim(-1) > in[0].Dim(-2) {
			c.Save(in[0])
		}
		return []*tensor.Tensor{q, r}, nil
	},
	BackwardAll: func(c *context, _ none, grads []*tensor.Tensor) ([]*tensor.Tensor, error) {
		var w work
		q, r := c.Saved(0), c.Saved(1)
		gq, gr := w.orZeros(grads[0], q), w.orZeros(grads[1], r)
		m, n := q.Dim(-2), r.Dim(-1)
		if n <= m {
			return w.ends(w.ofQR(q, r, gq, gr))
		}
		y := w.of(c.Saved(2).Narrow(-1, m, n-m))
		gv := w.of(gr.Narrow(-1, m, n-m))
		gq = w.of(gq.Add(w.times(y, w.flipped(gv))))
		gx := w.ofQR(q, w.of(r.Narrow(-1, 0, m)), gq, w.of(gr.Narrow(-1, 0, m)))
		return w.ends(w.beside(gx, w.times(q, gv)))
	},
}

// ofQR is the gradient of a matrix that has no more columns than rows: with m = r*grT - gqT*q, and c its lower triangle put above the diagonal too, it
// is (gq + q*c)*r^-T.
func (w *work) ofQR(q, r, gq, gr *tensor.Tensor) *tensor.Tensor {
	m := w.of(w.times(r, w.flipped(gr)).Sub(w.times(w.flipped(gq), q)))
	c := w.of(w.of(m.Tril(0)).Add(w.flipped(w.of(m.Tril(-1)))))
	return w.after(w.of(gq.Add(w.times(q, c))), r, linalg.Triangular{Upper: true})
}

// LU is a permutation p, which has no gradient, l, lower triangular with ones on its diagonal, and u, upper triangular, with p*l*u = a, of matrices
// [..., m, n]. Saves all three. The gradient is of matrices whose first min(m, n) columns are independent.
func LU(a *autograd.Variable) (p, l, u *autograd.Variable) {
	all := lu.ApplyAll(none{}, a)
	return first(all, 0), first(all, 1), first(all, 2)
}

var lu = autograd.Function[none]{
	Name:    "linalg_lu",
	Results: 3,
	ForwardAll: func(c *context, _ none, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		p, l, u, err := linalg.LU(in[0])
		if err != nil {
			return nil, err
		}
		c.Save(p, l, u)
		return []*tensor.Tensor{p, l, u}, nil
	},
	BackwardAll: func(c *context, _ none, grads []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if grads[1] == nil && grads[2] == nil {
			return []*tensor.Tensor{nil}, nil
		}
		var w work
		l, u := c.Saved(1), c.Saved(2)
		return w.ends(w.times(c.Saved(0), w.ofLU(l, u, w.orZeros(grads[1], l), w.orZeros(grads[2], u))))
	},
}

// ofLU is the gradient of l*u. With l1 and u1 their first k rows and columns, l2 and u2 the others, of which one is nothing, that of the square part is
// l1^-T*(tril(l1T*gl1 - gu2*u2T, -1) + triu(gu1*u1T - l2T*gl2))*u1^-T, that to its right l1^-T*gu2, and that below gl2*u1^-T.
func (w *work) ofLU(l, u, gl, gu *tensor.Tensor) *tensor.Tensor {
	m, n := l.Dim(-2), u.Dim(-1)
	k := min(m, n)
	l1, gl1, u1, gu1 := w.of(l.Narrow(-2, 0, k)), w.of(gl.Narrow(-2, 0, k)), w.of(u.Narrow(-1, 0, k)), w.of(gu.Narrow(-1, 0, k))
	below, above := w.times(w.flipped(l1), gl1), w.times(gu1, w.flipped(u1))
	lower, upper := linalg.Triangular{Unit: true}, linalg.Triangular{Upper: true}
	square := func() *tensor.Tensor {
		middle := w.of(w.of(below.Tril(-1)).Add(w.of(above.Triu(0))))
		return w.after(w.under(l1, middle, lower), u1, upper)
	}
	switch {
	case n > m:
		u2, gu2 := w.of(u.Narrow(-1, k, n-k)), w.of(gu.Narrow(-1, k, n-k))
		below = w.of(below.Sub(w.times(gu2, w.flipped(u2))))
		return w.beside(square(), w.under(l1, gu2, lower))
	case m > n:
		l2, gl2 := w.of(l.Narrow(-2, k, m-k)), w.of(gl.Narrow(-2, k, m-k))
		above = w.of(above.Sub(w.times(w.flipped(l2), gl2)))
		return w.flipped(w.beside(w.flipped(square()), w.flipped(w.after(gl2, u1, upper))))
	}
	return square()
}

// SVD is u [..., m, k], the singular values [..., k] in descending order, and vh [..., k, n], with u*diag(s)*vh = a, of matrices [..., m, n], where k is
// the lesser of m and n. Saves all three. Losses must not depend on the signs of vectors, which are arbitrary; where singular values are equal, or 0,
// vectors have no gradient, and it is not finite, as in PyTorch.
func SVD(a *autograd.Variable) (u, s, vh *autograd.Variable) {
	all := svd.ApplyAll(none{}, a)
	return first(all, 0), first(all, 1), first(all, 2)
}

var svd = autograd.Function[none]{
	Name:    "linalg_svd",
	Results: 3,
	ForwardAll: func(c *context, _ none, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		u, s, vh, err := linalg.SVD(in[0])
		if err != nil {
			return nil, err
		}
		c.Save(u, s, vh)
		return []*tensor.Tensor{u, s, vh}, nil
	},
	BackwardAll: func(c *context, _ none, grads []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if grads[0] == nil && grads[1] == nil && grads[2] == nil {
			return []*tensor.Tensor{nil}, nil
		}
		var w work
		u, s, v := c.Saved(0), c.Saved(1), w.flipped(c.Saved(2))
		var inner, gu, gv *tensor.Tensor
		if grads[1] != nil {
			inner = w.of(grads[1].DiagEmbed(0))
		}
		if gu = grads[0]; gu != nil {
			inner = w.plus(inner, w.of(w.turned(u, gu, s).Mul(w.of(s.Unsqueeze(-2)))))
		}
		if grads[2] != nil {
			gv = w.flipped(grads[2])
			inner = w.plus(inner, w.of(w.turned(v, gv, s).Mul(w.of(s.Unsqueeze(-1)))))
		}
		// What lies outside of the spaces of u and v comes besides.
		grad := w.times(w.times(u, inner), w.flipped(v))
		if k := s.Dim(-1); gu != nil && u.Dim(-2) > k {
			grad = w.of(grad.Add(w.times(w.of(w.outside(u, gu).Div(w.of(s.Unsqueeze(-2)))), w.flipped(v))))
		} else if gv != nil && v.Dim(-2) > k {
			grad = w.of(grad.Add(w.times(u, w.flipped(w.of(w.outside(v, gv).Div(w.of(s.Unsqueeze(-2))))))))
		}
		return w.ends(grad)
	},
}

// turned is the skew part of xT*gx over the differences s_j**2 - s_i**2.
func (w *work) turned(x, gx, s *tensor.Tensor) *tensor.Tensor {
	m := w.times(w.flipped(x), gx)
	return w.of(w.of(m.Sub(w.flipped(m))).Mul(w.differences(w.of(s.Square()))))
}

// outside is gx less its part in the space of x's columns.
func (w *work) outside(x, gx *tensor.Tensor) *tensor.Tensor {
	return w.of(gx.Sub(w.times(x, w.times(w.flipped(x), gx))))
}
