package memory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"slices"
)

// Flat yields the statistics under the keys of torch.cuda.memory_stats, in sorted order: "active.all.allocated",
// "active.all.current" and so on.
func (s Stats) Flat() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for _, e := range s.flatten() {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

type flatStat struct {
	key   string
	value int64
}

// flatten joins the names of the nested form, which is the JSON of Stats, so that the two cannot disagree.
func (s Stats) flatten() []flatStat {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil // cannot be: the type has only numbers, and keys that marshal
	}
	var tree map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // totals of bytes pass 2^53
	if err := d.Decode(&tree); err != nil {
		return nil // cannot be: it is what was just written
	}
	list := walkStats(nil, "", tree)
	slices.SortFunc(list, func(x, y flatStat) int { return cmp.Compare(x.key, y.key) })
	return list
}

func walkStats(list []flatStat, prefix string, tree map[string]any) []flatStat {
	for k, v := range tree {
		switch v := v.(type) {
		case map[string]any:
			list = walkStats(list, prefix+k+".", v)
		case json.Number:
			n, _ := v.Int64()
			list = append(list, flatStat{prefix + k, n})
		}
	}
	return list
}
