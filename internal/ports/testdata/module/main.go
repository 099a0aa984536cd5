// Command ports runs programs that were written for PyTorch, line by line, with what the module exports. It writes what each of their steps
// logged as JSON; ports_test.go compares that with what ports.py logged. A program holds its leaves after each step, to the byte, and
// nothing at its end.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/cistern-ml/cistern/device/host"
)

// programs are the ports by name.
var programs = map[string]func(p *port) error{}

func main() {
	all := map[string][]float64{}
	for name, program := range programs {
		if len(os.Args) > 1 && os.Args[1] != name {
			continue
		}
		log, err := run(program)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
		all[name] = log
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(program func(p *port) error) ([]float64, error) {
	dev := host.New()
	defer dev.Close()
	p, err := newPort(dev)
	if err != nil {
		return nil, err
	}
	if err := program(p); err != nil {
		return nil, err
	}
	if held := p.allocated(); held != 0 {
		return nil, fmt.Errorf("%d bytes are held at the end", held)
	}
	return p.log, nil
}
