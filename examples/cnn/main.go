// Cnn trains a convolutional network on real handwritten digits and tells what it learned and what memory it took.
//
//	go run ./examples/cnn                        on the host, with the 10,000 digits that ship with examples/mnist
//	go run ./examples/cnn -data DIR              with the four files of the full database, plain or gzipped
//	go run ./examples/cnn -width 32 -epochs 10   a larger network, for longer
//	go run ./examples/cnn -device sim:80GiB      without arithmetic: the same memory numbers, no accuracy
//
// The network is a small ResNet: three stages of one block each, of -width channels at first and twice as many in each
// later stage, with batch norm after each convolution. Each training image is moved by up to one pixel at random; AdamW
// follows a learning rate that rises and falls once. The digits that it was not trained on are recognized in evaluation
// mode, with batch norm's running statistics. It ends with a table of the accuracy (about 98.6 % with the shipped digits, after a minute or
// two on two cores), the speed, and the memory summary of the device; -json writes the numbers to a file.
package main

import (
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/examples/internal/classify"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/examples/mnist/dataset"
	"github.com/cistern-ml/cistern/examples/models"
	"github.com/cistern-ml/cistern/internal/command"
)

// stages is how many times the channels double, and the image halves, plus one.
const stages = 3

func main() { command.Main("cnn", run) }

func run(args []string, stdout, stderr io.Writer) int {
	var width int
	p := classify.Program{
		Name:     "cnn",
		Defaults: classify.Options{Epochs: 6, Batch: 64, LR: 5e-3, Schedule: classify.OneCycle},
		Flags: func(f *session.Checked) {
			f.Count(&width, "width", 16, 1, widest, "channels of the first stage; each later one has twice as many")
		},
		Model: func(rows, cols int) (nn.Layer, error) { return network(rows, cols, width) },
	}
	return p.Run(args, stdout, stderr)
}

// widest is the largest -width. The last convolution has 1.6e14 weights then: more than any device holds, and few enough to count.
const widest = 1 << 20

// network takes batches of rows, [N, rows*cols], as images of one channel.
func network(rows, cols, width int) (nn.Layer, error) {
	config := models.ResNetConfig{Channels: 1, Classes: dataset.Classes, Blocks: 1}
	for i := range stages {
		config.Widths = append(config.Widths, width<<i)
	}
	resnet, err := models.NewResNet(config)
	if err != nil {
		return nil, err
	}
	image := nn.Func(fmt.Sprintf("Unflatten(dim=1, unflattened_size=(1, %d, %d))", rows, cols), func(x *autograd.Variable) *autograd.Variable {
		return x.Reshape(-1, 1, rows, cols)
	})
	return nn.Sequential(image, resnet), nil
}
