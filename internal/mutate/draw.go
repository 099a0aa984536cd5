package main

import (
	"go/ast"
	"math/rand/v2"
)

// draw returns n mutants that compile, at most one of a line, from each package in proportion to its lines, in random order. Where there
// are fewer, all of them. It counts those that did not compile.
func draw(packages []*pkg, n int, random *rand.Rand) (drawn []*mutant, broken int) {
	lines := 0
	for _, p := range packages {
		lines += p.lines()
	}
	share, seen := 0, 0
	for _, p := range packages {
		seen += p.lines()
		next := n * seen / max(lines, 1) // of the running total: the shares add up to n
		some, bad := drawFrom(p, next-share, random)
		drawn, broken, share = append(drawn, some...), broken+bad, next
	}
	random.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	return drawn, broken
}

func drawFrom(p *pkg, n int, random *rand.Rand) (drawn []*mutant, broken int) {
	var all []*mutant
	for _, s := range p.sources {
		if !ast.IsGenerated(s.ast) {
			all = append(all, mutantsOf(s)...)
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	taken := map[string]bool{}
	for _, m := range all {
		switch {
		case len(drawn) == n:
			return drawn, broken
		case taken[m.place()]:
		case !m.compiles():
			broken++
		default:
			taken[m.place()] = true
			drawn = append(drawn, m)
		}
	}
	return drawn, broken
}
