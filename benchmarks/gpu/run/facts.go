package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// facts writes down what machine this is.
func facts(r *runner, ctx context.Context, s *step, limit time.Duration) {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f, err := os.Create(filepath.Join(r.work, "facts.txt"))
	if err == nil {
		r.facts(ctx, f)
		err = f.Close()
	}
	if err != nil {
		r.note(s.name, "not written", time.Since(begin), err.Error())
		return
	}
	r.note(s.name, "0", time.Since(begin), "")
}

func (r *runner) facts(ctx context.Context, w io.Writer) {
	line := func(name, text string) { fmt.Fprintf(w, "%s: %s\n", name, text) }
	line("date", time.Now().UTC().Format(time.RFC3339))
	line("commit", firstLine(filepath.Join(r.bundle, "COMMIT")))
	line("built with", firstLine(filepath.Join(r.bundle, "GO")))
	line("system", fmt.Sprintf("%s/%s, kernel %s", runtime.GOOS, runtime.GOARCH, firstLine("/proc/sys/kernel/osrelease")))
	line("processor", fmt.Sprintf("%s, %d threads", processor(), runtime.NumCPU()))
	line("load", firstLine("/proc/loadavg"))
	for _, name := range []string{"CISTERN_CUDA_LIBRARY", "CISTERN_CUBLAS_LIBRARY"} {
		if value := os.Getenv(name); value != "" {
			line(name, filepath.Base(value))
		}
	}
	for _, name := range []string{"LD_LIBRARY_PATH", "CISTERN_CUBLAS_LIBRARY"} {
		if value, ok := r.vars[name]; ok {
			line(name+", found", value)
		}
	}
	line("the driver's compiler beside it", strings.Join(compilerFolder(libFolders), ""))
	r.tools(ctx, line)
	if text, err := os.ReadFile("/proc/driver/nvidia/version"); err == nil {
		fmt.Fprintf(w, "%s", text)
	}
}

// tools are those of NVIDIA and Python.
func (r *runner) tools(ctx context.Context, line func(name, text string)) {
	const query = "index,name,driver_version,memory.total,memory.used,clocks.sm,clocks.max.sm,clocks.max.mem,power.limit,compute_mode,mig.mode.current"
	line("nvidia-smi", answer(ctx, "nvidia-smi", "--query-gpu="+query, "--format=csv"))
	for _, tool := range []string{"compute-sanitizer", "ncu", "nvcc"} {
		text := answer(ctx, tool, "--version")
		line(tool, text[strings.LastIndexByte(text, '\n')+1:])
	}
	if r.python == "" {
		line("PyTorch", "no Python has it")
		return
	}
	line("Python with PyTorch", answer(ctx, r.python, "--version"))
	line("PyTorch", r.torch())
}

// torchLimit is for the first import on a machine, which reads some gigabytes.
const torchLimit = 40 * time.Second

func torchFacts(python string) string {
	ctx, cancel := context.WithTimeout(context.Background(), torchLimit)
	defer cancel()
	const script = "import torch; print(torch.__version__, 'CUDA', torch.version.cuda, 'available', torch.cuda.is_available())"
	text, err := answerOf(ctx, python, "-c", script)
	if err != nil {
		return fmt.Sprintf("%v: %s", err, short(text))
	}
	return text
}

// answer is what a tool says, or why it says nothing.
func answer(ctx context.Context, tool string, args ...string) string {
	text, err := ask(ctx, tool, args...)
	if err != nil {
		return strings.TrimSpace(fmt.Sprintf("%v %s", err, text))
	}
	return text
}

func firstLine(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // elsewhere there is none
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
