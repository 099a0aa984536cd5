package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// The cells of recurrent layers. Their views are rows of H, 3H or 4H elements; a kernel gets slices of H elements and less, one
// for each gate and state.

// cellSlots is the most slices that a cell has.
const cellSlots = 14

// cellKernel computes one piece of a row: v are the slices of the outputs, then of the inputs, each view's gates in order. tmp
// is memory of as many elements.
type cellKernel[T float] func(v [cellSlots][]T, tmp []T)

// cellJob is one call in work. It is a job over all units of all rows.
type cellJob[T float] struct {
	access accessor[T]
	f      cellKernel[T]
	call   *op.Call
	units  int
	memory sync.Pool // of *[cellSlots + 1][chunk]T
}

// cell makes the Func of a cell.
func cell[T float](l accessor[T], f cellKernel[T]) op.Func {
	pool := &sync.Pool{New: func() any {
		return &cellJob[T]{access: l, f: f, memory: sync.Pool{New: func() any { return new([cellSlots + 1][chunk]T) }}}
	}}
	return func(c *op.Call) error {
		j := pool.Get().(*cellJob[T])
		state := &c.Out[len(c.Out)-1]
		j.call, j.units = c, state.Shape[1]
		split(state.Len(), elementGrain/8, j)
		j.call = nil
		pool.Put(j)
		return nil
	}
}

func (j *cellJob[T]) run(lo, hi int) {
	m := j.memory.Get().(*[cellSlots + 1][chunk]T)
	defer j.memory.Put(m)
	for lo < hi {
		row, unit := lo/j.units, lo%j.units
		n := min(hi-lo, j.units-unit, chunk)
		j.piece(row, unit, n, m)
		lo += n
	}
}

// piece computes n units of a row.
func (j *cellJob[T]) piece(row, unit, n int, m *[cellSlots + 1][chunk]T) {
	var v [cellSlots][]T
	slot := 0
	each := func(views []op.View, visit func(slot int, w *op.View, at int)) {
		for i := range views {
			w := &views[i]
			for gate := 0; gate < w.Shape[1]; gate += j.units {
				visit(slot, w, row*w.Strides[0]+gate+unit)
				slot++
			}
		}
	}
	open := func(slot int, w *op.View, at int) {
		p := offset(w.Ptr, at, j.access.size)
		if j.access.direct {
			v[slot] = slice[T](p, n)
			return
		}
		v[slot] = m[slot][:n]
		j.access.load(v[slot], p, 1)
	}
	each(j.call.Out, open)
	each(j.call.In, open)
	j.f(v, m[cellSlots][:n])
	if j.access.direct {
		return
	}
	slot = 0
	each(j.call.Out, func(slot int, w *op.View, at int) { j.access.store(offset(w.Ptr, at, j.access.size), 1, v[slot]) })
}

// function computes dst of a, which may be dst.
type function[T float] func(dst, a []T, c *op.Call)

func lstmCell[T float](sigmoid, tanh function[T]) cellKernel[T] {
	return func(v [cellSlots][]T, _ []T) {
		i, f, g, o, h, c, p := v[0], v[1], v[2], v[3], v[4], v[5], v[6]
		for _, gate := range [][]T{i, f, o} {
			sigmoid(gate, gate, nil)
		}
		tanh(g, g, nil)
		for k := range c {
			c[k] = T(f[k]*p[k]) + T(i[k]*g[k])
		}
		tanh(h, c, nil)
		for k := range h {
			h[k] *= o[k]
		}
	}
}

func lstmCellGrad[T float](tanh function[T]) cellKernel[T] {
	return func(v [cellSlots][]T, t []T) {
		di, df, dg, do, dp := v[0], v[1], v[2], v[3], v[4]
		gi, gf, gg, gout, p, c, y, r, dc := v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13]
		tanh(t, c, nil)
		for k := range t {
			i, f, g, o := gi[k], gf[k], gg[k], gout[k]
			dh := y[k] + r[k]
			d := T(T(dh*o)*(1-T(t[k]*t[k]))) + dc[k]
			di[k] = T(d*g) * T(i*(1-i))
			df[k] = T(d*p[k]) * T(f*(1-f))
			dg[k] = T(d*i) * (1 - T(g*g))
			do[k] = T(dh*t[k]) * T(o*(1-o))
			dp[k] = d * f
		}
	}
}

func gruCell[T float](sigmoid, tanh function[T]) cellKernel[T] {
	return func(v [cellSlots][]T, _ []T) {
		r, z, n, h, inner := v[0], v[1], v[2], v[3], v[4]
		hr, hz, hn, p := v[5], v[6], v[7], v[8]
		for k := range r {
			r[k] += hr[k]
			z[k] += hz[k]
			inner[k] = hn[k]
		}
		sigmoid(r, r, nil)
		sigmoid(z, z, nil)
		for k := range n {
			n[k] += T(r[k] * inner[k])
		}
		tanh(n, n, nil)
		for k := range h {
			h[k] = n[k] + T(z[k]*(p[k]-n[k]))
		}
	}
}

func gruCellGrad[T float](v [cellSlots][]T, _ []T) {
	dr, dz, dn, hr, hz, hn, dp := v[0], v[1], v[2], v[3], v[4], v[5], v[6]
	gr, gz, gn, inner, p, y, rec := v[7], v[8], v[9], v[10], v[11], v[12], v[13]
	for k := range dp {
		r, z, n := gr[k], gz[k], gn[k]
		dh := y[k] + rec[k]
		toZ := T(dh*(p[k]-n)) * T(z*(1-z))
		toN := T(dh*(1-z)) * (1 - T(n*n))
		toR := T(toN*inner[k]) * T(r*(1-r))
		dr[k], dz[k], dn[k] = toR, toZ, toN
		hr[k], hz[k], hn[k] = toR, toZ, toN*r
		dp[k] = dh * z
	}
}

func cellRows() []op.Row {
	sigmoid32 := function[float32](function1(fnSigmoid))
	tanh32 := function[float32](function1(fnTanh))
	sigmoid64, tanh64 := function[float64](wideFunction1(fnSigmoidFloat64)), function[float64](wideFunction1(fnTanhFloat64))
	rowOf := func(id op.ID, f cellKernel[float32], g cellKernel[float64]) op.Row {
		return row(id, floats(
			func(l accessor[float32]) op.Func { return cell(l, f) },
			func(l accessor[float64]) op.Func { return cell(l, g) }))
	}
	return []op.Row{
		rowOf(op.LSTMCell, lstmCell(sigmoid32, tanh32), lstmCell(sigmoid64, tanh64)),
		rowOf(op.LSTMCellGrad, lstmCellGrad(tanh32), lstmCellGrad(tanh64)),
		rowOf(op.GRUCell, gruCell(sigmoid32, tanh32), gruCell(sigmoid64, tanh64)),
		rowOf(op.GRUCellGrad, gruCellGrad[float32], gruCellGrad[float64]),
	}
}
