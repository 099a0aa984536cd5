// Package extent keeps the pieces of an address space that are in use: what a device consults to tell a good address from a
// bad one. Both the host device and the simulated device use it, each under its own lock.
package extent

import (
	"cmp"
	"slices"
)

// Extent is a piece of memory. Neighbouring pieces with the same Owner are one range for an access that spans them: the
// pages mapped into one reserved range. Allocations own themselves, so that running from one into the next is an error even
// where they touch.
type Extent struct {
	Addr  uint64
	Size  uint64
	Owner uint64 // the address of the range it belongs to; its own address for an allocation
	Tag   int    // the user's
}

// End is the first address behind the extent.
func (e Extent) End() uint64 { return e.Addr + e.Size }

// Set holds extents that do not overlap, in the order of their addresses. The zero Set is empty and ready to use.
type Set struct {
	list  []Extent
	bytes uint64
}

// Len is the number of extents.
func (s *Set) Len() int { return len(s.list) }

// Bytes is the sum of their sizes.
func (s *Set) Bytes() uint64 { return s.bytes }

// All returns the extents in the order of their addresses. The slice is the set's own, valid until the next change.
func (s *Set) All() []Extent { return s.list }

// search returns the index of the first extent at or behind addr, and whether it starts there.
func (s *Set) search(addr uint64) (int, bool) {
	return slices.BinarySearchFunc(s.list, addr, func(e Extent, addr uint64) int { return cmp.Compare(e.Addr, addr) })
}

// Insert adds e, which must not overlap another extent. It is cheap where addresses rise.
func (s *Set) Insert(e Extent) {
	i, _ := s.search(e.Addr)
	s.list = slices.Insert(s.list, i, e)
	s.bytes += e.Size
}

// Remove takes out the extent that starts at addr.
func (s *Set) Remove(addr uint64) (Extent, bool) {
	i, found := s.search(addr)
	if !found {
		return Extent{}, false
	}
	e := s.list[i]
	s.list = slices.Delete(s.list, i, i+1)
	s.bytes -= e.Size
	return e, true
}

// Get returns the extent that starts at addr.
func (s *Set) Get(addr uint64) (Extent, bool) {
	i, found := s.search(addr)
	if !found {
		return Extent{}, false
	}
	return s.list[i], true
}

// Find returns the extent in which addr lies.
func (s *Set) Find(addr uint64) (Extent, bool) {
	i, found := s.search(addr)
	if !found {
		i--
	}
	if i < 0 || addr >= s.list[i].End() {
		return Extent{}, false
	}
	return s.list[i], true
}

// Overlaps reports whether any extent has an address in [addr, addr+n).
func (s *Set) Overlaps(addr, n uint64) bool {
	if n == 0 {
		return false
	}
	if _, found := s.Find(addr); found {
		return true
	}
	i, _ := s.search(addr)
	return i < len(s.list) && s.list[i].Addr-addr < n
}

// Covers reports whether all of [addr, addr+n) lies in one extent, or in extents of one owner without a gap. Zero bytes are
// always covered.
func (s *Set) Covers(addr, n uint64) bool {
	if n == 0 {
		return true
	}
	i, found := s.search(addr)
	if !found {
		i--
	}
	if i < 0 || addr >= s.list[i].End() {
		return false
	}
	owner := s.list[i].Owner
	for n > s.list[i].End()-addr {
		n -= s.list[i].End() - addr
		addr = s.list[i].End()
		if i++; i == len(s.list) || s.list[i].Addr != addr || s.list[i].Owner != owner {
			return false
		}
	}
	return true
}

// Within returns the extents that [addr, addr+n) consists of, if it consists of whole extents of one owner without a gap,
// and nil otherwise. The slice is the set's own, valid until the next change.
func (s *Set) Within(addr, n uint64) []Extent {
	first, found := s.search(addr)
	if !found || n == 0 || !s.Covers(addr, n) {
		return nil
	}
	last, _ := s.search(addr + n - 1)
	if last < len(s.list) && s.list[last].Addr == addr+n-1 {
		last++ // an extent of one byte
	}
	if s.list[last-1].End() != addr+n {
		return nil
	}
	return s.list[first:last]
}

// RemoveWithin takes out what Within returned for the same arguments.
func (s *Set) RemoveWithin(addr, n uint64) {
	count := len(s.Within(addr, n))
	if count == 0 {
		return
	}
	first, _ := s.search(addr)
	s.list = slices.Delete(s.list, first, first+count)
	s.bytes -= n
}
