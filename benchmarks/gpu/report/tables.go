package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/cistern-ml/cistern/device"
)

// tables prints everything that was measured, program by program.
func (r *Results) tables(w io.Writer) {
	for _, table := range []func(io.Writer){r.smokeTable, r.trainPeersTable, r.attentionTable, r.convTable, r.bandwidthTable, r.gemmTable, r.allocTable,
		r.trainingTable, r.launchTable, r.loadTable, r.profileTable} {
		table(w)
	}
}

// number is a figure, or a dash for none.
func number(format string, v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

func (r *Results) bandwidthTable(w io.Writer) {
	b := figures[bandwidth](r, "bandwidth")
	if b == nil {
		return
	}
	fmt.Fprintf(w, "### bandwidth: kernels that compute little\n\nTimes in PyTorch's: below 1 Cistern is faster. PyTorch: %s\n\n", b.PyTorch)
	if len(b.Failed) > 0 {
		fmt.Fprintf(w, "**Failed**: %s\n\n", strings.Join(b.Failed, "; "))
	}
	fmt.Fprint(w, "| size | type | operation | µs | GB/s | of memcpy | PyTorch GB/s | time / PyTorch's | compiled µs | time / compiled |\n"+
		"|---|---|---|---|---|---|---|---|---|---|\n")
	for _, x := range b.Results {
		fmt.Fprintf(w, "| %s | %s | %s | %.1f | %.0f | %.2f | %s | %s | %s | %s |\n", device.FormatBytes(x.Size), x.Type, x.Operation, x.US, x.GBs,
			x.OfCopy, number("%.0f", x.PyTorchGBs), number("%.2f", x.OfPyTorch), number("%.1f", x.Compiled.US), number("%.2f", x.OfCompiled))
	}
	fmt.Fprintln(w)
}

// smokeTable prints what the device did of what the library asks of it.
func (r *Results) smokeTable(w io.Writer) {
	f := figures[smoke](r, "smoke")
	if f == nil {
		return
	}
	fmt.Fprint(w, "### smoke: does it work at all?\n\n| check | result | ms | |\n|---|---|---|---|\n")
	for _, c := range f.Checks {
		fmt.Fprintf(w, "| %s | %s | %.1f | %s |\n", c.Name, c.Result, c.Ms, strings.ReplaceAll(c.Says, "|", "/"))
	}
	fmt.Fprintln(w)
}

// subjects of products, in their columns.
var subjects = []string{"own", "cublas", "cublas tf32", "pytorch", "pytorch tf32", "host"}

func (r *Results) gemmTable(w io.Writer) {
	g := figures[gemm](r, "gemm")
	if g == nil {
		return
	}
	fmt.Fprintf(w, "### gemm: matrix products\n\nLibrary: %s. PyTorch: %s. TFLOP/s, more is better; GB/s for one row.\n\n", g.Library, g.PyTorch)
	fmt.Fprint(w, "| type | problem | m, n, k | own | cuBLAS | cuBLAS TF32 | PyTorch | PyTorch TF32 | host | own / cuBLAS |\n|---|---|---|---|---|---|---|---|---|---|\n")
	done := map[product]bool{}
	for _, x := range g.Results {
		key := product{Problem: x.Problem, Type: x.Type, M: x.M, N: x.N, K: x.K}
		if done[key] {
			continue
		}
		done[key] = true
		fmt.Fprintf(w, "| %s | %s | %d, %d, %d |", x.Type, x.Problem, x.M, x.N, x.K)
		speeds := g.speeds(key)
		for _, subject := range subjects {
			fmt.Fprintf(w, " %s |", number("%.1f", speeds[subject]))
		}
		ratio := 0.0
		if speeds["cublas"] > 0 {
			ratio = speeds["own"] / speeds["cublas"]
		}
		fmt.Fprintf(w, " %s |\n", number("%.2f", ratio))
	}
	fmt.Fprintln(w)
}

// speeds are those of each subject for a problem.
func (g *gemm) speeds(of product) map[string]float64 {
	speeds := map[string]float64{}
	for _, x := range g.Results {
		if x.Problem != of.Problem || x.Type != of.Type || x.M != of.M || x.N != of.N || x.K != of.K {
			continue
		}
		speeds[x.Subject] = x.TFLOPS
		if x.M == 1 {
			speeds[x.Subject] = x.GBs
		}
	}
	return speeds
}

func (r *Results) allocTable(w io.Writer) {
	n := figures[naive](r, "naive")
	if n == nil {
		return
	}
	fmt.Fprintf(w, "### naive: what does a cache save?\n\nTraining is by the step, recorded programs by a pair of allocation and free. \"Without memory\" counts requests that failed: such a row did less. PyTorch: %s\n\n", n.PyTorch)
	fmt.Fprint(w, "| workload | allocator | ns per pair, or step | direct / this | peak reserved | without memory |\n|---|---|---|---|---|---|\n")
	for _, x := range n.Results {
		times := 0.0
		if direct := n.find(x.Workload, "direct"); direct != nil && x.Ns > 0 {
			times = direct.Ns / x.Ns
		}
		fmt.Fprintf(w, "| %s | %s | %.0f | %s | %s | %d |\n", x.Workload, x.Allocator, x.Ns, number("%.1f", times), device.FormatBytes(uint64(x.Peak)), x.OOMs)
	}
	fmt.Fprintln(w)
}

func (r *Results) launchTable(w io.Writer) {
	l := figures[launch](r, "launch")
	if l == nil {
		return
	}
	fmt.Fprintf(w, "### launch: operations on tiny tensors, ns\n\nA call that nobody waits for; a call of many in a row, with the one wait at the end shared among them; a call with its wait. PyTorch: %s\n\n", l.PyTorch)
	fmt.Fprint(w, "| operation | call | on the stream | with the wait | Go allocations | PyTorch: call | on the stream | with the wait |\n|---|---|---|---|---|---|---|---|\n")
	for _, x := range l.Results {
		peer := callTimes{}
		if x.PyTorch != nil {
			peer = *x.PyTorch
		}
		fmt.Fprintf(w, "| %s | %.0f | %.0f | %.0f | %.2f | %s | %s | %s |\n", x.Operation, x.Call.Ns, x.Stream.Ns, x.Wait.Ns, x.Allocs,
			number("%.0f", peer.Call.Ns), number("%.0f", peer.Stream.Ns), number("%.0f", peer.Wait.Ns))
	}
	fmt.Fprintln(w)
}

func (r *Results) loadTable(w io.Writer) {
	l := figures[load](r, "load")
	if l == nil {
		return
	}
	state := "was empty at first"
	if !l.Cold {
		state = "was NOT empty at first"
	}
	fmt.Fprintf(w, "### load: kernels one by one, ms\n\nA program loads those that it uses. The driver's cache %s; %d processes at a time: %.0f ms for all at first, %.0f ms then; in one process, "+
		"from the cache, %.0f ms. The device starts in %.0f ms.\n\n", state, l.Parallel, l.FirstAll, l.SecondAll, l.OneProcess, l.Start)
	fmt.Fprint(w, "| module | PTX KB | kernels | of them loaded | first load of all | of the longest | next process, all | most registers | most local bytes | kernels with local memory |\n"+
		"|---|---|---|---|---|---|---|---|---|---|\n")
	for _, m := range l.Modules {
		registers, local, spilling := 0, 0, 0
		for _, k := range m.Kernels {
			registers, local = max(registers, k.Registers), max(local, k.Local)
			if k.Local > 0 {
				spilling++
			}
		}
		fmt.Fprintf(w, "| %s | %d | %d | %d | %.0f | %.0f | %.1f | %d | %d | %d |\n", m.Name, m.Bytes>>10, m.Count, len(m.Kernels), m.First, m.Longest,
			m.Second, registers, local, spilling)
	}
	fmt.Fprintln(w)
	l.spills(w)
	l.failed(w)
}

// spills lists the kernels with local memory.
func (l *load) spills(w io.Writer) {
	var names []string
	for _, m := range l.Modules {
		for _, k := range m.Kernels {
			if k.Local > 0 {
				names = append(names, fmt.Sprintf("`%s` (%d bytes, %d registers)", k.Name, k.Local, k.Registers))
			}
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(w, "With local memory: %s.\n\n", strings.Join(names, ", "))
	}
}

// failed lists what did not load, each on a line.
func (l *load) failed(w io.Writer) {
	if len(l.Failures) == 0 {
		return
	}
	fmt.Fprintf(w, "**%d failures:**\n\n", len(l.Failures))
	for _, f := range l.Failures {
		fmt.Fprintf(w, "- %s `%s`, process %s: %s\n", f.Module, f.Kernel, f.Process, strings.Join(strings.Fields(f.Error), " "))
	}
	fmt.Fprintln(w)
}
