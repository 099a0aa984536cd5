package main

import (
	"fmt"
	"io"
)

const trainingHead = "| program | precision | steps/s | of them late | PyTorch steps/s | late | rate / PyTorch's | peak allocated MB | PyTorch's | peak reserved MB " +
	"| PyTorch's | result | PyTorch's |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"

// trainingTable prints the trainings that have a peer in PyTorch: one GPT as small as on the host, one of a size for a GPU.
func (r *Results) trainingTable(w io.Writer) {
	large, small := figures[trainings](r, "amp"), figures[training](r, "gpt")
	if large == nil && small == nil {
		return
	}
	fmt.Fprint(w, "### training: GPTs, and the same in PyTorch\n\n\"Late\" is the second half of the steps. The result is the validation loss.\n\n", trainingHead)
	if small != nil {
		row(w, "gpt, small", "float32", *small, figures[training](r, "gpt-pytorch"))
	}
	if large != nil {
		peers := figures[[]training](r, "amp-pytorch")
		for i, t := range large.Trainings {
			var peer *training
			if peers != nil && i < len(*peers) {
				peer = &(*peers)[i] // train.py has them in this order: float32, float16, bfloat16
			}
			row(w, "gpt, large", t.Name, t, peer)
		}
	}
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

// examplesTable prints the other examples.
func (r *Results) examplesTable(w io.Writer) {
	head := "### examples on the GPU\n\n| program | steps | steps/s | test accuracy | peak allocated MB | peak reserved MB |\n|---|---|---|---|---|---|\n"
	for _, name := range []string{"mnist", "cnn"} {
		t := figures[training](r, name)
		if t == nil {
			continue
		}
		fmt.Fprintf(w, "%s| %s | %d | %.1f | %.4f | %.1f | %.1f |\n", head, name, t.Steps, t.Rate, t.Accuracy, float64(t.Allocated)/1e6, float64(t.Reserved)/1e6)
		head = ""
	}
	if head == "" {
		fmt.Fprintln(w)
	}
}
