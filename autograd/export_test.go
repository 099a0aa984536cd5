package autograd

// Observe makes f be called after each forward and each gradient rule of g.
func (g *Graph) Observe(f func(op string, backward bool)) { g.observer = f }

// Differentiable reports whether any input of an operation has a rule, and lists what is said of the others.
func Differentiable(name string) (some bool, reasons []string) {
	if table[name].joint != nil || table[name].joints != nil {
		return true, nil
	}
	for _, r := range table[name].rules {
		if r.grad != nil {
			some = true
		} else {
			reasons = append(reasons, r.none)
		}
	}
	return some, reasons
}

// Owned is how many tensors g holds.
func (g *Graph) Owned() int { return len(g.ledger.values) }

// RecordsGradients reports whether the gradient of an operation can be recorded.
func RecordsGradients(name string) bool { return table[name].double != nil }
