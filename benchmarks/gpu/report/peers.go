package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

type (
	// compared is what programs that compare single calls with PyTorch write of one: benchmarks/internal/peer.
	compared struct {
		US        float64 `json:"us"`
		TFLOPS    float64
		Peak      *int64  `json:"peak_bytes"`
		Host      float64 `json:"host_us"`
		HostBound bool    `json:"host_bound"`
		PyTorch   map[string]*struct {
			US         float64 `json:"us"`
			Peak       *int64  `json:"peak_bytes"`
			HostBound  bool    `json:"host_bound"`
			Difference *float64
		}
		Best      string  `json:"pytorch_best"`
		OfPyTorch float64 `json:"time_by_pytorchs"`
	}
	// tally counts where ours is faster.
	tally struct{ faster, all int }
)

// apart is by how much results of a type may differ, in parts of the largest: more is worth a look.
var apart = map[string]float64{"float64": 1e-8, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}

// add counts a ratio of times, 0 for none.
func (t *tally) add(ratio float64) {
	if ratio == 0 {
		return
	}
	t.all++
	if ratio < 1 {
		t.faster++
	}
}

func (t tally) String() string { return fmt.Sprintf("%d of %d", t.faster, t.all) }

// faster prints in how many cases we take less time than PyTorch, program by program.
func (r *Results) faster(w io.Writer) {
	var parts []string
	part := func(name string, ratios []float64) {
		var t tally
		for _, ratio := range ratios {
			t.add(ratio)
		}
		if t.all > 0 {
			parts = append(parts, name+" "+t.String())
		}
	}
	var eager, compiled []float64
	if b := figures[bandwidth](r, "bandwidth"); b != nil {
		for _, x := range b.Results {
			eager, compiled = append(eager, x.OfPyTorch), append(compiled, x.OfCompiled)
		}
	}
	part("bandwidth", eager)
	part("bandwidth, compiled", compiled)
	part("gemm", r.productRatios())
	part("attention", r.attentionRatios())
	part("conv", r.convRatios())
	if l := figures[launch](r, "launch"); l != nil {
		var ratios []float64
		for _, x := range l.Results {
			if x.PyTorch != nil && x.PyTorch.Stream.Ns > 0 {
				ratios = append(ratios, x.Stream.Ns/x.PyTorch.Stream.Ns)
			}
		}
		part("launch", ratios)
	}
	if len(parts) > 0 {
		fmt.Fprintf(w, "Faster than PyTorch: %s.\n\n", strings.Join(parts, "; "))
	}
}

// productRatios are times of products, by the faster of our kernels and cuBLAS, in PyTorch's.
func (r *Results) productRatios() (list []float64) {
	g := figures[gemm](r, "gemm")
	if g == nil {
		return nil
	}
	for _, x := range g.Results {
		if x.Subject != "pytorch" {
			continue
		}
		speeds := g.speeds(x)
		if best := max(speeds["own"], speeds["cublas"], speeds["host"]); best > 0 {
			list = append(list, speeds["pytorch"]/best)
		}
	}
	return list
}

// waysOf are those of PyTorch's ways, in this order, of which a call has numbers.
func waysOf(order []string, calls []*compared) (used []string) {
	for _, way := range order {
		if slices.ContainsFunc(calls, func(c *compared) bool { return c.PyTorch[way] != nil }) {
			used = append(used, way)
		}
	}
	return used
}

// callHead are the titles of cells.
func callHead(ways []string) string {
	head := " µs | TFLOP/s | host µs | peak MB |"
	for _, way := range ways {
		head += " " + way + " µs |"
	}
	head += " best | its peak MB | difference | time / PyTorch's |"
	return head
}

// cells are the columns of a call.
func (c *compared) cells(ways []string) string {
	host := number("%.1f", c.Host)
	if c.HostBound {
		host += " (bound)"
	}
	text := fmt.Sprintf(" %.1f | %.2f | %s | %s |", c.US, c.TFLOPS, host, megabytes(c.Peak))
	for _, way := range ways {
		us := 0.0
		if p := c.PyTorch[way]; p != nil {
			us = p.US
		}
		text += " " + number("%.1f", us) + " |"
	}
	best := c.PyTorch[c.Best]
	if best == nil {
		return text + " - | - | - | - |"
	}
	difference := "-"
	if best.Difference != nil {
		difference = fmt.Sprintf("%.0e", *best.Difference)
	}
	return text + fmt.Sprintf(" %s | %s | %s | %s |", c.Best, megabytes(best.Peak), difference, number("%.2f", c.OfPyTorch))
}

func megabytes(bytes *int64) string {
	if bytes == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(*bytes)/1e6)
}

// differs is whether the result is far from that of every one of PyTorch's ways.
func (c *compared) differs(dtype string) bool {
	least := -1.0
	for _, p := range c.PyTorch {
		if p.Difference != nil && (least < 0 || *p.Difference < least) {
			least = *p.Difference
		}
	}
	return least > apart[dtype]
}

// remarks are what a table of calls begins with: counts, and results that are far apart.
func remarks(w io.Writer, version string, refused, failed, differ []string, calls []*compared) {
	var t tally
	bound := 0
	for _, c := range calls {
		t.add(c.OfPyTorch)
		if best := c.PyTorch[c.Best]; c.HostBound || best != nil && best.HostBound {
			bound++
		}
	}
	fmt.Fprintf(w, "PyTorch: %s. Faster than PyTorch's fastest way: %s; one side bound by the host: %d of %d.", version, t, bound, len(calls))
	for _, list := range []struct {
		what  string
		names []string
	}{{"**Failed**", failed}, {"**Results differ**", differ}, {"PyTorch refused", refused}} {
		if len(list.names) > 0 {
			fmt.Fprintf(w, " %s: %s.", list.what, strings.Join(list.names, "; "))
		}
	}
	fmt.Fprint(w, "\n\n")
}
