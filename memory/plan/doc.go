// Package plan places buffers with known lifetimes and sizes in one arena: each gets a fixed offset, buffers that live at the same time
// do not overlap, and the arena is as small as can be found. This is offline dynamic storage allocation, what an allocator could do that
// knew the whole program beforehand; training steps repeat, so theirs is known after the first.
//
// No arena is smaller than the most bytes that live at once, the bound. To reach it, or to know that it cannot be reached, is NP-hard.
// But recorded training steps come within some thousandths of it with the simplest method there is, and no single method is good at all
// programs. So Place tries several, and stops as soon as the bound is reached:
//
//	times                         a task                    placements, each kept if it is smaller
//	|  compress to sections       |  largest first, best and first fit; by size x life; by life
//	|  rotate the cycle           |  sweeps in the order of time; the largest first, the rest swept around them
//	|  cut where nothing crosses  |  then, in rounds that double: exact search (small tasks), changes of the order
//
//	timeline.go   sections, which are all that matters of time; tasks, which share no time
//	occupancy.go  what is taken when: a segment tree over time of unions of address ranges
//	greedy.go     placing in an order, on an occupancy
//	sweep.go      placing in the order of time, on a free list (holes.go, treap.go)
//	portfolio.go  the list of methods
//	keep.go       buffers that have their places already
//	climb.go      what is at the top goes before what is in its way
//	exact.go      the search of small tasks, with its bounds
//	place.go      who works on what, for how long (effort.go)
//	check.go      tells placements from others, and shares nothing with the rest but treap.go
//
// # Time that repeats
//
// A program that does the same again and again has buffers that live from one round into the next. They have one offset, and meet what
// lives at the end of their round and at the beginning of the next. Problem.Cycle says so, and all methods respect it: sections form a
// ring, and sweeps place what crosses the ring's beginning before all else.
//
// # Cost
//
// Time is O(n log n) for sweeps; for an order of all buffers it grows with the number of gaps between what lives at the same time. On
// one core 1,000 buffers take about a millisecond for each method, 20,000 some 10 to 200 ms, a million 1 to 5 s. Memory is linear in the
// buffers and in the unions of placed ones; only the exact search keeps pairs. The rest is what Effort allows.
package plan
