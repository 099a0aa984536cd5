package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/examples/internal/session"
)

// report is what the program tells: lists by rank have the ranks of Listed.
type report struct {
	options
	Backend   string    `json:"backend,omitempty"`
	Listed    []int     `json:"listed_ranks"`
	FirstStep int       `json:"first_step"`
	Losses    []float64 `json:"losses"`
	Peak      []uint64  `json:"peak_allocated_bytes"`
	Predicted []uint64  `json:"predicted_peak_allocated_bytes"`
	Held      []uint64  `json:"held_bytes"`
	Sent      []uint64  `json:"sent_bytes_per_step"`
	Seconds   []float64 `json:"seconds_per_step"`

	// With -plan: what was reserved at most, and requests that the plan served, and that did not go by it.
	Reserved   []uint64 `json:"peak_reserved_bytes,omitempty"`
	Served     []uint64 `json:"plan_served,omitempty"`
	Deviations []uint64 `json:"plan_deviations,omitempty"`
}

// measured takes the figures of all ranks, as trainRank gathers them.
func (r *report) measured(all [][]float64, backend string) {
	r.Backend = backend
	if len(all) == 0 { // a rank has failed
		return
	}
	r.Held, r.Sent = nil, nil
	for i := range r.Listed {
		f := all[r.Listed[i]]
		r.Held, r.Peak, r.Sent, r.Seconds = append(r.Held, uint64(f[0])), append(r.Peak, uint64(f[1])), append(r.Sent, uint64(f[2])), append(r.Seconds, f[3])
		if r.Plan {
			r.Reserved, r.Served, r.Deviations = append(r.Reserved, uint64(f[5])), append(r.Served, uint64(f[6])), append(r.Deviations, uint64(f[7]))
		}
	}
	r.FirstStep, r.Losses = int(all[0][4]), make([]float64, len(all[0])-8)
	for _, f := range all {
		for k, loss := range f[8:] {
			r.Losses[k] += loss / float64(len(all))
		}
	}
}

// tell prints the table, and writes the figures.
func (r *report) tell(w io.Writer, file string) error {
	if len(r.Losses) > 0 {
		fmt.Fprintf(w, "%s, ZeRO %d, %d ranks by %s, batches of %d in %d parts, amp %s: loss %.4f at first, %.4f after %d steps\n\n",
			r.Model, r.ZeRO, r.Ranks, r.Backend, r.Batch, r.Accumulate, r.AMP, r.Losses[0], r.Losses[len(r.Losses)-1], r.FirstStep+len(r.Losses))
	} else {
		fmt.Fprintf(w, "%s, ZeRO %d, %d ranks, batches of %d in %d parts, amp %s: simulated\n\n", r.Model, r.ZeRO, r.Ranks, r.Batch, r.Accumulate, r.AMP)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "rank\tpredicted peak\tpeak\theld\tsent in a step\tms a step\t")
	for i, rank := range r.Listed {
		peak, ms := "-", "-"
		if i < len(r.Peak) {
			peak, ms = mib(r.Peak[i]), fmt.Sprintf("%.2f", 1e3*r.Seconds[i])
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t\n", rank, mib(r.Predicted[i]), peak, mib(r.Held[i]), mib(r.Sent[i]), ms)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i, served := range r.Served {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "rank %d: plan, %d requests served, %d deviations, %s reserved at most\n", r.Listed[i], served, r.Deviations[i], mib(r.Reserved[i]))
	}
	return session.WriteJSON(file, r)
}

func mib(bytes uint64) string { return fmt.Sprintf("%.3f MiB", float64(bytes)/(1<<20)) }
