package op

// RandomOperand is the view of key and shift that a call of Uniform, Normal, Bernoulli or Dropout takes from device memory, nil if it takes
// those of its scalars.
func RandomOperand(c *Call) *View {
	at := 0
	switch c.Op {
	case Dropout:
		at = 1
	case Uniform, Normal, Bernoulli:
	default: // the other calls of contiguous views
		return nil
	}
	if len(c.In) == at {
		return nil
	}
	return &c.In[at]
}

// checkRandom wants views without gaps: of one shape, and behind them perhaps that of RandomOperand.
func checkRandom(c *Call) error {
	seed := RandomOperand(c)
	for _, views := range [][]View{c.Out, c.In} {
		for i := range views {
			v := &views[i]
			if !v.Contiguous() {
				return Errorf(c.Op, ErrCall, "view %d of shape %v is not contiguous", i, v.dims())
			}
			if v == seed && v.Len() != 2 {
				return Errorf(c.Op, ErrCall, "key and shift have shape %v, want two elements", v.dims())
			}
			if v != seed {
				if err := checkSameShape(c, v, &c.Out[0]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
