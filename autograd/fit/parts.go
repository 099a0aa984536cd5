package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/autograd/nn/memreport"
)

// Part is some of the memory that was allocated at the peak.
type Part struct {
	// What is "parameters", "gradients", "optimizer state", "activations", "inputs", "workspace" or "other": the categories of package memreport.
	What  string `json:"what"`
	Bytes uint64 `json:"bytes"`
}

// partsOf is what there is at the peak, the largest part first.
func partsOf(r *memreport.Report) []Part {
	if r == nil {
		return nil
	}
	c := &r.AtPeak
	parts := []Part{
		{"parameters", c.Parameters}, {"gradients", c.Gradients}, {"optimizer state", c.OptimizerState}, {"activations", c.Activations}, {"inputs", c.Inputs},
		{"workspace", c.Workspace}, {"other", c.Other},
	}
	parts = slices.DeleteFunc(parts, func(p Part) bool { return p.Bytes == 0 })
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return parts
}

// shares is as in "activations 93 %, parameters 4 %, other 3 %": other is what else there is, and what is less than one percent.
func shares(parts []Part) string {
	total, rest := uint64(0), uint64(0)
	for _, p := range parts {
		total += p.Bytes
	}
	var all []string
	for _, p := range parts {
		percent := 100 * float64(p.Bytes) / float64(total)
		if percent < 1 || p.What == "other" {
			rest += p.Bytes
			continue
		}
		all = append(all, fmt.Sprintf("%s %.0f %%", p.What, percent))
	}
	switch percent := 100 * float64(rest) / float64(total); {
	case rest > 0 && percent < 1:
		all = append(all, "other < 1 %")
	case rest > 0:
		all = append(all, fmt.Sprintf("other %.0f %%", percent))
	}
	return strings.Join(all, ", ")
}
