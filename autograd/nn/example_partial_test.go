package nn_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
)

// A trained body gets another head: the file has the old one, which the model has not.
func ExamplePartial() {
	dev := host.Default()
	pretrained := nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 10))
	if err := pretrained.To(dev, nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer pretrained.Release()
	var file bytes.Buffer
	if err := nn.Save(&file, pretrained); err != nil {
		log.Fatal(err)
	}

	model := nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 2))
	if err := model.To(dev, nn.Seed(2)); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	var left nn.Unmatched
	if err := nn.Load(&file, model, nn.Partial(&left)); err != nil {
		log.Fatal(err)
	}
	fmt.Println("missing:", left.Missing)
	fmt.Println("unexpected:", left.Unexpected)
	// Output:
	// missing: [3.weight 3.bias]
	// unexpected: [2.weight 2.bias]
}
