package nn_test

import (
	"bytes"
	"fmt"
	"log"
	"strings"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// The file of a whole model has the one that is wanted under a prefix, as PyTorch programs filter a state dict.
func ExampleRename() {
	dev := host.Default()
	whole := nn.Sequential(nn.Sequential(nn.Linear(8, 4), nn.ReLU()), nn.Linear(4, 10))
	if err := whole.To(dev, nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer whole.Release()
	var file bytes.Buffer
	if err := nn.Save(&file, whole); err != nil {
		log.Fatal(err)
	}

	body := nn.Sequential(nn.Linear(8, 4), nn.ReLU())
	if err := body.To(dev, nn.Seed(2)); err != nil {
		log.Fatal(err)
	}
	defer body.Release()
	err := nn.Load(&file, body, nn.Rename(func(name string) string {
		rest, ours := strings.CutPrefix(name, "0.")
		if !ours {
			return "" // the head
		}
		return rest
	}))
	fmt.Println(err)
	// Output: <nil>
}

// The tensors of a file, without a module.
func ExampleReadTensors() {
	dev := host.Default()
	model := nn.Sequential(nn.Linear(2, 3, nn.WeightInit(nn.Constant(0.5))))
	if err := model.To(dev); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	var file bytes.Buffer
	if err := nn.Save(&file, model); err != nil {
		log.Fatal(err)
	}

	infos, _, err := nn.ListTensors(bytes.NewReader(file.Bytes()))
	if err != nil {
		log.Fatal(err)
	}
	for _, i := range infos {
		fmt.Println(i.Name, i.DType, i.Shape)
	}
	e, err := tensor.On(dev)
	if err != nil {
		log.Fatal(err)
	}
	tensors, err := nn.ReadTensors(e, &file, "0.weight")
	if err != nil {
		log.Fatal(err)
	}
	defer nn.ReleaseTensors(tensors)
	values, err := tensor.ToSlice[float32](tensors["0.weight"])
	fmt.Println(values, err)
	// Unordered output:
	// 0.weight float32 [3, 2]
	// 0.bias float32 [3]
	// [0.5 0.5 0.5 0.5 0.5 0.5] <nil>
}
