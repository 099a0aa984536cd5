package mpi

import (
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/internal/reduce"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// patience begins a wait.
func (e *engine) patience() *patience {
	return &patience{since: time.Now(), limit: e.options.TimeLimit}
}

// perform does one collective on memory of this process, in the engine's goroutine.
func (e *engine) perform(c comm.Call) *comm.Fault {
	p := e.patience()
	if e.options.Check {
		if f := e.compare(c, p); f != nil {
			return f
		}
	}
	switch c.Operation {
	case "Broadcast":
		return e.broadcast(c, p)
	case "AllReduce":
		return e.allReduce(c, p)
	case "ReduceScatter":
		return e.reduceScatter(c, p)
	case "AllGather":
		return e.allGather(c, p)
	case "AllToAll":
		return e.allToAll(c, p)
	}
	return e.begin(e.lib.Barrier(e.data, e.request), p)
}

// barrier is perform for the end of the group. It is not among the collectives, where MPI may take it for a part of one that other ranks
// are in.
func (e *engine) barrier() *comm.Fault {
	return e.begin(e.lib.Barrier(e.talk.comm, e.request), e.patience())
}

// begin waits for a request that was begun, if it was.
func (e *engine) begin(err error, p *patience) *comm.Fault {
	if err != nil {
		return libraryFault(err)
	}
	return e.wait(p)
}

// compare lets all ranks see all ranks' calls.
func (e *engine) compare(c comm.Call, p *patience) *comm.Fault {
	const width = 96
	all, err := e.scratch.recv(uint64(width * e.size))
	if err != nil {
		return e.noMemory(err)
	}
	mine := all[width*e.rank:][:width]
	clear(mine)
	copy(mine, c.String())
	if f := e.begin(e.lib.Allgather(e.lib.InPlace, osmem.Address(all), width, e.data, e.request), p); f != nil {
		return f
	}
	texts := make(map[int]string)
	for rank := range e.size {
		texts[rank] = cString(all[width*rank:][:width])
	}
	return disagreement(texts)
}

// disagreement is the fault of the first rank that calls something else than most do.
func disagreement(texts map[int]string) *comm.Fault {
	votes := make(map[string]int)
	for _, text := range texts {
		votes[text]++
	}
	most := -1
	for rank, text := range texts { // of equally many, those of the lowest rank
		if most < 0 || votes[text] > votes[texts[most]] || votes[text] == votes[texts[most]] && rank < most {
			most = rank
		}
	}
	odd := -1
	for rank, text := range texts {
		if text != texts[most] && (odd < 0 || rank < odd) {
			odd = rank
		}
	}
	if odd < 0 {
		return nil
	}
	return comm.Mismatch(most, texts[most], odd, texts[odd])
}

// noMemory is the fault of a rank that has no memory for what it must exchange.
func (e *engine) noMemory(err error) *comm.Fault {
	return &comm.Fault{Peer: e.rank, Err: comm.AbortCause(device.ErrOutOfMemory), Detail: err.Error()}
}

// messageBytes is how much one MPI call moves at most: MPI counts in int32, and what a call needs besides stays small. Tests make it less.
var messageBytes = 1 << 30

// pieces calls f for pieces of count elements, at most piece at a time.
func pieces(count, piece int, f func(at, n int) *comm.Fault) *comm.Fault {
	for at := 0; at < count; at += piece {
		if fault := f(at, min(piece, count-at)); fault != nil {
			return fault
		}
	}
	return nil
}

func (e *engine) broadcast(c comm.Call, p *patience) *comm.Fault {
	return pieces(int(c.Dst.Bytes()), messageBytes, func(at, n int) *comm.Fault {
		return e.begin(e.lib.Bcast(uintptr(c.Dst.Ptr)+uintptr(at), n, c.Root, e.data, e.request), p)
	})
}

// native reports whether MPI can do a reduction as package comm says it.
func native(c comm.Call) bool {
	switch c.Src.Type {
	case dtype.Float32, dtype.Float64:
		return c.Op == comm.Sum || c.Op == comm.Mean
	}
	return c.Src.Type == dtype.Int64
}

// datatype and op are MPI's handles of a native reduction.
func (e *engine) datatype(t dtype.DType) uintptr {
	switch t {
	case dtype.Float32:
		return e.lib.Float32
	case dtype.Float64:
		return e.lib.Float64
	}
	return e.lib.Int64
}

func (e *engine) op(o comm.Op) uintptr {
	switch o {
	case comm.Max:
		return e.lib.Max
	case comm.Min:
		return e.lib.Min
	}
	return e.lib.Sum
}

func (e *engine) allReduce(c comm.Call, p *patience) *comm.Fault {
	if !native(c) {
		return e.allReduceHere(c, p)
	}
	width := c.Src.Type.Size()
	return pieces(c.Src.Count, messageBytes/width, func(at, n int) *comm.Fault {
		dst, src := uintptr(c.Dst.Ptr)+uintptr(at*width), uintptr(c.Src.Ptr)+uintptr(at*width)
		if dst == src {
			src = e.lib.InPlace
		}
		f := e.begin(e.lib.Allreduce(src, dst, n, e.datatype(c.Src.Type), e.op(c.Op), e.data, e.request), p)
		if f == nil && c.Op == comm.Mean {
			reduce.Divide(osmem.Bytes(dst, uint64(n*width)), e.size, c.Src.Type)
		}
		return f
	})
}

// gatherBytes is up to which size all ranks' vectors are gathered and each rank combines them: one exchange is faster than two of less.
const gatherBytes = 16 << 10

// allReduceHere combines on this rank. See the package comment.
func (e *engine) allReduceHere(c comm.Call, p *patience) *comm.Fault {
	width := c.Src.Type.Size()
	if c.Src.Count*width*e.size <= gatherBytes {
		return e.gatherAndReduce(c, p)
	}
	piece := max(1, scratchBytes/(width*e.size)) * e.size
	return pieces(c.Src.Count, piece, func(at, n int) *comm.Fault {
		part := (n + e.size - 1) / e.size * width // the last one is filled up with zeros, which nobody reads
		send, recv, err := e.scratch.both(uint64(part * e.size))
		if err != nil {
			return e.noMemory(err)
		}
		src := view(c.Src, at, n)
		clear(send[copy(send, src):])
		if f := e.begin(e.lib.Alltoall(osmem.Address(send), osmem.Address(recv), part, e.data, e.request), p); f != nil {
			return f
		}
		reduce.Combine(send[:part], split(recv, e.size), reduce.Kind(c.Op), c.Src.Type)
		if f := e.begin(e.lib.Allgather(osmem.Address(send), osmem.Address(recv), part, e.data, e.request), p); f != nil {
			return f
		}
		copy(view(c.Dst, at, n), recv)
		return nil
	})
}

// gatherAndReduce is allReduceHere for small vectors.
func (e *engine) gatherAndReduce(c comm.Call, p *patience) *comm.Fault {
	bytes := int(c.Src.Bytes())
	if bytes == 0 {
		return nil
	}
	recv, err := e.scratch.recv(uint64(bytes * e.size))
	if err != nil {
		return e.noMemory(err)
	}
	if f := e.begin(e.lib.Allgather(uintptr(c.Src.Ptr), osmem.Address(recv), bytes, e.data, e.request), p); f != nil {
		return f
	}
	reduce.Combine(view(c.Dst, 0, c.Dst.Count), split(recv, e.size), reduce.Kind(c.Op), c.Src.Type)
	return nil
}

// reduceScatter needs a copy of src in place: MPI leaves its result at the front of the buffer then and destroys the rest, where package
// comm, like NCCL, leaves it at the rank's part.
func (e *engine) reduceScatter(c comm.Call, p *patience) *comm.Fault {
	width := c.Src.Type.Size()
	if native(c) && !c.InPlace(e.rank, e.size) && int(c.Src.Bytes()) <= messageBytes && c.Src.Count > 0 {
		f := e.begin(e.lib.ReduceScatterBlock(uintptr(c.Src.Ptr), uintptr(c.Dst.Ptr), c.Dst.Count, e.datatype(c.Src.Type), e.op(c.Op), e.data, e.request), p)
		e.mean(c, 0, c.Dst.Count, f)
		return f
	}
	return pieces(c.Dst.Count, max(1, scratchBytes/(width*e.size)), func(at, n int) *comm.Fault {
		send, recv, err := e.scratch.both(uint64(n * width * e.size))
		if err != nil {
			return e.noMemory(err)
		}
		e.pack(send, c.Src, at, n)
		// From here on this piece of dst may be written, also where it is src.
		if native(c) {
			dst := uintptr(c.Dst.Ptr) + uintptr(at*width)
			f := e.begin(e.lib.ReduceScatterBlock(osmem.Address(send), dst, n, e.datatype(c.Src.Type), e.op(c.Op), e.data, e.request), p)
			e.mean(c, at, n, f)
			return f
		}
		if f := e.begin(e.lib.Alltoall(osmem.Address(send), osmem.Address(recv), n*width, e.data, e.request), p); f != nil {
			return f
		}
		reduce.Combine(view(c.Dst, at, n), split(recv, e.size), reduce.Kind(c.Op), c.Src.Type)
		return nil
	})
}

// mean divides a piece of dst, if MPI has made a sum and should have made a mean.
func (e *engine) mean(c comm.Call, at, n int, f *comm.Fault) {
	if f == nil && c.Op == comm.Mean {
		reduce.Divide(view(c.Dst, at, n), e.size, c.Dst.Type)
	}
}

func (e *engine) allGather(c comm.Call, p *patience) *comm.Fault {
	bytes := int(c.Src.Bytes())
	if int(c.Dst.Bytes()) <= messageBytes {
		src := uintptr(c.Src.Ptr)
		if c.InPlace(e.rank, e.size) {
			src = e.lib.InPlace
		}
		return e.begin(e.lib.Allgather(src, uintptr(c.Dst.Ptr), bytes, e.data, e.request), p)
	}
	width := c.Src.Type.Size()
	return pieces(c.Src.Count, max(1, scratchBytes/(width*e.size)), func(at, n int) *comm.Fault {
		recv, err := e.scratch.recv(uint64(n * width * e.size))
		if err != nil {
			return e.noMemory(err)
		}
		if f := e.begin(e.lib.Allgather(uintptr(c.Src.Ptr)+uintptr(at*width), osmem.Address(recv), n*width, e.data, e.request), p); f != nil {
			return f
		}
		e.unpack(c.Dst, at, n, recv)
		return nil
	})
}

func (e *engine) allToAll(c comm.Call, p *patience) *comm.Fault {
	if int(c.Dst.Bytes()) <= messageBytes {
		return e.begin(e.lib.Alltoall(uintptr(c.Src.Ptr), uintptr(c.Dst.Ptr), int(c.Src.Bytes())/e.size, e.data, e.request), p)
	}
	width := c.Src.Type.Size()
	return pieces(c.Src.Count/e.size, max(1, scratchBytes/(width*e.size)), func(at, n int) *comm.Fault {
		send, recv, err := e.scratch.both(uint64(n * width * e.size))
		if err != nil {
			return e.noMemory(err)
		}
		e.pack(send, c.Src, at, n)
		if f := e.begin(e.lib.Alltoall(osmem.Address(send), osmem.Address(recv), n*width, e.data, e.request), p); f != nil {
			return f
		}
		e.unpack(c.Dst, at, n, recv)
		return nil
	})
}

// pack copies n elements from at on of each of the ranks' parts of a buffer, one after the other.
func (e *engine) pack(to []byte, from comm.Buffer, at, n int) {
	part := from.Count / e.size
	for rank, piece := range split(to, e.size) {
		copy(piece, view(from, rank*part+at, n))
	}
}

// unpack is the reverse.
func (e *engine) unpack(to comm.Buffer, at, n int, from []byte) {
	part := to.Count / e.size
	for rank, piece := range split(from, e.size) {
		copy(view(to, rank*part+at, n), piece)
	}
}

// view is n elements of a buffer from at on, as bytes.
func view(b comm.Buffer, at, n int) []byte {
	if n == 0 {
		return nil
	}
	width := b.Type.Size()
	return osmem.Bytes(uintptr(b.Ptr)+uintptr(at*width), uint64(n*width))
}

// split is b in n equal parts.
func split(b []byte, n int) [][]byte {
	parts := make([][]byte, n)
	for i := range parts {
		parts[i] = b[i*len(b)/n : (i+1)*len(b)/n]
	}
	return parts
}
