// Package stepplan is what programs that train do for their flag -plan: the settings of the allocator, the plan, and what they tell of it.
package stepplan

import (
	"fmt"
	"os"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
)

// Flag and Usage are those of the flag.
const (
	Flag  = "plan"
	Usage = "give the blocks of training steps, which repeat, fixed places in memory, and tell how many went there; with " + Settings + " unless the environment has settings"
)

// Settings are those that a plan works best with: it leaves nothing unused within a step, and they between what lives for long. On devices without virtual memory
// they change nothing.
const Settings = "expandable_segments:True,expandable_segments_compaction:1.02"

// Begin makes a plan for an allocator, which has the Settings from now on if the environment says nothing of settings. It is called before the program allocates.
func Begin(a memory.Allocator) (*memory.Plan, error) {
	c, ok := a.(*memory.Caching)
	if !ok {
		return nil, fmt.Errorf("-plan: the allocator of %s is a %T, which makes no plans: CISTERN_NO_MEMORY_CACHING, PYTORCH_NO_CUDA_MEMORY_CACHING or the setting backend:cudaMallocAsync asks for it", a.Device(), a)
	}
	if !given() {
		config, err := memory.ParseConfig(Settings)
		if err != nil {
			return nil, err
		}
		if err := c.SetConfig(config); err != nil {
			return nil, err
		}
	}
	return c.NewPlan()
}

// given reports whether the environment has settings, which memory.EnvConfig reads.
func given() bool {
	for _, name := range []string{"CISTERN_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// Figures are what a program tells of its plan.
type Figures struct {
	Steps      int    `json:"steps"`
	Served     uint64 `json:"served"`     // requests that were given the place of the plan
	Deviations uint64 `json:"deviations"` // those that were not expected, or whose place was taken
	Unknown    uint64 `json:"unknown"`    // those of steps that had no placement
	Aside      int    `json:"aside"`      // steps for which the plan stood aside
	Arena      uint64 `json:"arena_bytes"`
	Bound      uint64 `json:"bound_bytes"` // what the steps have alive at once
}

// Of returns the figures of a plan so far; nil for no plan.
func Of(p *memory.Plan) *Figures {
	if p == nil {
		return nil
	}
	s := p.Stats()
	return &Figures{Steps: s.Steps, Served: s.Served, Deviations: s.Deviations(), Unknown: s.Unknown, Aside: s.Aside, Arena: s.Arena, Bound: s.Bound}
}

// String is a line for people.
func (f *Figures) String() string {
	aside := ""
	if f.Aside != 0 {
		aside = fmt.Sprintf(", stood aside for %d steps", f.Aside)
	}
	return fmt.Sprintf("%d requests served in %d steps, %d deviations, %d without a placement%s, arena %s, bound %s", f.Served, f.Steps, f.Deviations, f.Unknown, aside,
		device.FormatBytes(f.Arena), device.FormatBytes(f.Bound))
}
