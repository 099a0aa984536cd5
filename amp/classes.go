package amp

import "strings"

// classes is policy and peers in one map. It does not change after start.
var classes = func() map[string]Class {
	all := make(map[string]Class, 2*len(policy))
	for op, c := range policy {
		all[op] = c
	}
	for c, names := range peers {
		for _, op := range strings.Fields(names) {
			all[op] = c
		}
	}
	return all
}()

// ClassOf returns the class of an operation, by its name in PyTorch, or in autograd where they differ. Operations that the
// policy does not name are Untouched, and known is false.
func ClassOf(op string) (c Class, known bool) {
	c, known = classes[op]
	return c, known
}
