// Mnist trains a network on real handwritten digits and tells what it learned and what memory it took.
//
//	go run ./examples/mnist                        on the host, with the 10,000 digits that ship with it
//	go run ./examples/mnist -data DIR              with the four files of the full database, plain or gzipped
//	go run ./examples/mnist -device sim:80GiB      without arithmetic: the same memory numbers, no accuracy
//
// The network has one hidden layer of ReLU units with dropout; each training image is moved by up to one pixel at random.
// It ends with a table of the accuracy on images that it was not trained on (97 % and more), the speed, and the memory
// summary of the device; -json writes the numbers to a file.
package main

import (
	"io"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/examples/internal/classify"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/examples/mnist/dataset"
	"github.com/cistern-ml/cistern/internal/command"
)

// dropout is the part of hidden units left out in a training step.
const dropout = 0.2

func main() { command.Main("mnist", run) }

func run(args []string, stdout, stderr io.Writer) int {
	var hidden int
	p := classify.Program{
		Name:     "mnist",
		Defaults: classify.Options{Epochs: 20, Batch: 64, LR: 2e-3},
		Flags:    func(f *session.Checked) { f.Count(&hidden, "hidden", 512, 1, 1<<20, "hidden units") },
		Model:    func(rows, cols int) (nn.Layer, error) { return network(rows*cols, hidden), nil },
	}
	return p.Run(args, stdout, stderr)
}

func network(pixels, hidden int) nn.Layer {
	return nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, dataset.Classes))
}
