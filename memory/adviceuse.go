package memory

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/internal/fpstack"
	"github.com/cistern-ml/cistern/internal/plural"
	"github.com/cistern-ml/cistern/internal/userframe"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// This file says what a program needs its memory for.

// adviceOnUse is for a program that needs the memory: it says who holds it. Caller holds a.mu and no shard.
func (a *Caching) adviceOnUse() string {
	return joined("smaller batches, half precision, checkpointed activations, and graphs that are released earlier take less.", a.adviceOnWhole(), a.adviceOnHolders(3))
}

// adviceOnHolders names the lines that hold the most, "" if none are known. Caller holds a.mu and no shard.
func (a *Caching) adviceOnHolders(n int) string {
	var most []string
	for _, h := range a.holders(n) {
		most = append(most, fmt.Sprintf("%s (%s in %s)", h.site, text.Bytes(h.bytes), plural.Of(h.blocks, "block")))
	}
	if len(most) == 0 {
		return ""
	}
	return "The most is held by " + strings.Join(most, ", ") + "."
}

// adviceOnWhole is for pools that hand out whole segments, where most of what is held is more than what was asked for. Caller holds a.mu and no shard.
func (a *Caching) adviceOnWhole() string {
	var held, asked uint64
	shards := a.lockShards()
	defer unlockShards(shards)
	for _, seg := range a.segments {
		if b := seg.head; seg.shard.noSplit() && !seg.shard.hasSource() && b.state == stateAllocated {
			held, asked = held+b.size, asked+b.requested
		}
	}
	if held < 2*asked || held == 0 {
		return ""
	}
	return fmt.Sprintf("Pools with PoolNoSplit hand out whole segments: theirs of %s are for %s that was asked for.", text.Bytes(held), text.Bytes(asked))
}

// adviceOnNothing is for a request that nothing serves which this package knows of. Caller holds a.mu and no shard.
func (a *Caching) adviceOnNothing(e *OOMError, r *request) (advice string) {
	switch {
	case r.shard.hasSource():
	case r.wanted == unlimited:
		advice = "No range of addresses is as long as that (expandable_segments_reserve)."
	case r.wanted > e.DeviceTotal && e.DeviceTotal > 0:
		advice = "The device has less than that in all."
	case e.LimitHit && e.DeviceFree < r.wanted:
		advice = "The limit is not alone in the way: the device has not as much free."
	}
	if e.Allocated == 0 {
		return advice
	}
	nothing := "Nothing that is cached would serve it: " + a.adviceOnUse()
	if a.history.Load() == nil {
		nothing += " With RecordHistory, before the first allocation, the error names the lines that hold the most, and a setting that would have served this request if one is found."
	}
	return joined(advice, nothing)
}

// holder is a line of the program, and what it allocated that is in use.
type holder struct {
	site   string
	bytes  uint64
	blocks int
}

// holders returns the lines that hold the most, as far as stacks are recorded. Caller holds a.mu and no shard.
func (a *Caching) holders(most int) []holder {
	stacks := a.stacks.Load()
	if stacks == nil {
		return nil
	}
	lines := map[string]*holder{}
	for stack, h := range a.holdersByStack() {
		h.site = siteOf(stacks, stack)
		if same := lines[h.site]; same != nil {
			h.bytes, h.blocks = h.bytes+same.bytes, h.blocks+same.blocks
		}
		lines[h.site] = h
	}
	delete(lines, "")
	list := slices.SortedFunc(maps.Keys(lines), func(x, y string) int {
		return cmp.Or(cmp.Compare(lines[y].bytes, lines[x].bytes), cmp.Compare(x, y))
	})
	var all []holder
	for _, site := range list[:min(most, len(list))] {
		all = append(all, *lines[site])
	}
	return all
}

func (a *Caching) holdersByStack() map[fpstack.ID]*holder {
	shards := a.lockShards()
	defer unlockShards(shards)
	held := map[fpstack.ID]*holder{}
	for _, seg := range a.segments {
		for b := seg.head; b != nil; b = b.next {
			if b.state != stateAllocated || b.stack == 0 {
				continue
			}
			h := held[b.stack]
			if h == nil {
				h = &holder{}
				held[b.stack] = h
			}
			h.bytes, h.blocks = h.bytes+b.size, h.blocks+1
		}
	}
	return held
}

// siteOf is the innermost line of the program on a stack, "" if it has none.
func siteOf(stacks *fpstack.Table, id fpstack.ID) string {
	for _, f := range stacks.Frames(id) {
		if userframe.Program(f.Function, f.File) {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
	}
	return ""
}
