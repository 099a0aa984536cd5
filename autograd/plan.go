package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// WithPlan begins a step of a plan (memory.Caching.NewPlan) when the graph is made, so that a training loop needs no call of Plan.Step. Numbers do
// not change, only where they lie. A nil plan is none, and so is a closed one: what goes on after training needs no other options.
//
// A step is what repeats, up to the next graph with the option. A batch that is made before the graph is of the step before, so the graph is made first where
// that can be. Of the graphs of a training step one has the option, the first: of the parts of a batch whose gradients add up, that of the first part; of a
// program that trains several networks in turn, that of the first one. The graph of each batch of an evaluation has it as well, since else the last training
// step is longer than the others, and is learned anew. Graphs that never repeat, such as those of texts that grow, do without: they would make the plan forget.
// The second runs of Checkpoint, and other graphs that an operation makes inside another, begin no step.
//
// A plan of another allocator than the graph's is the graph's first error, a *tensor.ValueError. So is what Plan.Step returns, such as an error of the driver.
func WithPlan(plan *memory.Plan) Option {
	return func(c *config) {
		c.begin = nil
		if plan != nil {
			c.begin = func(e tensor.Exec) error { return beginStep(plan, e.Allocator()) }
		}
	}
}

// beginStep is called by way of the option, so that programs without a plan do not have its code.
func beginStep(plan *memory.Plan, of memory.Allocator) error {
	own := plan.Allocator()
	if own != nil && !plan.Closed() && differs(own, of) {
		return &tensor.ValueError{Op: "WithPlan", Detail: fmt.Sprintf("the plan is of another allocator, of %s, than the graph's, a %T of %s", own.Device(), of, of.Device())}
	}
	err := plan.Step()
	if own != nil && plan.Closed() { // meanwhile, perhaps
		return nil
	}
	return err
}

// differs reports whether it is seen that a plan's allocator is not the graph's. One of a type that package memory does not have may pass requests on to it.
func differs(own *memory.Caching, of memory.Allocator) bool {
	switch of.(type) {
	case *memory.Caching, *memory.Pool, *memory.Async, *memory.Direct:
		return of != memory.Allocator(own)
	}
	return of.Device() != own.Device()
}
