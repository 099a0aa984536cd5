package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// BagMode is what EmbeddingBag makes of the rows of a bag.
type BagMode int64

// The modes. PyTorch's default is the mean.
const (
	BagSum  BagMode = op.BagSum
	BagMean BagMode = op.BagMean
	BagMax  BagMode = op.BagMax
)

// String is PyTorch's name of the mode.
func (m BagMode) String() string {
	if m < BagSum || m > BagMax {
		return "invalid"
	}
	return [...]string{"sum", "mean", "max"}[m]
}

// EmbeddingBag makes a row of each bag of rows of table, [R, W], of a floating-point type: their sum, their mean, or the
// greatest of each column. idx, of one dimension, names the rows; bag k is idx[offsets[k]] up to idx[offsets[k+1]], or to the end
// for the last; offsets ascend. Both are int64 or int32. Row padding is left out; -1 for none. A bag of no rows gives zeros. The
// result is [B, W] for B offsets.
//
// The second result is for the gradient: nil for sums, the number of rows of each bag for means, and for the greatest, [B, W],
// which row it was, or -1. Indices and offsets out of range make the work fail on the device, which the next wait reports.
func EmbeddingBag(table, idx, offsets *Tensor, mode BagMode, padding int) (out, extra *Tensor, err error) {
	b := bagCall{name: "EmbeddingBag", mode: mode, padding: padding}
	if err := b.check(table, idx, offsets); err != nil {
		return nil, nil, err
	}
	if err := b.prepare(table, idx, offsets); err != nil {
		return nil, nil, err
	}
	defer b.release()
	counts := Shape{offsets.Len(), table.Dim(1)}
	if out, err = Empty(table.exec, table.dtype, counts...); err != nil {
		return nil, nil, wrap(b.name, err)
	}
	if mode != BagSum {
		if mode == BagMean {
			counts = counts[:1]
		}
		if extra, err = Zeros(table.exec, Int64, counts...); err != nil {
			out.Release()
			return nil, nil, wrap(b.name, err)
		}
	}
	if out.Len() == 0 {
		return out, extra, nil
	}
	c := b.begin(op.EmbeddingBag, table.exec)
	c.out(out, &out.layout)
	if extra != nil {
		c.out(extra, &extra.layout)
	}
	b.inputs(c, b.first)
	if err := c.run(b.name); err != nil {
		out.Release()
		extra.Release()
		return nil, nil, err
	}
	return out, extra, nil
}

// EmbeddingBag is the gradient of tensor.EmbeddingBag with respect to its table of rows rows, for the gradient grad of its first
// result; extra is the second one. It is dense, and summed in the order of the indices.
func (gradients) EmbeddingBag(grad, idx, offsets, extra *Tensor, rows int, mode BagMode, padding int) (*Tensor, error) {
	b := bagCall{name: "EmbeddingBagGrad", mode: mode, padding: padding, rows: rows, backward: true}
	if err := b.check(grad, idx, offsets); err != nil {
		return nil, err
	}
	if err := b.checkExtra(grad, offsets, extra); err != nil {
		return nil, err
	}
	table, err := Zeros(grad.exec, grad.dtype, rows, grad.Dim(1))
	if err != nil {
		return nil, wrap(b.name, err)
	}
	if mode == BagMax {
		err = b.scatterGreatest(table, grad, extra)
	} else if grad.Len() > 0 && idx.Len() > 0 {
		err = b.addTo(table, grad, idx, offsets, extra)
	}
	if err != nil {
		table.Release()
		return nil, err
	}
	return table, nil
}

// bagCall is a call of EmbeddingBag or its gradient in the making, with its operands as the kernels want them.
type bagCall struct {
	name           string
	mode           BagMode
	padding        int
	rows           int  // of the table, for the gradient
	backward       bool // the first operand is [B, W]
	first          *Tensor
	index, offsets *Tensor
	temps          []*Tensor
}

func (b *bagCall) check(first, idx, offsets *Tensor) error {
	if err := together(b.name, first, idx, offsets); err != nil {
		return err
	}
	if !first.dtype.IsFloat() || !isIndex(idx.dtype) || !isIndex(offsets.dtype) {
		return dtypeErr(b.name, "rows are floating point, indices and offsets int64 or int32", first.dtype, idx.dtype, offsets.dtype)
	}
	shapes := []Shape{first.Shape(), idx.Shape(), offsets.Shape()}
	if first.NDim() != 2 || idx.NDim() != 1 || offsets.NDim() != 1 {
		return shapeErr(b.name, shapes, "rows are [R, W], indices [N], offsets [B]")
	}
	if !b.backward {
		b.rows = first.Dim(0)
	} else if first.Dim(0) != offsets.Len() {
		return shapeErr(b.name, shapes, "there is a gradient for each offset")
	}
	if b.mode < BagSum || b.mode > BagMax {
		return valueErr(b.name, "mode is %d; it must be sum, mean or max", b.mode)
	}
	if b.rows < 0 {
		return valueErr(b.name, "a table of %d rows", b.rows)
	}
	if b.padding < -1 || b.padding >= b.rows {
		return valueErr(b.name, "padding is %d; it must be -1 or one of %d rows", b.padding, b.rows)
	}
	return nil
}

// checkExtra refuses what is not the second result of EmbeddingBag.
func (b *bagCall) checkExtra(grad, offsets, extra *Tensor) error {
	if b.mode == BagSum {
		return nil
	}
	if err := together(b.name, grad, extra); err != nil {
		return err
	}
	if extra.dtype != Int64 {
		return dtypeErr(b.name, "the second result of EmbeddingBag is int64", grad.dtype, extra.dtype)
	}
	want := grad.Shape()
	if b.mode == BagMean {
		want = offsets.Shape()
	}
	if !extra.Shape().Equal(want) || !extra.IsContiguous() {
		return shapeErr(b.name, []Shape{grad.Shape(), offsets.Shape(), extra.Shape()}, "the last is not the second result of EmbeddingBag")
	}
	return nil
}

func isIndex(d DType) bool { return d == Int64 || d == Int32 }

// prepare makes the operands contiguous.
func (b *bagCall) prepare(first, idx, offsets *Tensor) error {
	for _, o := range []struct {
		t  *Tensor
		dt DType
		to **Tensor
	}{{first, first.dtype, &b.first}, {idx, Int64, &b.index}, {offsets, Int64, &b.offsets}} {
		x, err := o.t.packedAs(b.name, o.dt, first.exec)
		if err != nil {
			b.release()
			return err
		}
		if x != o.t {
			b.temps = append(b.temps, x)
		}
		*o.to = x
	}
	return nil
}

func (b *bagCall) release() {
	for _, t := range b.temps {
		t.Release()
	}
}

func (b *bagCall) begin(id op.ID, e Exec) *launch {
	c := begin(id, e)
	c.call.I[0], c.call.I[1] = int64(b.mode), int64(b.padding)
	return c
}

func (b *bagCall) inputs(c *launch, first *Tensor) {
	for _, t := range []*Tensor{first, b.index, b.offsets} {
		c.in(t, &t.layout)
	}
}

// addTo adds the gradients of sums or means to a table.
func (b *bagCall) addTo(table, grad, idx, offsets, counts *Tensor) error {
	if err := b.prepare(grad, idx, offsets); err != nil {
		return err
	}
	defer b.release()
	c := b.begin(op.EmbeddingBagGrad, grad.exec)
	c.out(table, &table.layout)
	b.inputs(c, b.first)
	if b.mode == BagMean {
		c.in(counts, &counts.layout)
	}
	return c.run(b.name)
}

// scatterGreatest adds the gradients of greatest elements to a table, at the rows that they were of. Those of empty bags are
// left out.
func (b *bagCall) scatterGreatest(table, grad, rows *Tensor) error {
	if grad.Len() == 0 || b.rows == 0 {
		return nil
	}
	none, err := rows.LtScalar(0)
	if err != nil {
		return err
	}
	defer none.Release()
	some, err := grad.MaskedFill(none, 0)
	if err != nil {
		return err
	}
	defer some.Release()
	places, err := rows.MaskedFill(none, 0)
	if err != nil {
		return err
	}
	defer places.Release()
	return table.scatterInPlace(b.name, op.ScatterAdd, 0, places, some)
}
