// Package examples holds whole programs, each in a folder of its own, and the code that README.md shows.
package examples

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// trainingStep is what README.md shows: its body, without the first line, stands there.
func trainingStep(batches *data.Loader) error {
	// README begins
	dev := device.Default() // a GPU if there is one, else the host
	model := nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
	if err := model.To(dev); err != nil {
		return err
	}
	opt := optim.AdamW(model.Parameters(), optim.LR(1e-3))
	scaler := amp.NewGradScaler()

	for images, labels := range batches.Batches() {
		g := autograd.NewGraph(dev, amp.Autocast(tensor.Float16))
		logits := model.Forward(g.Input(images))
		loss := logits.CrossEntropy(g.Input(labels))
		err := scaler.Backward(loss) // the first error of the whole chain surfaces here
		g.Release()                  // device memory is back in the pool
		if err != nil {
			return err
		}
		if err := scaler.Step(opt); err != nil {
			return err
		}
		if err := scaler.Update(); err != nil {
			return err
		}
		opt.ZeroGrad()
	}
	if err := batches.Err(); err != nil { // why the batches ended early
		return err
	}
	fmt.Println(memory.Summary(dev))
	// README ends
	opt.Release()
	model.Release()
	scaler.Release()
	return memory.Drop(dev)
}

func TestREADME_ShowsCodeThatRuns(t *testing.T) {
	source, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(source), "\t// README begins\n")
	code, _, _ = strings.Cut(code, "\t// README ends\n")
	lines := strings.Split(strings.TrimSuffix(code, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "\t")
	}
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "```go\n"+strings.Join(lines, "\n")+"\n```")
}

func TestREADME_TrainingStepLeavesNothing(t *testing.T) {
	const n = 128
	images, labels := make([]float32, n*784), make([]int64, n)
	for i := range labels {
		labels[i] = int64(i % 10)
		images[i*784+i%10] = 1
	}
	set, err := data.Slices(images, []int{784}, labels, nil)
	require.NoError(t, err)
	require.NoError(t, trainingStep(data.NewLoader(device.Default(), set, 32)), "and Drop found no block in use")
}
