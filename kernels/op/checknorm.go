package op

import (
	"slices"

	"github.com/cistern-ml/cistern/device/dtype"
)

// normViews are the views of a normalisation, as the flags say which are there; nil where one is not.
type normViews struct {
	full    []*View // of a's shape, a the first
	stats   []*View // of each row, or channel if the operation has no groups
	sums    []*View // of each channel, of the type of statistics
	affine  []*View // weight and bias
	running []*View
	out, in int  // how many there must be
	rows    bool // statistics are of rows
}

// normViewsOf sorts the views of a call. It returns nil if there are not as many as there must be.
func normViewsOf(c *Call) *normViews {
	flag := func(f int64) int { return min(1, int(c.I[1]&f)) }
	v := new(normViews)
	mean, affine := 1-flag(NormRMS), flag(NormWeight)+flag(NormBias)
	switch c.Op {
	case RowNorm:
		v.out, v.in, v.rows = 2+mean, 1+affine, true
	case RowNormGrad:
		v.out, v.in, v.rows = 1, 3+mean+flag(NormWeight), true
	case NormSums:
		v.out, v.in, v.rows = 2, 3+mean, c.I[0] > 0
	case ChannelStats:
		v.out, v.in = 2+2*flag(NormRunning), 1
	case ChannelNorm:
		v.out, v.in = 1, 3+affine
	case ChannelNormGrad:
		v.out, v.in = 1, 4+flag(NormWeight)+2*flag(NormTraining)
	}
	if len(c.Out) != v.out || len(c.In) != v.in {
		return nil
	}
	out, in := pointers(c.Out), pointers(c.In)
	switch c.Op {
	case RowNorm:
		v.full, v.stats, v.affine = []*View{in[0], out[0]}, out[1:], in[1:]
	case RowNormGrad:
		v.full, v.stats, v.affine = []*View{in[1], in[0], out[0]}, in[2:3+mean], in[3+mean:]
	case NormSums:
		v.full, v.stats, v.sums = []*View{in[1], in[0]}, in[2:], out
	case ChannelStats:
		v.full, v.stats, v.running = in, out[:2], out[2:]
	case ChannelNorm:
		v.full, v.stats, v.affine = []*View{in[0], out[0]}, in[1:3], in[3:]
	case ChannelNormGrad:
		weight := 4 + flag(NormWeight)
		v.full, v.stats, v.affine, v.sums = []*View{in[1], in[0], out[0]}, in[2:4], in[4:weight], in[weight:]
	}
	return v
}

// narrow is the view that may be of a half type where a is Float32, if it is.
func (v *normViews) narrow(c *Call) *View {
	if c.Op != RowNorm && c.Op != RowNormGrad && c.Op != NormSums {
		return nil
	}
	if f := v.full[1]; v.full[0].DType == dtype.Float32 && halves.has(f.DType) {
		return f
	}
	return nil
}

func pointers(views []View) []*View {
	list := make([]*View, len(views))
	for i := range views {
		list[i] = &views[i]
	}
	return list
}

// checkNorm checks the calls of normalisations.
func checkNorm(c *Call) error {
	v := normViewsOf(c)
	if v == nil {
		return Errorf(c.Op, ErrCall, "%d outputs and %d inputs do not fit flags %#x", len(c.Out), len(c.In), c.I[1])
	}
	a := v.full[0]
	if !floats.has(a.DType) {
		return Errorf(c.Op, ErrCall, "not defined for %s", a.DType)
	}
	if a.NDim != 3 {
		return Errorf(c.Op, ErrCall, "input has shape %v, want three dimensions", a.dims())
	}
	channels, stats := a.Shape[1], a.Shape[1]
	if v.rows {
		if groups := int(c.I[0]); groups < 1 || channels%groups != 0 {
			return Errorf(c.Op, ErrCall, "%d channels are not %d equal groups", channels, c.I[0])
		}
		stats = a.Shape[0] * int(c.I[0])
	}
	moment := ComputeType(a.DType)
	narrow := v.narrow(c)
	if c.Op == RowNormGrad && c.I[2] != 0 && a.DType != dtype.Float32 {
		return Errorf(c.Op, ErrCall, "adds to %s", a.DType)
	}
	for _, f := range v.full {
		if !slices.Equal(f.dims(), a.dims()) || f.DType != a.DType && f != narrow || !f.Contiguous() {
			return Errorf(c.Op, ErrCall, "%s of shape %v, want contiguous %s of shape %v", f.DType, f.dims(), a.DType, a.dims())
		}
	}
	for _, set := range []struct {
		views []*View
		n     int
		alt   dtype.DType
	}{{v.stats, stats, moment}, {v.sums, channels, moment}, {v.affine, channels, a.DType}, {v.running, channels, a.DType}} {
		if err := checkVectors(c, set.views, set.n, moment, set.alt); err != nil {
			return err
		}
	}
	return nil
}

// checkVectors wants contiguous views of n elements, all of one of two types.
func checkVectors(c *Call, views []*View, n int, either, or dtype.DType) error {
	for _, v := range views {
		if v.Len() != n || !v.Contiguous() {
			return Errorf(c.Op, ErrCall, "vector of shape %v, want %d contiguous elements", v.dims(), n)
		}
		if v.DType != views[0].DType || v.DType != either && v.DType != or {
			return Errorf(c.Op, ErrCall, "vector of %s beside %s, want %s or %s", v.DType, views[0].DType, either, or)
		}
	}
	return nil
}
