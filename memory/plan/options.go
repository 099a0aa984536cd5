package plan

import "time"

// Option is a wish of who calls Place.
type Option func(*options)

type options struct {
	budget time.Duration
	effort int
	seed   uint64
	target float64
	kept   map[int]uint64
}

// Effort limits the work that Place does beyond its first placement, in units: a unit is a buffer placed by a heuristic, or a node of
// the exact search, and takes from one microsecond to some tens of them. Effort is counted, not timed, so that the same problem, seed and effort give the same
// placement on any machine. The default, also for less than 1, is 50,000 and 8 for each buffer. Effort(1) is the first placement only.
func Effort(units int) Option { return func(o *options) { o.effort = units } }

// Budget caps the time that Place takes beyond its first placement. The default, also for less than 1, is no cap. Where the cap and not
// the effort ends the search the result depends on the machine: Placement.Stopped is NoTime then.
func Budget(d time.Duration) Option { return func(o *options) { o.budget = d } }

// Seed chooses among the random choices of the improvements. The default is 0.
func Seed(seed uint64) Option { return func(o *options) { o.seed = seed } }

// Target lets Place stop at a placement of at most ratio times the bound. The default, also for less than 1 and for NaN, is 1.
func Target(ratio float64) Option { return func(o *options) { o.target = ratio } }

// Keep gives buffers, by their index, the offsets that they have already, in bytes: they stay there, and the others are placed around them. No arena is smaller
// then than the highest of their ends, and small tasks are not searched exactly. Offsets that are no placement of those buffers, or end above 2^63-1, or of
// buffers that do not exist, are an *Error.
func Keep(offsets map[int]uint64) Option { return func(o *options) { o.kept = offsets } }

func choose(opts []Option, buffers int) options {
	var o options
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	if o.effort < 1 {
		o.effort = 50_000 + 8*buffers
	}
	if !(o.target >= 1) { // NaN too
		o.target = 1
	}
	return o
}
