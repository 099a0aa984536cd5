package memory

import (
	"bytes"
	"encoding/json"
	"iter"

	"github.com/cistern-ml/cistern/memory/internal/stat"
)

// Flat yields the statistics under the keys of torch.cuda.memory_stats, in sorted order: "active.all.allocated",
// "active.all.current" and so on.
func (s Stats) Flat() iter.Seq2[string, int64] { return stat.Sorted(s.flatten()) }

// flatten joins the names of the nested form, which is the JSON of Stats, so that the two cannot disagree.
func (s Stats) flatten() []stat.Flat {
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
	return walkStats(nil, "", tree)
}

func walkStats(list []stat.Flat, prefix string, tree map[string]any) []stat.Flat {
	for k, v := range tree {
		switch v := v.(type) {
		case map[string]any:
			list = walkStats(list, prefix+k+".", v)
		case json.Number:
			n, _ := v.Int64()
			list = append(list, stat.Flat{Key: prefix + k, Value: n})
		}
	}
	return list
}
