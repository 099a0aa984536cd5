package plan_test

import (
	"context"
	"fmt"

	"github.com/cistern-ml/cistern/memory/plan"
)

func ExamplePlace() {
	// A training step of 8 events that repeats. The batch of the next step is fetched during this one.
	step := plan.Problem{Cycle: 8, Buffers: []plan.Buffer{
		{Size: 4096, From: 0, To: 8},  // weights, always there
		{Size: 1024, From: 6, To: 11}, // a batch: fetched at 6, used until 3 of the next step
		{Size: 2048, From: 1, To: 7},  // activations
		{Size: 512, From: 2, To: 4},   // a temporary
		{Size: 512, From: 4, To: 6},   // another, after it
	}}
	placement, err := plan.Place(context.Background(), step)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, at := range placement.Offsets {
		fmt.Printf("buffer %d: [%d, %d)\n", i, at, at+step.Buffers[i].Size)
	}
	fmt.Println("arena:", placement.Size, "bytes; at least", placement.Bound)
	// Output:
	// buffer 0: [0, 4096)
	// buffer 1: [6144, 7168)
	// buffer 2: [4096, 6144)
	// buffer 3: [7168, 7680)
	// buffer 4: [6144, 6656)
	// arena: 7680 bytes; at least 7680
}
