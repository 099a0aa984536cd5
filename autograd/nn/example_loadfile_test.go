package nn_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/safetensors"
)

// Weights of another program, whose matrix is [in, out] under a name of its own, become those of a model that never had others.
func ExampleLoadFile() {
	dev := host.Default()
	e, err := tensor.On(dev)
	if err != nil {
		log.Fatal(err)
	}
	w, err := tensor.FromSlice(e, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Release()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "theirs.safetensors")
	entries := []safetensors.Entry{{Name: "conv1d.weight", Tensor: w}}
	if err := safetensors.WriteFile(context.Background(), path, entries, nil); err != nil {
		log.Fatal(err)
	}

	model := nn.Linear(2, 3, nn.NoBias())
	if err := model.To(dev, nn.Unset()); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	f, err := safetensors.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	err = nn.LoadFile(f, model,
		nn.Rename(func(string) string { return "weight" }),
		nn.Transposed(func(name string) bool { return name == "conv1d.weight" }))
	if err != nil {
		log.Fatal(err)
	}
	values, err := model.Weight.Tensor().Float64s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(model.Weight.Shape(), values)
	// Output: [3, 2] [1 4 2 5 3 6]
}
