package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// target is something that was promised of a GPU, with what was measured.
type target struct {
	what     string
	want     string
	measured string
	met      bool
}

// targets prints a table of those that the numbers answer.
func (r *Results) targets(w io.Writer) {
	all := slices.Concat(r.bandwidthTargets(), r.gemmTargets(), r.allocTargets(), r.trainPeersTargets(), r.launchTargets())
	var without []string
	for _, name := range []string{"bandwidth", "gemm", "naive", "train", "launch"} {
		if _, ok := r.Figures[name]; !ok {
			without = append(without, name)
		}
	}
	if len(without) > 0 {
		defer fmt.Fprintf(w, "Targets not measured: those of %s.\n\n", strings.Join(without, ", "))
	}
	if len(all) == 0 {
		return
	}
	fmt.Fprint(w, "| target | wanted | measured | |\n|---|---|---|---|\n")
	for _, t := range all {
		met := "met"
		if !t.met {
			met = "**missed**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", t.what, t.want, t.measured, met)
	}
	fmt.Fprintln(w)
}

// mostMissed is how many of many kernels are named.
const mostMissed = 5

const (
	wantOfCopy    = 0.85 // element-wise and norm kernels, of the driver's copy
	wantOfCUBLAS  = 0.60 // own float16 product at 4096³
	wantOfDriver  = 1000 // cudaMalloc and cudaFree in allocations from the cache
	wantOfPyTorch = 0.5  // allocation from the cache in PyTorch's
	wantAllocs    = 1.05 // on Go's heap, by an operation: the result's handle; the rest is the collector's
)

// notKernels of benchmarks/bandwidth are the driver's, or bound by arithmetic.
var notKernels = []string{"memcpy", "memset", "random normal"}

// severalKernels is what names of operations end in that read their matrices more often than their formula counts.
const severalKernels = "forward and backward"

func (r *Results) bandwidthTargets() (list []target) {
	b := figures[bandwidth](r, "bandwidth")
	if b == nil {
		return nil
	}
	largest := uint64(0)
	for _, x := range b.Results {
		largest = max(largest, x.Size)
	}
	type missed struct {
		what string
		by   float64
	}
	all, short := 0, []missed(nil)
	for _, x := range b.Results {
		if x.Size != largest || slices.Contains(notKernels, x.Operation) || strings.HasSuffix(x.Operation, severalKernels) {
			continue
		}
		if all++; x.OfCopy < wantOfCopy {
			short = append(short, missed{fmt.Sprintf("%s %s %.2f", x.Operation, x.Type, x.OfCopy), x.OfCopy})
		}
	}
	if all == 0 {
		return nil
	}
	measured := fmt.Sprintf("%d of %d", all-len(short), all)
	slices.SortStableFunc(short, func(a, b missed) int { return cmp.Compare(a.by, b.by) })
	for i, s := range short[:min(len(short), mostMissed)] {
		measured += []string{", ", "; furthest from it: "}[max(0, 1-i)] + s.what
	}
	return []target{{"kernels bound by memory, of the driver's copy", fmt.Sprintf("at least %.2f each", wantOfCopy), measured, len(short) == 0}}
}

func (r *Results) gemmTargets() []target {
	g := figures[gemm](r, "gemm")
	if g == nil {
		return nil
	}
	own, library := g.find("product", "float16", "own", 4096), g.find("product", "float16", "cublas", 4096)
	if own == nil || library == nil {
		return nil
	}
	ratio := library.US / own.US
	return []target{{"own float16 product at 4096³, of cuBLAS", fmt.Sprintf("at least %.2f", wantOfCUBLAS),
		fmt.Sprintf("%.2f (%.0f of %.0f TFLOP/s)", ratio, own.TFLOPS, library.TFLOPS), ratio >= wantOfCUBLAS}}
}

// find is a product of a square size.
func (g *gemm) find(problem, dtype, subject string, size int) *product {
	for i, x := range g.Results {
		if x.Problem == problem && x.Type == dtype && x.Subject == subject && x.M == size && x.N == size && x.K == size {
			return &g.Results[i]
		}
	}
	return nil
}

func (r *Results) allocTargets() (list []target) {
	n := figures[naive](r, "naive")
	if n == nil {
		return nil
	}
	for _, x := range n.Results {
		if x.Allocator != "caching" || x.Workload == "training" || x.Ns == 0 {
			continue
		}
		if direct := n.find(x.Workload, "direct"); direct != nil && strings.HasPrefix(x.Workload, "single") {
			times := direct.Ns / x.Ns
			list = append(list, target{x.Workload + ": cudaMalloc+cudaFree, in pairs from the cache", fmt.Sprintf("at least %d", wantOfDriver),
				fmt.Sprintf("%.0f (%.0f ns, %.0f ns)", times, direct.Ns, x.Ns), times >= wantOfDriver})
		}
		if peer := n.find(x.Workload, "pytorch"); peer != nil && peer.Ns > 0 {
			ratio := x.Ns / peer.Ns
			list = append(list, target{x.Workload + ": pair from the cache, of PyTorch's (loop in " + peer.Loop + ")",
				fmt.Sprintf("at most %.1f", wantOfPyTorch), fmt.Sprintf("%.2f (%.0f ns, %.0f ns)", ratio, x.Ns, peer.Ns), ratio <= wantOfPyTorch})
		}
	}
	return list
}

func (n *naive) find(workload, allocator string) *allocated {
	for i, x := range n.Results {
		if x.Workload == workload && x.Allocator == allocator {
			return &n.Results[i]
		}
	}
	return nil
}

func (r *Results) launchTargets() []target {
	l := figures[launch](r, "launch")
	if l == nil || len(l.Results) == 0 {
		return nil
	}
	most, name := 0.0, ""
	for _, x := range l.Results {
		if x.Allocs > most {
			most, name = x.Allocs, x.Operation
		}
	}
	return []target{{"Go heap allocations of an operation", "1", fmt.Sprintf("at most %.2f (%s)", most, name), most <= wantAllocs}}
}
