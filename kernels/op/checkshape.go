package op

import "slices"

// checkShapes applies the rule of the operation to views whose number and types are right.
func checkShapes(c *Call, s *spec) error {
	switch s.rule {
	case elementwise:
		return checkSame(c, c.Out[0].dims())
	case sequence:
		if c.Out[0].NDim != 1 {
			return Errorf(c.Op, ErrCall, "output has shape %v, want one dimension", c.Out[0].dims())
		}
	case contiguous:
		return checkRandom(c)
	case reduction, argReduction:
		return checkReduction(c, s.rule == argReduction)
	case matMul:
		return checkMatMul(c)
	case matMulAct:
		return checkMatMulAct(c)
	case linearWeightGrad:
		return checkLinearWeightGrad(c)
	case rows:
		if c.Out[0].NDim == 0 {
			return Errorf(c.Op, ErrCall, "a scalar has no last dimension")
		}
		return checkSame(c, c.Out[0].dims())
	case nll:
		return checkNLL(c, &c.In[0], &c.Out[0])
	case nllGrad:
		return checkNLL(c, &c.Out[0], &c.In[0])
	case crossEntropy, crossEntropyGrad:
		return checkEntropy(c, s.rule == crossEntropyGrad)
	case attention, attentionGrad:
		return checkAttending(c, s.rule == attentionGrad)
	case indexSelect:
		return checkIndex(c, &c.Out[0], &c.In[0])
	case indexAdd:
		return checkIndex(c, &c.In[0], &c.Out[0])
	}
	return checkStructured(c, s)
}

// checkStructured has the rules of operations that are neither element-wise nor reductions.
func checkStructured(c *Call, s *spec) error {
	switch s.rule {
	case sorting:
		return checkSorting(c)
	case matrices:
		if c.Out[0].NDim < 2 {
			return Errorf(c.Op, ErrCall, "output has shape %v, want two dimensions or more", c.Out[0].dims())
		}
		return checkSame(c, c.Out[0].dims())
	case gather:
		return checkGather(c, &c.Out[0], &c.In[0])
	case scatter:
		if !c.Out[0].Contiguous() {
			return Errorf(c.Op, ErrCall, "the output of shape %v is not contiguous", c.Out[0].dims())
		}
		return checkGather(c, &c.In[0], &c.Out[0])
	case single:
		return checkSingle(c)
	case conv2d, conv2dGradInput, conv2dGradWeight:
		return checkConv(c)
	case pool:
		return checkPool(c)
	case sample:
		return checkSample(c)
	case cell:
		return checkCell(c)
	}
	return nil
}

// checkSorting wants rows of one length in both outputs: that of the input, or for TopK at most that.
func checkSorting(c *Call) error {
	values, indices, a := c.Out[0].dims(), c.Out[1].dims(), c.In[0].dims()
	n := len(a)
	if n == 0 {
		return Errorf(c.Op, ErrCall, "a scalar has no last dimension")
	}
	fits := slices.Equal(values, indices) && len(values) == n && slices.Equal(values[:n-1], a[:n-1])
	if !fits || values[n-1] > a[n-1] || c.Op == Sort && values[n-1] != a[n-1] {
		return Errorf(c.Op, ErrCall, "input has shape %v, the outputs %v and %v", a, values, indices)
	}
	return nil
}

// checkSingle wants one element in every view.
func checkSingle(c *Call) error {
	for _, views := range [][]View{c.Out, c.In} {
		for i := range views {
			if n := views[i].Len(); n != 1 {
				return Errorf(c.Op, ErrCall, "view %d has %d elements, want 1", i, n)
			}
		}
	}
	return nil
}

func (v *View) dims() []int { return v.Shape[:v.NDim] }

func checkSame(c *Call, want []int) error {
	for i := range c.In {
		if !slices.Equal(c.In[i].dims(), want) {
			return Errorf(c.Op, ErrCall, "input %d has shape %v, the output %v", i, c.In[i].dims(), want)
		}
	}
	return nil
}

func checkReduction(c *Call, one bool) error {
	a, dst := c.In[0].dims(), c.Out[0].dims()
	if len(a) != len(dst) {
		return Errorf(c.Op, ErrCall, "input has shape %v, the output %v", a, dst)
	}
	for d := range a {
		reduced := dst[d] == 1 && (!one || d == int(c.I[0]))
		if !reduced && a[d] != dst[d] {
			return Errorf(c.Op, ErrCall, "input has shape %v, the output %v", a, dst)
		}
	}
	if one && (c.I[0] < 0 || c.I[0] >= int64(len(a)) || dst[c.I[0]] != 1) {
		return Errorf(c.Op, ErrCall, "dimension %d is not a reduced one: input %v, output %v", c.I[0], a, dst)
	}
	return nil
}

func checkMatMul(c *Call) error {
	dst, a, b := c.Out[0].dims(), c.In[0].dims(), c.In[1].dims()
	n := len(dst)
	fits := n >= 2 && len(a) == n && len(b) == n && slices.Equal(a[:n-2], dst[:n-2]) && slices.Equal(b[:n-2], dst[:n-2]) &&
		a[n-2] == dst[n-2] && b[n-1] == dst[n-1] && a[n-1] == b[n-2]
	if !fits {
		return Errorf(c.Op, ErrCall, "shapes %v and %v do not give %v", a, b, dst)
	}
	if len(c.In) == 3 && !slices.Equal(c.In[2].dims(), dst) {
		return Errorf(c.Op, ErrCall, "c has shape %v, the output %v", c.In[2].dims(), dst)
	}
	return nil
}

func checkMatMulAct(c *Call) error {
	if c.I[0] < ActNone || c.I[0] > ActGELUTanh {
		return Errorf(c.Op, ErrCall, "activation %d", c.I[0])
	}
	if c.Out[0].NDim != 2 {
		return Errorf(c.Op, ErrCall, "output has shape %v, want a matrix", c.Out[0].dims())
	}
	if len(c.Out) == 2 && !slices.Equal(c.Out[1].dims(), c.Out[0].dims()) {
		return Errorf(c.Op, ErrCall, "outputs have shapes %v and %v", c.Out[0].dims(), c.Out[1].dims())
	}
	return checkMatMul(c)
}

func checkLinearWeightGrad(c *Call) error {
	dst, a, b := c.Out[0].dims(), c.In[0].dims(), c.In[1].dims()
	if len(dst) != 2 || len(a) != 2 || len(b) != 2 || a[0] != b[0] || a[1] != dst[0] || b[1] != dst[1] {
		return Errorf(c.Op, ErrCall, "shapes %v and %v do not give %v", a, b, dst)
	}
	if len(c.Out) == 2 && !slices.Equal(c.Out[1].dims(), dst[:1]) {
		return Errorf(c.Op, ErrCall, "sums of shape %v for %v", c.Out[1].dims(), a)
	}
	return nil
}

// checkNLL takes the view of shape [N, C] and the one of shape [N].
func checkNLL(c *Call, full, row *View) error {
	f, r, classes := full.dims(), row.dims(), c.In[1].dims()
	if len(f) != 2 || len(r) != 1 || len(classes) != 1 || f[0] != r[0] || f[0] != classes[0] {
		return Errorf(c.Op, ErrCall, "shapes %v, %v and classes %v, want [N C], [N] and [N]", f, r, classes)
	}
	return nil
}

// checkIndex takes the view that has one slice for each index, and the one that is indexed.
func checkIndex(c *Call, picked, indexed *View) error {
	p, x, b := picked.dims(), indexed.dims(), c.In[1].dims()
	d := int(c.I[0])
	if len(p) != len(x) || d < 0 || d >= len(p) || len(b) != 1 || p[d] != b[0] {
		return Errorf(c.Op, ErrCall, "%v does not index dimension %d of %v with %v", b, c.I[0], x, p)
	}
	for i := range p {
		if i != d && p[i] != x[i] {
			return Errorf(c.Op, ErrCall, "shapes %v and %v differ outside dimension %d", p, x, d)
		}
	}
	return nil
}

// checkGather takes the view that has an element for each index, and the one that is indexed.
func checkGather(c *Call, picked, indexed *View) error {
	p, x, b := picked.dims(), indexed.dims(), c.In[1].dims()
	d := int(c.I[0])
	if !slices.Equal(p, b) || len(p) != len(x) || d < 0 || d >= len(p) {
		return Errorf(c.Op, ErrCall, "%v does not index dimension %d of %v with %v", b, c.I[0], x, p)
	}
	for i := range p {
		if i != d && p[i] > x[i] {
			return Errorf(c.Op, ErrCall, "dimension %d of %v is larger than that of %v", i, p, x)
		}
	}
	return nil
}

// checkCell wants rows as long as the gates of the cell, and rows of one state each: all contiguous, and as many of them.
func checkCell(c *Call) error {
	wide := map[ID][2]int{LSTMCell: {4, 1}, LSTMCellGrad: {4, 1}, GRUCell: {3, 1}, GRUCellGrad: {3, 2}}[c.Op]
	last := &c.Out[len(c.Out)-1]
	if last.NDim != 2 {
		return Errorf(c.Op, ErrCall, "a state has shape %v, want two dimensions", last.dims())
	}
	rows, units := last.Shape[0], last.Shape[1]
	check := func(kind string, views []View, gates int) error {
		for i := range views {
			want := units
			if i < gates {
				want *= wide[0]
			}
			v := &views[i]
			if v.NDim != 2 || v.Shape[0] != rows || v.Shape[1] != want || v.Strides[1] != 1 && want > 1 && rows > 0 {
				return Errorf(c.Op, ErrCall, "%s %d has shape %v and strides %v, want %d contiguous rows of %d", kind, i, v.dims(),
					v.Strides[:v.NDim], rows, want)
			}
		}
		return nil
	}
	if err := check("output", c.Out, wide[1]); err != nil {
		return err
	}
	gates := 1
	if c.Op == LSTMCell {
		gates = 0
	}
	return check("input", c.In, gates)
}
