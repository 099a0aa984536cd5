package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var vectorName = regexp.MustCompile(`^([XY])(\d+)$`)

// vectorOf is the number of a vector register, and whether all of it is meant.
func vectorOf(arg string) (n int, large, ok bool) {
	m := vectorName.FindStringSubmatch(arg)
	if m == nil {
		return 0, false, false
	}
	n, _ = strconv.Atoi(m[2])
	return n, m[1] == "Y", true
}

// allocate gives vector registers to those of amd64.
func (t *translation) allocate(spills int) {
	var used []int
	uses := map[int]int{}
	whole := map[int]bool{} // both halves are needed
	for _, s := range t.r.body {
		for _, arg := range s.args {
			if n, _, ok := vectorOf(arg); ok {
				if uses[n]++; uses[n] == 1 {
					used = append(used, n)
				}
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, s := range t.r.body {
			if len(s.args) == 0 || readsAll[s.op] {
				continue
			}
			n, large, ok := vectorOf(s.args[len(s.args)-1])
			if ok && large && !whole[n] && !sameHalves(s, whole) {
				whole[n], changed = true, true
			}
		}
	}
	t.spilled = map[int]int{}
	slices.SortStableFunc(used, func(a, b int) int { return uses[a] - uses[b] })
	for _, n := range used {
		if whole[n] && len(t.spilled) < spills {
			t.spilled[n] = 32 * (1 + len(t.spilled))
		}
	}
	slices.Sort(used)
	t.vectors = map[int][2]vreg{}
	at := vreg(0)
	for _, n := range used {
		if t.spilled[n] > 0 {
			continue
		}
		t.vectors[n] = [2]vreg{at, at}
		if whole[n] {
			t.vectors[n] = [2]vreg{at, at + 1}
			at++
		}
		at++
	}
	for r := at; r < neonRegisters; r++ {
		t.temps = append(t.temps, r)
	}
	if len(t.temps) < 2 {
		refuse("%d registers", at)
	}
}

// readsAll are instructions whose last operand is read.
var readsAll = map[string]bool{"VPTEST": true}

// sameHalves reports whether an instruction's result has the same halves.
func sameHalves(s statement, whole map[int]bool) bool {
	if strings.HasPrefix(s.op, "VBROADCAST") || strings.HasPrefix(s.op, "VPBROADCAST") {
		return true
	}
	if _, ok := lanewise[s.op]; !ok && !fusedOps.MatchString(s.op) {
		return false
	}
	args := s.args
	if isClear(s) {
		return true
	}
	for _, arg := range args {
		if strings.HasPrefix(arg, "$") {
			continue
		}
		n, _, ok := vectorOf(arg)
		if !ok || whole[n] {
			return false
		}
	}
	return true
}

// isClear reports whether an instruction sets a register to zeros, or to ones.
func isClear(s statement) bool {
	return (strings.Contains(s.op, "XOR") || strings.Contains(s.op, "CMPEQ")) && len(s.args) == 3 && s.args[0] == s.args[1]
}
