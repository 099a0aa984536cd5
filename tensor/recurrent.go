package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// Recurrent is one direction of one layer of a recurrent network, over a whole sequence (torch.nn.LSTM and GRU; op.LSTMCell and
// op.GRUCell have the formulas). T is the length of the sequence, B the batch, I and H the inputs and units; G is 4 for LSTM
// and 3 for GRU, whose gates are in PyTorch's order: i, f, g, o and r, z, n. All tensors have one floating-point type and are on
// one device, and are borrowed.
//
// The products with the inputs are one product for all steps. A step is then a product with the state before it, which for LSTM
// is added up in the memory of the gates, and one launch for everything else.
type Recurrent struct {
	GRU     bool
	Reverse bool // from the end of the sequence to its start

	X              *Tensor // [T, B, I]
	H0             *Tensor // [B, H]
	C0             *Tensor // [B, H], for LSTM
	WeightIH       *Tensor // [G*H, I]
	WeightHH       *Tensor // [G*H, H]
	BiasIH, BiasHH *Tensor // [G*H], or nil for none
}

// RecurrentState is what Forward makes, and what its gradient needs.
type RecurrentState struct {
	Output *Tensor // [T, B, H]
	H      *Tensor // [B, H], the last state; nil if it was not asked for
	C      *Tensor // [B, H], the last cell, of an LSTM; likewise
	Gates  *Tensor // [T, B, G*H], activated
	Inner  *Tensor // [T, B, H]: the cells of an LSTM; of a GRU, the state's share of the gate n
}

// Release releases all tensors.
func (s *RecurrentState) Release() {
	if s == nil {
		return
	}
	for _, t := range []*Tensor{s.Output, s.H, s.C, s.Gates, s.Inner} {
		t.Release()
	}
}

const recurrentName = "Recurrent"

// gates is G.
func (r *Recurrent) gates() int {
	if r.GRU {
		return 3
	}
	return 4
}

// operands are the tensors that are there.
func (r *Recurrent) operands() []*Tensor {
	all := []*Tensor{r.X, r.H0, r.WeightIH, r.WeightHH}
	if !r.GRU {
		all = append(all, r.C0)
	}
	if r.BiasIH != nil || r.BiasHH != nil {
		all = append(all, r.BiasIH, r.BiasHH)
	}
	return all
}

func (r *Recurrent) check() error {
	all := r.operands()
	if err := sameFloat(recurrentName, all...); err != nil {
		return err
	}
	wrong := func(what string, t *Tensor, want ...int) error {
		if t == nil || t.Shape().Equal(want) {
			return nil
		}
		return shapeErr(recurrentName, shapesOf(all), "%s is %v, want %v", what, t.Shape(), Shape(want))
	}
	if r.X.NDim() != 3 || r.WeightHH.NDim() != 2 {
		return shapeErr(recurrentName, shapesOf(all), "inputs are [T, B, I], weights of the state [G*H, H]")
	}
	b, i, h := r.X.Dim(1), r.X.Dim(2), r.WeightHH.Dim(1)
	for _, err := range []error{
		wrong("the state", r.H0, b, h), wrong("the cell", r.C0, b, h), wrong("the inputs' weight", r.WeightIH, r.gates()*h, i),
		wrong("the state's weight", r.WeightHH, r.gates()*h, h), wrong("the inputs' bias", r.BiasIH, r.gates()*h),
		wrong("the state's bias", r.BiasHH, r.gates()*h),
	} {
		if err != nil {
			return err
		}
	}
	if r.X.Dim(0) == 0 {
		return shapeErr(recurrentName, shapesOf(all), "a sequence has at least one step")
	}
	return nil
}

// Forward runs the sequence. With keep the result has what the gradient needs; else Gates and Inner are nil, and a cell takes the
// memory of one step. The caller releases the result.
func (r *Recurrent) Forward(keep bool) (*RecurrentState, error) {
	if r == nil {
		return nil, valueErr(recurrentName, "the layer is nil")
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	s := new(RecurrentState)
	if err := r.forward(s, keep); err != nil {
		s.Release()
		return nil, err
	}
	if !keep {
		s.Gates.Release()
		s.Inner.Release()
		s.Gates, s.Inner = nil, nil
	}
	return s, nil
}

func (r *Recurrent) forward(s *RecurrentState, keep bool) (err error) {
	e, steps, batch, units := r.X.exec, r.X.Dim(0), r.X.Dim(1), r.WeightHH.Dim(1)
	if s.Gates, err = r.project(); err != nil {
		return err
	}
	if s.Output, err = Empty(e, r.X.dtype, steps, batch, units); err != nil {
		return err
	}
	kept := steps
	if !keep {
		kept = 1
	}
	if s.Inner, err = Empty(e, r.X.dtype, kept, batch, units); err != nil {
		return err
	}
	if s.Output.Len() > 0 {
		if err := r.run(s); err != nil {
			return err
		}
	}
	last := r.at(steps-1, steps)
	if s.H, err = s.Output.cloneStep(last); err != nil || r.GRU {
		return err
	}
	s.C, err = s.Inner.cloneStep(min(last, kept-1))
	return err
}

// at is the place in a sequence of so many steps of step n.
func (r *Recurrent) at(n, steps int) int {
	if r.Reverse {
		return steps - 1 - n
	}
	return n
}

// project computes what the inputs have in the gates, for all steps at once.
func (r *Recurrent) project() (*Tensor, error) {
	bias := r.BiasIH
	if bias != nil && !r.GRU { // of a GRU the state's bias goes through a gate
		sum, err := r.BiasIH.Add(r.BiasHH)
		if err != nil {
			return nil, err
		}
		defer sum.Release()
		bias = sum
	}
	return Linear(r.X, r.WeightIH, bias)
}

// run computes the steps.
func (r *Recurrent) run(s *RecurrentState) error {
	h, err := r.H0.packedCopy(recurrentName)
	if err != nil {
		return err
	}
	defer drop(h, r.H0)
	c := h
	if !r.GRU {
		if c, err = r.C0.packedCopy(recurrentName); err != nil {
			return err
		}
		defer drop(c, r.C0)
	}
	var hidden *Tensor
	if r.GRU {
		if hidden, err = Empty(r.X.exec.Owned(), r.X.dtype, r.X.Dim(1), r.WeightHH.Dim(0)); err != nil {
			return err
		}
		defer hidden.Release()
	}
	before, cell := operand{h, h.layout}, operand{c, c.layout}
	for n := range r.X.Dim(0) {
		i := r.at(n, r.X.Dim(0))
		out, inner, gates := s.Output.step(i), s.Inner.step(min(i, s.Inner.Dim(0)-1)), s.Gates.step(i)
		if r.GRU {
			err = r.gruStep(gates, out, inner, operand{hidden, hidden.layout}, before)
		} else {
			err = r.lstmStep(gates, out, inner, before, cell)
		}
		if err != nil {
			return err
		}
		before, cell = out, inner
	}
	return nil
}

func (r *Recurrent) lstmStep(gates, out, inner, before, cell operand) error {
	if err := product2(gates, before, transposed(r.WeightHH), &gates, 1); err != nil {
		return err
	}
	return cellLaunch(op.LSTMCell, []operand{gates, out, inner}, []operand{cell})
}

func (r *Recurrent) gruStep(gates, out, inner, hidden, before operand) error {
	var bias *operand
	beta := 0.0
	if r.BiasHH != nil {
		bias, beta = &operand{r.BiasHH, r.BiasHH.layout}, 1
	}
	if err := product2(hidden, before, transposed(r.WeightHH), bias, beta); err != nil {
		return err
	}
	return cellLaunch(op.GRUCell, []operand{gates, out, inner}, []operand{hidden, before})
}
