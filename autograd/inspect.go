package autograd

import (
	"reflect"

	"github.com/cistern-ml/cistern/autograd/internal/inspect"
)

func init() {
	inspect.Observe = func(graph any, f func(op string, backward bool)) { graph.(*Graph).observer = f }
	inspect.Owned = func(graph any) int { return len(graph.(*Graph).ledger.values) }
	inspect.Differentiable = differentiable
	inspect.RecordsGradients = func(name string) bool { return table[name].double != nil }
	inspect.Sizes = func() (uintptr, uintptr, uintptr) {
		return reflect.TypeFor[Variable]().Size(), reflect.TypeFor[node]().Size(), reflect.TypeFor[saved]().Size()
	}
}

func differentiable(name string) (some bool, reasons []string) {
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
