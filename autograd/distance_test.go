package autograd_test

import (
	"fmt"
	"math"
)

func init() {
	functions := map[string]func(v vars) variable{
		"normalize 2":     func(v vars) variable { return v[0].Normalize(2, 1, 1e-12) },
		"normalize other": func(v vars) variable { return v[0].Normalize(3, -2, 0.5) },
		"pairwise 2":      func(v vars) variable { return v[0].PairwiseDistance(v[1], 2, 1e-6, false) },
		"pairwise 1":      func(v vars) variable { return v[0].PairwiseDistance(v[1], 1, 0, true) },
	}
	for _, dim := range []int{1, -2, 0} {
		functions[fmt.Sprint("cosine ", dim)] = func(v vars) variable { return v[0].CosineSimilarity(v[1], dim, 1e-8) }
	}
	for name, p := range map[string]float64{"0": 0, "1": 1, "1.5": 1.5, "2": 2, "inf": math.Inf(1)} {
		functions["cdist "+name] = func(v vars) variable { return v[0].CDist(v[1], p) }
	}
	composed(functions,
		gradientCase{op: "normalize", f: functions["normalize 2"], shapes: [][]int{{3, 4}}},
		gradientCase{op: "normalize", note: "other", f: functions["normalize other"], shapes: [][]int{{2, 3, 2}}, prep: positive},
		gradientCase{op: "cosine_similarity", f: functions["cosine -2"], shapes: [][]int{{2, 3, 1}, {3, 4}}},
		gradientCase{op: "pairwise_distance", f: functions["pairwise 2"], shapes: [][]int{{3, 4}, {4}}},
		gradientCase{op: "cdist", f: functions["cdist 2"], shapes: [][]int{{2, 3, 2}, {4, 2}}},
		gradientCase{op: "cdist", note: "1.5", f: functions["cdist 1.5"], shapes: [][]int{{3, 2}, {4, 2}}},
		gradientCase{op: "cdist", note: "by a product", f: functions["cdist 2"], shapes: [][]int{{2, 2}, {26, 2}}},
	)
}
