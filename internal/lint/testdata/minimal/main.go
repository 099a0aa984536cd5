// Command minimal adds two tensors: what a program has to carry that does no more.
package main

import (
	"fmt"
	"os"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	e, err := tensor.On(host.Default())
	if err != nil {
		return err
	}
	a, err := tensor.FromSlice(e, []float32{1, 2})
	if err != nil {
		return err
	}
	defer a.Release()
	sum, err := a.Add(a)
	if err != nil {
		return err
	}
	defer sum.Release()
	fmt.Println(sum)
	return nil
}
