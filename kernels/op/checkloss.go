package op

import "slices"

func checkEntropy(c *Call, backward bool) error {
	if !backward {
		return checkCrossEntropy(c, &c.In[0], c.In[1:2], []View{c.Out[0], c.Out[2]}, &c.Out[1], c.In[2:])
	}
	if err := checkSameShape(c, &c.Out[0], &c.In[1]); err != nil {
		return err
	}
	return checkCrossEntropy(c, &c.In[1], c.In[2:3], c.In[:1], &c.In[3], c.In[4:])
}

// checkCrossEntropy takes the logits [N, C], the views of classes, those of a number for each row, lse, and perhaps the weights.
func checkCrossEntropy(c *Call, logits *View, classes, rows []View, lse *View, weights []View) error {
	full := logits.dims()
	if len(full) != 2 {
		return Errorf(c.Op, ErrCall, "logits have shape %v, want [N C]", full)
	}
	for _, views := range [][]View{classes, rows} {
		for i := range views {
			if !slices.Equal(views[i].dims(), full[:1]) {
				return Errorf(c.Op, ErrCall, "shape %v does not go with logits of %v, want [%d]", views[i].dims(), full, full[0])
			}
		}
	}
	for i := range weights {
		if !slices.Equal(weights[i].dims(), full[1:]) {
			return Errorf(c.Op, ErrCall, "weights have shape %v, want [%d]", weights[i].dims(), full[1])
		}
	}
	if !slices.Equal(lse.dims(), []int{2, full[0]}) || !lse.Contiguous() {
		return Errorf(c.Op, ErrCall, "lse has shape %v, want a contiguous [2 %d]", lse.dims(), full[0])
	}
	for i := range rows[1:] {
		if !rows[1+i].Contiguous() {
			return Errorf(c.Op, ErrCall, "the weights of rows are not contiguous")
		}
	}
	return nil
}

func checkSameShape(c *Call, a, b *View) error {
	if !slices.Equal(a.dims(), b.dims()) {
		return Errorf(c.Op, ErrCall, "shapes %v and %v differ", a.dims(), b.dims())
	}
	return nil
}
