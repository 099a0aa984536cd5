package parallel

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// The ranks sum the squares of their parts' norms, and in the same message find out whether they clip to the same limit: ranks that do not would go apart, and say nothing. A sum of numbers tells nothing of them, but
// one of bits does: over n ranks each of a limit's 64 bits adds up to 0 or n if all have the same, and float64 counts exactly.

// normMessage is what a rank sends for that, and what comes back: the square of a norm, and the bits of the limit.
type normMessage struct {
	own, sum *tensor.Tensor
	ranks    int
}

// newNormMessage is that of a rank whose part has the norm own. The sums are those of a message that has not come, until one does: no norm, and limits that agree, by which nothing is scaled.
func (d *DataParallel) newNormMessage(own *tensor.Tensor, limit float64) (*normMessage, error) {
	m := &normMessage{ranks: d.comm.Size()}
	bits := append([]float64{0}, bitsOf(limit)...)
	sums := []float64{math.NaN()}
	for _, b := range bits[1:] {
		sums = append(sums, b*float64(m.ranks))
	}
	var err error
	if m.own, err = tensor.FromSlice(d.exec, bits, len(bits)); err != nil {
		return m, err
	}
	if m.sum, err = tensor.FromSlice(d.exec, sums, len(sums)); err != nil {
		return m, err
	}
	square, err := own.Square()
	if err != nil {
		return m, err
	}
	defer square.Release()
	place, err := view(m.own, 0, own.Shape(), d.exec)
	if err != nil {
		return m, err
	}
	defer place.Release()
	return m, place.CopyFrom(square)
}

func (m *normMessage) release() {
	m.own.Release()
	m.sum.Release()
}

// norm makes the norm of the sum of squares, in place, and returns it.
func (m *normMessage) norm() (*tensor.Tensor, error) {
	t, err := view(m.sum, 0, nil, m.sum.Exec())
	if err != nil {
		return nil, err
	}
	if err := t.SqrtInPlace(); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// differs is 0 if all ranks have the same limit, else NaN: the root of the norm, with a minus, of how far the sums are from this rank's bits times the ranks. It changes the sums.
func (m *normMessage) differs() (*tensor.Tensor, error) {
	own, err := m.own.Narrow(0, 1, limitBits)
	if err != nil {
		return nil, err
	}
	defer own.Release()
	sum, err := m.sum.Narrow(0, 1, limitBits)
	if err != nil {
		return nil, err
	}
	defer sum.Release()
	if err := sum.AddInPlace(own, -float64(m.ranks)); err != nil {
		return nil, err
	}
	t, err := steps.GradNorm(sum.Exec(), []*tensor.Tensor{sum}, 2)
	if err != nil {
		return nil, err
	}
	if err = t.NegInPlace(); err == nil {
		err = t.SqrtInPlace()
	}
	if err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

const limitBits = 64

// bitsOf are those of a limit, each 0 or 1.
func bitsOf(limit float64) []float64 {
	word := math.Float64bits(limit + 0) // a zero of either sign is the same limit
	bits := make([]float64, limitBits)
	for i := range bits {
		bits[i] = float64(word >> i & 1)
	}
	return bits
}

// same reports whether the sums of the bits of n ranks' limits are those of n times this one.
func same(sums []float64, limit float64, n int) bool {
	for i, b := range bitsOf(limit) {
		if sums[i] != b*float64(n) {
			return false
		}
	}
	return true
}

// number is the text of a limit's bits.
func number(bits int64) string { return fmt.Sprint(math.Float64frombits(uint64(bits))) }
