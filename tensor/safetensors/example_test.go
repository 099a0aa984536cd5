package safetensors_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/safetensors"
)

// A file is written, opened and listed; then two rows of one of its tensors are read, in another type.
func Example() {
	dev := host.New()
	e, err := tensor.On(dev)
	if err != nil {
		log.Fatal(err)
	}
	defer memory.Drop(dev)
	w, err := tensor.FromSlice(e, []float32{1, 2, 3, 4, 5, 6}, 3, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Release()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.safetensors")
	entries := []safetensors.Entry{{Name: "embedding.weight", Tensor: w}}
	if err := safetensors.WriteFile(context.Background(), path, entries, map[string]string{"step": "100"}); err != nil {
		log.Fatal(err)
	}

	f, err := safetensors.Open(dir) // the folder's model
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	for _, t := range f.Tensors() {
		fmt.Println(t.Name, t.Type, t.Shape, t.Bytes, "bytes")
	}
	fmt.Println("step", f.Metadata()["step"])
	rows, err := f.Read(e, "embedding.weight", safetensors.Rows(1, 3), safetensors.As(tensor.BFloat16))
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Release()
	values, err := rows.Float64s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rows.DType(), rows.Shape(), values)
	// Output:
	// embedding.weight F32 [3, 2] 24 bytes
	// step 100
	// bfloat16 [2, 2] [3 4 5 6]
}
