package main

import (
	"fmt"
	"io"
)

const trainingHead = "| program | precision | steps/s | of them late | PyTorch steps/s | late | rate / PyTorch's | peak allocated MB | PyTorch's | peak reserved MB " +
	"| PyTorch's | result | PyTorch's |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"

// trainingTable prints the training of examples/gpt and its peer in PyTorch.
func (r *Results) trainingTable(w io.Writer) {
	small := figures[training](r, "gpt")
	if small == nil {
		return
	}
	fmt.Fprint(w, "### gpt: the example, and the same in PyTorch\n\n\"Late\" is the second half of the steps. The result is the validation loss.\n\n", trainingHead)
	row(w, "gpt", "float32", *small, figures[training](r, "gpt-pytorch"))
	fmt.Fprintln(w)
}

func row(w io.Writer, program, precision string, t training, peer *training) {
	p := training{}
	if peer != nil {
		p = *peer
	}
	ratio := 0.0
	if p.Late > 0 {
		ratio = t.Late / p.Late
	}
	mb := func(n int64) string { return number("%.1f", float64(n)/1e6) }
	fmt.Fprintf(w, "| %s | %s | %.2f | %s | %s | %s | %s | %s | %s | %s | %s | %.4f | %s |\n", program, precision, t.Rate, number("%.2f", t.Late),
		number("%.2f", p.Rate), number("%.2f", p.Late), number("%.2f", ratio), mb(t.Allocated), mb(p.Allocated), mb(t.Reserved), mb(p.Reserved),
		t.ValLoss, number("%.4f", p.ValLoss))
}
