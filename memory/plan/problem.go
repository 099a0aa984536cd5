package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Buffer is a piece of memory that a program needs for a known time.
type Buffer struct {
	Size     uint64 // bytes, already rounded to the alignment by the caller. With 0 it gets offset 0 and conflicts with nobody
	From, To int    // live in [From, To), counted in events of the program
}

// Problem is what is to be placed.
type Problem struct {
	Buffers []Buffer

	// Cycle is 0 if time is a line. Else the program repeats after Cycle events: times begin in [0, Cycle), no buffer lives longer than
	// Cycle, and one with To > Cycle is live in [From, Cycle) and, in the next round, in [0, To-Cycle).
	Cycle int
}

// maxTotal bounds the sum of all sizes, so that no sum of offsets and sizes overflows: a placement never needs more.
const maxTotal = math.MaxInt64

// Validate returns an *Error that names the first buffer whose times or size make no sense, and nil if there is none.
func (p Problem) Validate() error {
	if p.Cycle < 0 {
		return &Error{Kind: BadCycle, Buffer: -1, Other: -1, Cycle: p.Cycle}
	}
	var total uint64
	for i, b := range p.Buffers {
		kind := Kind("")
		switch {
		case b.To <= b.From:
			kind = BadTimes
		case p.Cycle == 0 && b.From < 0 && b.To > math.MaxInt+b.From:
			kind = BadTimes // To-From overflows
		case p.Cycle > 0 && (b.From < 0 || b.From >= p.Cycle || b.To-b.From > p.Cycle):
			kind = OutsideCycle
		case b.Size > maxTotal-total:
			kind = TooLarge
		}
		if kind != "" {
			return &Error{Kind: kind, Buffer: i, Other: -1, A: b, Cycle: p.Cycle}
		}
		total += b.Size
	}
	return nil
}

// Bound returns the most bytes that live at one time: no arena can be smaller. It takes O(n log n) time. For a problem that Validate
// refuses it is 0.
func (p Problem) Bound() uint64 {
	if p.Validate() != nil {
		return 0
	}
	type change struct {
		at   int
		born bool
		size uint64
	}
	var live, most uint64
	changes := make([]change, 0, 2*len(p.Buffers))
	for _, b := range p.Buffers {
		end := b.To
		if p.Cycle > 0 && end > p.Cycle {
			end -= p.Cycle
			live += b.Size // from the round before
		}
		changes = append(changes, change{b.From, true, b.Size}, change{end, false, b.Size})
	}
	slices.SortFunc(changes, func(a, b change) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.born == b.born:
			return 0
		case b.born:
			return -1 // half-open: ends come first
		}
		return 1
	})
	most = live
	for _, c := range changes {
		if !c.born {
			live -= c.size
			continue
		}
		live += c.size
		most = max(most, live)
	}
	return most
}

// Kind says what is wrong.
type Kind string

// The kinds of errors.
const (
	BadCycle     Kind = "the cycle is negative"
	BadTimes     Kind = "the buffer ends before it begins, or lives for longer than an int can count"
	OutsideCycle Kind = "the buffer does not begin in [0, cycle), or lives longer than the cycle"
	TooLarge     Kind = "the sizes up to this buffer sum to more than 2^63-1 bytes"
	WrongCount   Kind = "there is not one offset for each buffer"
	PastEnd      Kind = "the buffer ends above 2^64-1"
	KeptTooHigh  Kind = "the buffer is kept where it ends above 2^63-1"
	Overlap      Kind = "two buffers that live at the same time overlap"
)

// Error is a problem that cannot be placed, or offsets that are no placement of it.
type Error struct {
	Kind             Kind
	Buffer, Other    int    // indices into Problem.Buffers; -1 where there is none
	A, B             Buffer // these buffers
	OffsetA, OffsetB uint64 // bytes; with Overlap, PastEnd and KeptTooHigh
	Offsets, Buffers int    // with WrongCount: how many there are
	Cycle            int    // of the problem
}

func (e *Error) Error() string {
	switch e.Kind {
	case BadCycle:
		return fmt.Sprintf("plan: %s: %d", e.Kind, e.Cycle)
	case WrongCount:
		return fmt.Sprintf("plan: %s: %d offsets, %d buffers", e.Kind, e.Offsets, e.Buffers)
	case OutsideCycle:
		return fmt.Sprintf("plan: %s: %s, cycle %d", e.Kind, describe(e.Buffer, e.A), e.Cycle)
	case PastEnd, KeptTooHigh:
		return fmt.Sprintf("plan: %s: %s at offset %d", e.Kind, describe(e.Buffer, e.A), e.OffsetA)
	case Overlap:
		return fmt.Sprintf("plan: %s: %s at offset %d, and %s at offset %d", e.Kind,
			describe(e.Buffer, e.A), e.OffsetA, describe(e.Other, e.B), e.OffsetB)
	}
	return fmt.Sprintf("plan: %s: %s", e.Kind, describe(e.Buffer, e.A))
}

func describe(i int, b Buffer) string {
	return fmt.Sprintf("buffer %d of %d bytes, live in [%d, %d)", i, b.Size, b.From, b.To)
}
