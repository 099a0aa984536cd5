// Command typecheck says whether the module compiles on other systems, tests included, without compiling anything: it reads the sources of all
// packages and of what they import, and checks their types.
//
//	typecheck SYSTEM/PROCESSOR...
//
// To type-check with "go vet" or "go build", the go command first compiles what is imported, the standard library too, for each system:
// minutes of a processor, where this takes seconds. It finds names, types and files that are not there on a system. What it does not see are
// the compiler's code, assembly and the linker.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
)

func main() {
	debug.SetGCPercent(400) // a third of the time; what is allocated stays
	if err := run(".", os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run checks the module of a folder for all targets, two at a time: each holds the types of some hundred packages.
func run(dir string, targets []string) error {
	errs := make([]error, len(targets))
	free := make(chan struct{}, 2)
	var wg sync.WaitGroup
	for i, target := range targets {
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			errs[i] = checkTarget(dir, target)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkTarget(dir, target string) error {
	system, processor, ok := strings.Cut(target, "/")
	if !ok {
		return fmt.Errorf("typecheck: %q is no SYSTEM/PROCESSOR", target)
	}
	packages, err := list(dir, system, processor)
	if err != nil {
		return fmt.Errorf("typecheck: %s: %w", target, err)
	}
	if err := newChecker(processor).all(packages); err != nil {
		return fmt.Errorf("typecheck: %s:\n%w", target, err)
	}
	return nil
}
