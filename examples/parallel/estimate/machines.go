package main

import "time"

// machine is a computer with GPUs, and the network between such.
type machine struct {
	name     string
	gpus     int     // of one
	products float64 // floating-point operations per second of dense bfloat16 products that the data sheet of the GPU names
	used     float64 // the part of it that a step without communication has
	memory   float64 // bytes per second that the GPU's memory moves, by the data sheet
	inside   float64 // bytes per second of a GPU in rings of one machine: the bus bandwidth of nccl-tests
	outside  float64 // the same in rings over several machines, all network cards in use
}

// The machines. Bandwidths are what people have measured with nccl-tests, whose PERFORMANCE.md defines the bus bandwidth: 370 GB/s on eight H100 with NVLink 4, 46 GB/s for each of eight cards of
// 400 Gb/s (NVIDIA/nccl-tests issues 212, 272 and 290), 240 GB/s on eight A100 (NVIDIA/nccl issue 1712) and 192 GB/s between DGX A100 of eight cards of 200 Gb/s (NVIDIA/nccl issue 812). used is
// set so that one of the measured steps of each GPU, that of 6.7 billion parameters, comes out right; the others are a test of the model.
var (
	h100 = machine{"H100", 8, 989e12, 0.468, 3.35e12, 370e9, 8 * 46e9}
	a100 = machine{"A100", 8, 312e12, 0.665, 1.555e12, 240e9, 192e9}
)

// protocol is a way of NCCL to send: its latencies in a ring, for a collective and for each step inside of a machine and between two, and the part of the bandwidth that it has (tuning.cc of NCCL
// 2.30). NCCL takes the one that it expects to be fastest, and so does the estimate.
type protocol struct {
	base, inside, outside time.Duration
	tree                  time.Duration // base of trees
	treeInside            time.Duration // and their steps
	treeOutside           time.Duration
	bandwidth             float64
}

var protocols = []protocol{
	{us(6.6), us(0.6), us(2.7), us(6.8), us(0.6), us(5), 0.5}, // LL
	{us(14), us(1.9), us(4), us(14), us(1.25), us(8.5), 0.92}, // LL128
	{us(8.4), us(3.4), us(14), us(8.4), us(3.4), us(14), 1},   // Simple
}

func us(x float64) time.Duration { return time.Duration(x * float64(time.Microsecond)) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// bandwidth is that of a GPU in rings over n GPUs.
func (m *machine) bandwidth(n int) float64 {
	if n <= m.gpus {
		return m.inside
	}
	return min(m.inside, m.outside)
}

// gather is what an all-gather or a reduce-scatter over n GPUs takes, where the whole has some bytes: n-1 steps of a ring, in each of which every GPU sends an n-th.
func (m *machine) gather(n int, bytes float64) time.Duration {
	return m.fastest(n, func(p *protocol, step time.Duration) time.Duration {
		return p.base + time.Duration(n-1)*step + seconds(bytes*float64(n-1)/float64(n)/(m.bandwidth(n)*p.bandwidth))
	})
}

// reduce is what an all-reduce takes: two such rounds of a ring, or a tree, up and down, where the steps are few.
func (m *machine) reduce(n int, bytes float64) time.Duration {
	return m.fastest(n, func(p *protocol, step time.Duration) time.Duration {
		rate := m.bandwidth(n) * p.bandwidth
		ring := p.base + 2*time.Duration(n-1)*step + seconds(2*bytes*float64(n-1)/float64(n)/rate)
		inside, levels := min(n, m.gpus)-1, 0
		for machines := (n + m.gpus - 1) / m.gpus; machines > 1; machines = (machines + 1) / 2 {
			levels++
		}
		tree := p.tree + 2*(time.Duration(inside)*p.treeInside+time.Duration(levels)*p.treeOutside) + seconds(2*bytes/rate)
		return min(ring, tree)
	})
}

// fastest is the least of all protocols. A ring goes on when its slowest step is done.
func (m *machine) fastest(n int, takes func(p *protocol, step time.Duration) time.Duration) time.Duration {
	if n == 1 {
		return 0
	}
	var best time.Duration
	for i := range protocols {
		p := &protocols[i]
		step := p.inside
		if n > m.gpus {
			step = p.outside
		}
		if t := takes(p, step); best == 0 || t < best {
			best = t
		}
	}
	return best
}
