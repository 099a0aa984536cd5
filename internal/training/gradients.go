package training

// Releaser is what has to be released: *tensor.Tensor, which this package cannot name.
type Releaser interface{ Release() }

// Attention are the gradients of the operands of attention: of the shapes that these broadcast to. Mask may be nil.
type Attention[T Releaser] struct{ Q, K, V, Mask T }

// Release releases all of them.
func (g *Attention[T]) Release() {
	if g == nil {
		return
	}
	for _, t := range []T{g.Q, g.K, g.V, g.Mask} {
		t.Release()
	}
}

// Recurrent are the gradients of the operands of the same name of a recurrent layer.
type Recurrent[T Releaser] struct{ X, H0, C0, WeightIH, WeightHH, BiasIH, BiasHH T }

// Release releases all of them.
func (g *Recurrent[T]) Release() {
	if g == nil {
		return
	}
	for _, t := range []T{g.X, g.H0, g.C0, g.WeightIH, g.WeightHH, g.BiasIH, g.BiasHH} {
		t.Release()
	}
}

// Wants says which gradients of a recurrent layer are computed. Those of H0 and C0 come with the rest.
type Wants struct{ X, WeightIH, WeightHH, Bias bool }
