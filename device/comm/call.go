package comm

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm/internal/reduce"
	"github.com/cistern-ml/cistern/internal/isnil"
)

// The operations of a Call, named like the methods.
const (
	opBroadcast     = "Broadcast"
	opAllReduce     = "AllReduce"
	opReduceScatter = "ReduceScatter"
	opAllGather     = "AllGather"
	opAllToAll      = "AllToAll"
	opBarrier       = "Barrier"
	opFollow        = "Follow"
)

// Call is one collective as a rank calls it. Backends pass it around; programs meet its text in errors.
type Call struct {
	Operation string // the method
	Dst, Src  Buffer // of Broadcast, both are its buffer
	Op        Op     // of reductions, else 0
	Root      int    // of Broadcast
}

// String is the call as errors show it: "AllReduce(sum, 8 float32)", and with a tag "AllReduce(sum, 8 float32, gradients of unit 3)". The count is that of what each rank gives.
func (c Call) String() string {
	tag := ""
	if c.Src.Tag != "" {
		tag = ", " + c.Src.Tag
	}
	switch c.Operation {
	case opBroadcast:
		return fmt.Sprintf("%s(%d %v, root %d%s)", c.Operation, c.Src.Count, c.Src.Type, c.Root, tag)
	case opAllReduce, opReduceScatter:
		return fmt.Sprintf("%s(%v, %d %v%s)", c.Operation, c.Op, c.Src.Count, c.Src.Type, tag)
	}
	if !c.Src.Type.Valid() {
		return c.Operation + "()" // Barrier has no buffers, nor have the ends of a group
	}
	return fmt.Sprintf("%s(%d %v%s)", c.Operation, c.Src.Count, c.Src.Type, tag)
}

// Matches reports whether two ranks make the same call. Where their buffers lie is their own affair.
func (c Call) Matches(o Call) bool {
	return c.Operation == o.Operation && c.Op == o.Op && c.Root == o.Root && c.Src.Count == o.Src.Count && c.Src.Type == o.Src.Type && c.Src.Tag == o.Src.Tag
}

// Sent is how many bytes a rank sends for the call when the group is a ring, the way of few bytes that libraries take for all but small
// sizes: of S bytes that each rank gives, 2S(n-1)/n for AllReduce, S(n-1)/n for ReduceScatter and AllToAll, S(n-1) for AllGather, and S for
// Broadcast except that the last of the ring, the one before root, sends nothing. Fractions are rounded up.
func (c Call) Sent(rank, size int) int64 {
	if size <= 1 {
		return 0
	}
	s, n := int64(c.Src.Bytes()), int64(size)
	switch c.Operation {
	case opAllReduce:
		return share(2*(n-1), n, s)
	case opReduceScatter, opAllToAll:
		return share(n-1, n, s)
	case opAllGather:
		return s * (n - 1)
	case opBroadcast:
		if (rank+1)%size != c.Root {
			return s
		}
	}
	return 0
}

// share is s·a/n, rounded up, without a product of s that could overflow.
func share(a, n, s int64) int64 { return s/n*a + (s%n*a+n-1)/n }

// check returns what of a call's arguments is wrong, for a rank of a group of size, or "".
func (c Call) check(rank, size int) string {
	for _, b := range []Buffer{c.Dst, c.Src} {
		if why := b.check(); why != "" {
			return why
		}
	}
	if c.Dst.Type != c.Src.Type {
		return fmt.Sprintf("dst is of %v, src of %v", c.Dst.Type, c.Src.Type)
	}
	switch c.Operation {
	case opBroadcast:
		if c.Root < 0 || c.Root >= size {
			return fmt.Sprintf("root %d of %d ranks", c.Root, size)
		}
		return ""
	case opAllReduce, opReduceScatter:
		if !c.Op.Valid() {
			return fmt.Sprintf("unknown %v", c.Op)
		}
		if !reduce.Can(c.Src.Type) {
			return fmt.Sprintf("%v cannot be combined, only floating types and int64", c.Src.Type)
		}
	}
	if why := c.checkCounts(size); why != "" {
		return why
	}
	return c.checkOverlap(rank, size)
}

// check returns what is wrong with the buffer alone, or "".
func (b Buffer) check() string {
	switch size := b.Type.Size(); {
	case !b.Type.Valid():
		return fmt.Sprintf("a buffer of type %v", b.Type)
	case b.Count < 0 || b.Count > math.MaxInt/size:
		return fmt.Sprintf("a buffer of %d %v", b.Count, b.Type)
	case b.Count == 0:
		return ""
	case b.Ptr == 0 || uint64(b.Ptr)+b.Bytes() < b.Bytes():
		return fmt.Sprintf("%d %v at address %#x", b.Count, b.Type, uintptr(b.Ptr))
	case uint64(b.Ptr)%uint64(size) != 0:
		return fmt.Sprintf("address %#x is not a multiple of %d bytes, the size of %v", uintptr(b.Ptr), size, b.Type)
	}
	return ""
}

// checkCounts returns how the counts of dst and src do not fit each other, or "".
func (c Call) checkCounts(size int) string {
	dst, src := c.Dst.Count, c.Src.Count
	wrong := func(rule string) string {
		return fmt.Sprintf("%d elements from %d on %d ranks: %s", dst, src, size, rule)
	}
	switch c.Operation {
	case opAllReduce:
		if dst != src {
			return wrong("dst has as many as src")
		}
	case opReduceScatter:
		if src%size != 0 || dst != src/size {
			return wrong("src has dst's times the ranks")
		}
	case opAllGather:
		if dst%size != 0 || src != dst/size {
			return wrong("dst has src's times the ranks")
		}
	case opAllToAll:
		if dst != src || src%size != 0 {
			return wrong("both have the same, a multiple of the ranks")
		}
	}
	return ""
}

// checkOverlap returns how dst and src lie wrongly, or "".
func (c Call) checkOverlap(rank, size int) string {
	if !c.Dst.overlaps(c.Src) || c.InPlace(rank, size) {
		return ""
	}
	return fmt.Sprintf("dst at %#x overlaps src at %#x", uintptr(c.Dst.Ptr), uintptr(c.Src.Ptr))
}

// InPlace reports whether dst and src are the same memory in the way that the operation allows.
func (c Call) InPlace(rank, size int) bool {
	switch c.Operation {
	case opBroadcast:
		return true
	case opAllReduce:
		return c.Dst.Ptr == c.Src.Ptr
	case opReduceScatter:
		return c.Dst.Ptr == c.Src.part(rank, size).Ptr
	case opAllGather:
		return c.Src.Ptr == c.Dst.part(rank, size).Ptr
	}
	return false
}

// checkStream returns what is wrong with the stream of a collective of a Comm on dev, or "".
func checkStream(s device.Stream, dev device.Device) string {
	if why := isnil.Why("stream", s); why != "" {
		return why
	}
	on := s.Device()
	if isnil.Value(on) || on.ID() != dev.ID() {
		return fmt.Sprintf("the stream is not of %v", dev.ID())
	}
	return ""
}
