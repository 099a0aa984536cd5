package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sequence runs commands one after the other within the time of a step. The first that fails ends it.
func (r *runner) sequence(ctx context.Context, limit time.Duration, list ...process) {
	end := time.Now().Add(limit)
	for _, p := range list {
		if p.limit = time.Until(end); p.limit < least {
			r.note(p.name, noTime, 0, "not run")
			return
		}
		if !r.one(ctx, p) {
			return
		}
	}
}

// gpt trains a small GPT as the host does, and from the same weights in PyTorch, where it is.
func gpt(r *runner, ctx context.Context, s *step, limit time.Duration) {
	var model []string
	train := words("-steps 300")
	if r.quick {
		model, train = words("-layers 1 -width 16 -heads 2 -seq 16 -batch 2"), words("-steps 2")
	}
	weights, text := filepath.Join(r.work, "start.safetensors"), filepath.Join(r.bundle, "text.txt")
	start := slices.Concat(words("gpt -steps 0 -sample 0"), model)
	ours := slices.Concat(words("gpt -sample 0"), model, train)
	list := []process{
		{name: s.name + "-start", argv: append(r.fill(start), "-text", text, "-save", weights)},
		{name: s.name, argv: append(append(r.fill(ours), "-text", text, "-json", filepath.Join(r.logs, s.name+".json")), added("GPT_ARGS")...), passes: wroteFigures(s.name)},
	}
	if why := r.withoutPyTorch(); why != "" {
		r.sequence(ctx, limit, list...)
		r.note(s.name+"-pytorch", skipped, 0, why)
		return
	}
	peer := []string{r.python, filepath.Join(r.bundle, "train.py"), "--device", strings.Replace(r.device, "host", "cpu", 1)}
	if !r.quick {
		peer = append(peer, "--sdpa")
	}
	for _, flag := range slices.Concat(model, train) {
		peer = append(peer, strings.Replace(flag, "-", "--", 1))
	}
	peer = append(peer, "--json", filepath.Join(r.logs, s.name+"-pytorch.json"), weights, text)
	r.sequence(ctx, limit, append(list, process{name: s.name + "-pytorch", argv: peer})...)
}

// withoutPyTorch says why there is no peer, "" if there is one.
func (r *runner) withoutPyTorch() string {
	switch {
	case r.python == "":
		return "no Python has PyTorch"
	case r.device != "host" && !strings.HasSuffix(r.torch(), "available True"):
		return "PyTorch has no CUDA here: " + r.torch()
	}
	return ""
}
