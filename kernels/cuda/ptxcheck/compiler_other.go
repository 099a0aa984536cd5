//go:build !linux || !amd64

package main

import "errors"

type compiler struct{}

func open([]string) (*compiler, error) {
	return nil, errors.New("the driver's PTX compiler is looked for on Linux with amd64 alone")
}

func (*compiler) run([]byte, string) (string, error) { return "", errors.ErrUnsupported }

func (*compiler) name() string { return "" }
