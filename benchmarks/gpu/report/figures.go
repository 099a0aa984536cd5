package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Results is what a run found: results.json.
type Results struct {
	Date    string                     `json:"date"`
	Commit  string                     `json:"commit"`
	Go      string                     `json:"go"`
	Device  string                     `json:"device"`
	Name    string                     `json:"name"` // of the GPU; "" if no program got as far
	Command string                     `json:"command"`
	Quick   bool                       `json:"quick"`
	Facts   string                     `json:"facts"`
	Steps   []Step                     `json:"steps"`
	Figures map[string]json.RawMessage `json:"figures"` // of each program, by its name

	Profiles map[string]string `json:"profiles,omitempty"` // beginnings of the tables of the library's own profiler

	run   string   // the folder of the logs, where there is one
	older []string // numbers of earlier imports, with date and commit
}

// Step is a line of steps.tsv.
type Step struct {
	Name    string `json:"step"`
	Exit    string `json:"exit"` // an exit code, or a word: see unfinished
	Seconds int    `json:"seconds"`
	Remark  string `json:"remark"`
}

// unfinished are the words for steps that were not run, or not to their end.
var unfinished = []string{"pending", "no time left", "interrupted", "not run"}

func (s Step) missing() bool { return slices.Contains(unfinished, s.Exit) }

func (s Step) failed() bool { return s.Exit != "0" && s.Exit != "skipped" && !s.missing() }

// What the tables need of the programs' JSON. The programs say what the fields are.
type (
	bandwidth struct {
		Device  string
		PyTorch string
		Failed  []string
		Results []struct {
			Operation, Type string
			Size, Bytes     uint64
			US              float64 `json:"us"`
			GBs             float64 `json:"gb_per_s"`
			OfCopy          float64 `json:"of_memcpy"`
			PyTorchGBs      float64 `json:"pytorch_gb_per_s"`
			OfPyTorch       float64 `json:"time_by_pytorchs"`
			Compiled        struct {
				US float64 `json:"us"`
			}
			OfCompiled float64 `json:"time_by_compiled"`
		}
	}
	gemm struct {
		Device, Library, PyTorch string
		Results                  []product
	}
	product struct {
		Problem, Type, Subject string
		M, N, K                int
		US                     float64 `json:"us"`
		TFLOPS                 float64
		GBs                    float64 `json:"gb_per_s"`
	}
	launch struct {
		Device, PyTorch string
		Results         []struct {
			Operation string
			callTimes
			Allocs  float64 `json:"go_allocations"`
			PyTorch *callTimes
		}
	}
	callTimes struct{ Call, Stream, Wait struct{ Ns float64 } }
	load      struct {
		Device     string
		Parallel   int
		Cold       bool
		FirstAll   float64 `json:"first_wall_ms"`
		SecondAll  float64 `json:"second_wall_ms"`
		OneProcess float64 `json:"one_process_ms"`
		Start      float64 `json:"device_start_ms"`
		Modules    []struct {
			Name    string
			Bytes   int `json:"ptx_bytes"`
			Count   int
			First   float64 `json:"first_ms"`
			Longest float64 `json:"longest_ms"`
			Second  float64 `json:"second_ms"`
			Kernels []loadedKernel
		}
		Failures []struct{ Process, Module, Kernel, Error string }
	}
	loadedKernel struct {
		Name             string
		Registers, Local int
	}
	smoke struct {
		Device string
		Checks []struct {
			Name, Result, Says string
			Ms                 float64
		}
	}
	naive struct {
		Name    string `json:"device_name"`
		PyTorch string
		Results []allocated
	}
	allocated struct {
		Workload, Allocator string
		Ns                  float64 `json:"ns_per_unit"`
		Overhead            float64 `json:"overhead_ns"`
		Peak                int64   `json:"peak_reserved_bytes"`
		OOMs                int
		Loop                string
	}
	// training is what gpt and train.py write.
	training struct {
		Rate      float64 `json:"steps_per_second"`
		Late      float64 `json:"late_steps_per_second"`
		ValLoss   float64 `json:"val_loss"`
		Allocated int64   `json:"peak_allocated_bytes"`
		Reserved  int64   `json:"peak_reserved_bytes"`
		Steps     int
	}
)

// figures are those of a program, or nil if there are none or they are no such figures.
func figures[T any](r *Results, name string) *T {
	raw, ok := r.Figures[name]
	if !ok {
		return nil
	}
	f := new(T)
	if json.Unmarshal(raw, f) != nil {
		return nil
	}
	return f
}

// deviceName is what a program says the device is.
func (r *Results) deviceName() string {
	for _, name := range []string{"smoke", "bandwidth", "gemm", "attention", "conv", "train", "launch", "load"} {
		if f := figures[struct{ Device string }](r, name); f != nil && f.Device != "" {
			return f.Device
		}
	}
	if f := figures[naive](r, "naive"); f != nil {
		return f.Name
	}
	return ""
}

// open reads the results.json of a folder.
func open(folder string) (*Results, error) {
	file := filepath.Join(folder, "results.json")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &Results{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}
