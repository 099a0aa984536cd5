package main

import (
	"context"
	"path/filepath"
	"strings"
	"time"
)

const sec = time.Second

// steps are all there are. What each reserves is for a GPU of 2024 whose kernels the driver has not compiled yet; that the reserves of a
// call fit into its time is tested.
var steps = []*step{
	{"facts", "what machine this is", 10 * sec, 70 * sec, facts},
	{"smoke", "one of each kind of work: does it work at all?", 20 * sec, 30 * sec, program("smoke", nil, "-limit", "8s")},
	{"load", "what the driver's compiler makes of each kernel", 40 * sec, 100 * sec, program("load", nil, "-ptx", "ptx", "-cache", "CACHE")},
	{"test-device_cuda", "tests named TestGPU of device/cuda", 40 * sec, 60 * sec, tests("device_cuda", nil)},
	{"test-memory", "tests named TestGPU of memory", 40 * sec, 60 * sec, tests("memory", nil)},
	{"test-kernels_cuda", "tests named TestGPU of kernels/cuda", 50 * sec, 60 * sec, tests("kernels_cuda", every("5", "400"))},
	{"test-tensor", "tests named TestGPU of tensor", 40 * sec, 60 * sec, tests("tensor", nil)},
	{"test-autograd", "tests named TestGPU of autograd", 40 * sec, 60 * sec, tests("autograd", nil)},
	{"test-amp", "tests named TestGPU of amp", 40 * sec, 60 * sec, tests("amp", nil)},
	{"gemm", "matrix products: own kernels, cuBLAS, PyTorch", 50 * sec, 130 * sec, program("gemm", words("-runs 1 -duration 1ms -sizes 64,32x64x48"), "-python", "PYTHON", "-torch-limit", "30s",
		"-sizes", "4096,1024,8192,8192x2304x768,8192x3072x768,8192x768x3072,8192x50304x768", "-runs", "3", "-duration", "20ms")},
	{"gpt", "examples/gpt, then the same in PyTorch", 40 * sec, 60 * sec, gpt},
	{"profile", "training by kernel and shape", 45 * sec, 70 * sec, program("train", words("-quick"), "-python", "",
		"-model", "gpt2,resnet50", "-modes", "eager", "-runs", "1", "-limit", "35s", "-profile", "LOGS/profile")},
	{"train", "GPT-2, also as a graph, and ResNet-50 beside PyTorch", 180 * sec, 240 * sec, program("train", words("-quick -limit 30s -budget 60s"), "-python", "PYTHON",
		"-model", "gpt2,resnet50", "-runs", "4", "-limit", "75s", "-budget", "165s")},
	{"train-small", "models where launches count, also as graphs", 55 * sec, 75 * sec, program("train", words("-quick -limit 30s"), "-python", "PYTHON",
		"-model", "gpt,mlp", "-modes", "eager,graph", "-limit", "25s", "-budget", "45s")},
	{"attention", "beside each of PyTorch's backends", 105 * sec, 130 * sec, program("attention", words("-shapes 1x2x32x32x16,1x1x1x64x16 -types float16,float32 -runs 1 -duration 1us"),
		"-python", "PYTHON", "-runs", "3", "-duration", "20ms", "-torch-limit", "75s")},
	{"conv", "convolutions beside cuDNN", 115 * sec, 140 * sec, program("conv", words("-shapes 1x32x6x6:32x3x3:1:1,1x8x6x6:8x3x3:2:1:8 -types float16,float32 -runs 1 -duration 1us"),
		"-python", "PYTHON", "-runs", "3", "-duration", "10ms", "-torch-limit", "80s")},
	{"bandwidth", "norms, softmax, losses, optimizers, copies", 130 * sec, 190 * sec, program("bandwidth", words("-sizes 128KiB -types float32,float16 -runs 1 -duration 1us"), "-python", "PYTHON",
		"-sizes", "256MiB", "-runs", "3", "-duration", "10ms", "-torch-limit", "50s", "-compile", "40s")},
	{"launch", "operations on tiny tensors", 35 * sec, 90 * sec, program("launch", words("-runs 3 -duration 1ms"), "-python", "PYTHON")},
	{"naive", "allocators beside the driver's and PyTorch's", 75 * sec, 200 * sec, program("naive", words("-runs 1 -steps 1 -pairs 200 -single 4KiB,2MiB"),
		"-python", "PYTHON", "-traces", "traces", "-plot", "LOGS/naive.svg", "-runs", "3", "-steps", "100", "-pairs", "1000", "-single", "4KiB,2MiB,64MiB")},
	{"sanitizer-memcheck", "compute-sanitizer on a few cases of each kernel", 35 * sec, 60 * sec, sanitizer("memcheck")},
	{"sanitizer-racecheck", "compute-sanitizer on a few cases of each kernel", 35 * sec, 60 * sec, sanitizer("racecheck")},
	{"sanitizer-synccheck", "compute-sanitizer on a few cases of each kernel", 30 * sec, 60 * sec, sanitizer("synccheck")},
	{"sanitizer-initcheck", "compute-sanitizer on a few cases of each kernel", 30 * sec, 60 * sec, sanitizer("initcheck")},
	{"ncu-gemm", "the profiler's figures", 35 * sec, 60 * sec, profiler("40", func(r *runner) []string {
		return r.fill(append(words("gemm -types float16,float32 -runs 1 -duration 1ns"), "-python", "", "-sizes", r.either("64", "4096")))
	})},
	{"ncu-bandwidth", "the profiler's figures", 35 * sec, 60 * sec, profiler("200", func(r *runner) []string {
		return r.fill(append(words("bandwidth -types float16 -runs 1 -duration 1ns"), "-python", "", "-sizes", r.either("128KiB", "256MiB")))
	})},
	{"full-device_cuda", "the same, all cases", 60 * sec, 400 * sec, tests("device_cuda", nil)},
	{"full-memory", "the same, all cases", 60 * sec, 400 * sec, tests("memory", nil)},
	{"full-kernels_cuda", "the same, all cases", 60 * sec, 400 * sec, tests("kernels_cuda", every("1", "100"))},
	{"full-tensor", "the same, all cases", 60 * sec, 400 * sec, tests("tensor", nil)},
	{"full-autograd", "the same, all cases", 60 * sec, 400 * sec, tests("autograd", nil)},
	{"full-amp", "the same, all cases", 60 * sec, 400 * sec, tests("amp", nil)},
}

func words(text string) []string { return strings.Fields(text) }

// either is the first if the run is a quick one.
func (r *runner) either(quick, full string) string {
	if r.quick {
		return quick
	}
	return full
}

// every is the part of the kernels' cases that tests run.
func every(full, quick string) func(*runner) []string {
	return func(r *runner) []string { return []string{"-every", r.either(quick, full)} }
}

// fill completes a command line: the program's name is followed by the device, and words in capitals are what the machine has.
func (r *runner) fill(argv []string) []string {
	list := []string{argv[0], "-device", r.device}
	for _, word := range argv[1:] {
		switch word {
		case "PYTHON":
			word = r.python
		case "CACHE":
			word = r.cache()
		case "traces", "ptx":
			word = filepath.Join(r.bundle, word)
		}
		list = append(list, strings.Replace(word, "LOGS/", r.logs+"/", 1))
	}
	return list
}

// program is a step that runs one of the bundle's programs, which writes its numbers with -json. The flags quick come behind the others in
// quick runs: the last one of a name counts.
func program(name string, quick []string, flags ...string) func(*runner, context.Context, *step, time.Duration) {
	return func(r *runner, ctx context.Context, s *step, limit time.Duration) {
		argv := append(r.fill(append([]string{name}, flags...)), "-json", filepath.Join(r.logs, s.name+".json"))
		if r.quick {
			argv = append(argv, quick...)
		}
		argv = append(argv, added(strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))+"_ARGS")...)
		r.one(ctx, process{name: s.name, folder: r.bundle, argv: argv, limit: limit, passes: wroteFigures(s.name)})
	}
}

// wroteFigures says that the file of a program's figures is missing.
func wroteFigures(name string) func(*runner) string {
	return func(r *runner) string {
		if !isFile(filepath.Join(r.logs, name+".json")) {
			return "it has written no figures"
		}
		return ""
	}
}
