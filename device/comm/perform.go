package comm

import (
	"github.com/cistern-ml/cistern/device/comm/internal/reduce"
	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// perform does one collective on memory of this process: calls are those of all ranks, which match.
func perform(calls []*Call) {
	switch n := len(calls); calls[0].Operation {
	case opBroadcast:
		root := calls[calls[0].Root]
		for _, c := range calls {
			move(c.Dst, root.Src)
		}
	case opAllReduce:
		combine(calls[0].Dst, calls, 0, 1)
		for _, c := range calls[1:] {
			move(c.Dst, calls[0].Dst)
		}
	case opReduceScatter:
		for rank, c := range calls {
			combine(c.Dst, calls, rank, n)
		}
	case opAllGather:
		for _, c := range calls {
			for rank, from := range calls {
				move(c.Dst.part(rank, n), from.Src)
			}
		}
	case opAllToAll:
		for to, c := range calls {
			for rank, from := range calls {
				move(c.Dst.part(rank, n), from.Src.part(to, n))
			}
		}
	}
}

// combine leaves in dst the i-th of n parts of all ranks' sources, combined. dst may be one of them.
func combine(dst Buffer, calls []*Call, i, n int) {
	srcs := make([][]byte, len(calls))
	for rank, c := range calls {
		srcs[rank] = bytes(c.Src.part(i, n))
	}
	reduce.Combine(bytes(dst), srcs, reduce.Kind(calls[0].Op), dst.Type)
}

// move copies, unless both are the same memory.
func move(dst, src Buffer) {
	if dst.Ptr != src.Ptr {
		copy(bytes(dst), bytes(src))
	}
}

// bytes is the buffer's memory, which is that of a host device.
func bytes(b Buffer) []byte {
	if b.Count == 0 {
		return nil
	}
	return osmem.Bytes(uintptr(b.Ptr), b.Bytes())
}
