package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/benchmarks/internal/replay"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/trace"
)

// workload is what each thread does again and again, on a stream of its own.
type workload struct {
	name    string
	threads int
	ops     []replay.Op // allocations and frees; all is free again at the end
	slots   int
	pairs   int
	holes   []uint64 // sizes of the blocks that lie cached, each a hole between two blocks in use, before it begins
}

// allWorkloads makes the workloads: each alone, one with so many holes, and all but that on two threads. Without a folder of
// traces there are those that need none.
func allWorkloads(dir string, holes int) ([]workload, error) {
	single := []workload{fixed(4096)}
	if dir != "" {
		for _, name := range []string{"bench_mix64", "gpt_fixed"} {
			w, err := recorded(filepath.Join(dir, name+".trace.gz"))
			if err != nil {
				return nil, err
			}
			single = append(single, w)
		}
	}
	all := append([]workload(nil), single...)
	all = append(all, manyHoles(holes))
	for _, w := range single {
		w.threads = 2
		all = append(all, w)
	}
	return all, nil
}

// fixed allocates and frees one size.
func fixed(bytes uint64) workload {
	const n = 128
	return workload{name: "fixed " + device.FormatBytes(bytes), threads: 1, slots: 1, pairs: n,
		ops: pairs(n, func(int) uint64 { return bytes })}
}

// pairs are n allocations, each followed by its free.
func pairs(n int, size func(i int) uint64) []replay.Op {
	ops := make([]replay.Op, 0, 2*n)
	for i := range n {
		ops = append(ops, replay.Op{Kind: trace.Alloc, Bytes: size(i)}, replay.Op{Kind: trace.Free})
	}
	return ops
}

// manyHoles allocates sizes at random among n cached holes of n different sizes, from about 1 to 33 MB: a search through
// the holes would show.
func manyHoles(n int) workload {
	const unit, smallest = 512, 2050 // units: just above what the small pool takes
	w := workload{name: fmt.Sprintf("%d holes", n), threads: 1, slots: 1, pairs: n}
	for i := range n {
		w.holes = append(w.holes, uint64(i+smallest)*unit)
	}
	x := uint64(1)
	w.ops = pairs(n, func(int) uint64 {
		x = x*6364136223846793005 + 1442695040888963407 // Knuth's MMIX generator; its high bits are the good ones
		return (x>>40%uint64(n) + smallest) * unit
	})
	return w
}

// recorded replays a trace in a loop. It must consist of allocations and frees on one stream.
func recorded(file string) (workload, error) {
	t, err := trace.Open(file)
	if err != nil {
		return workload{}, err
	}
	p, err := replay.Compile(t)
	if err != nil {
		return workload{}, err
	}
	p.Ops = slices.DeleteFunc(p.Ops, func(op replay.Op) bool { return op.Kind == trace.Mark })
	for _, op := range p.Ops {
		if op.Kind != trace.Alloc && op.Kind != trace.Free || op.Stream != 0 {
			return workload{}, fmt.Errorf("trace %s has more than allocations and frees on one stream", file)
		}
	}
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	return workload{name: name, threads: 1, ops: p.Ops, slots: p.Slots, pairs: p.Pairs}, nil
}
