package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// The models of the tables, in sizes of GPT-2 (Radford et al., 2019) and of LLaMA's smallest (Touvron et al., 2023), with GPT-2's layers.
var ours = []model{
	{name: "GPT-2, 124 million", layers: 12, width: 768, heads: 12, seq: 1024, micro: 32},
	{name: "GPT-2, 1.5 billion", layers: 48, width: 1600, heads: 25, seq: 1024, micro: 8, checkpointed: true},
	{name: "7 billion", layers: 32, width: 4096, heads: 32, seq: 2048, micro: 4, checkpointed: true},
}

var counts = []int{8, 64, 1024}

// published is a step that somebody has measured.
type published struct {
	machine *machine
	gpus    int
	model   model
	seconds float64
	fitted  bool // machine.used was set by it
}

// measured are fully sharded runs in bfloat16 with sequences of 2,048: scripts/train/benchmarking/README.md of mosaicml/llm-foundry. A step is the batch by the throughput there.
var measured = []published{
	{&h100, 64, model{name: "1.3 billion", layers: 24, width: 2048, heads: 16, seq: 2048, micro: 20, vocab: 50368}, 0.922, false},
	{&h100, 8, model{name: "6.7 billion", layers: 32, width: 4096, heads: 32, seq: 2048, micro: 6, vocab: 50368}, 1.155, true},
	{&h100, 8, model{name: "12.9 billion", layers: 40, width: 5120, heads: 40, seq: 2048, micro: 2, vocab: 50368}, 0.855, false},
	{&h100, 64, model{name: "12.9 billion", layers: 40, width: 5120, heads: 40, seq: 2048, micro: 2, vocab: 50368}, 0.853, false},
	{&h100, 64, model{name: "64.9 billion", layers: 80, width: 8192, heads: 64, seq: 2048, micro: 8, accumulated: 4, checkpointed: true, vocab: 50368}, 63.05, false},
	{&a100, 128, model{name: "6.7 billion", layers: 32, width: 4096, heads: 32, seq: 2048, micro: 18, checkpointed: true, vocab: 50368}, 10.18, true},
	{&a100, 128, model{name: "12.9 billion", layers: 40, width: 5120, heads: 40, seq: 2048, micro: 16, checkpointed: true, vocab: 50368}, 16.62, false},
}

// writeTables writes those of docs/parallel.md.
func writeTables(w io.Writer) error {
	if err := writeModels(w, ours, counts); err != nil {
		return err
	}
	return writeMeasured(w)
}

const gb = 1e9

// writeModels writes a table for each model, on machines with H100.
func writeModels(w io.Writer, list []model, gpus []int) error {
	g := &h100
	for i := range list {
		m := &list[i]
		ckpt := ""
		if m.checkpointed {
			ckpt = ", each layer checkpointed"
		}
		fmt.Fprintf(w, "**%s** (%.2f billion parameters), %d sequences of %d tokens on each GPU%s:\n\n", m.name, m.parameters()/1e9, m.micro, m.seq, ckpt)
		fmt.Fprintf(w, "| GPUs | ZeRO | held | at work besides | sent a step | step | waiting for others | tokens/s, all | utilization |\n|---|---|---|---|---|---|---|---|---|\n")
		for _, n := range gpus {
			for stage := range 4 {
				line, err := m.line(g, n, stage)
				if err != nil {
					return err
				}
				fmt.Fprintln(w, line)
			}
		}
		fmt.Fprintln(w)
	}
	return nil
}

// line is a row of a model's table.
func (m *model) line(g *machine, n, stage int) (string, error) {
	held, err := m.held(n, stage)
	if err != nil {
		return "", err
	}
	c := m.step(g, n, stage)
	note := ""
	if float64(held.Total()+held.Gathered+held.Bucket) > 80*gb {
		note = " (more than 80)"
	}
	tokens := float64(n*m.micro*m.times()*m.seq) / c.compute.Seconds()
	return fmt.Sprintf("| %d | %d | %.2f GB%s | %.2f GB | %.1f GB | %s | %.0f %% | %s | %.0f %% |", n, stage, float64(held.Total())/gb, note, float64(held.Gathered+held.Bucket)/gb, m.sent(n, stage)/gb,
		short(c.compute), 100*c.waited.Seconds()/c.compute.Seconds(), thousands(tokens), 100*m.utilization(g, c.compute)), nil
}

// sent is how many bytes a GPU sends in a step: see the table in package parallel.
func (m *model) sent(n, stage int) float64 {
	_, bytes, _ := precision(stage)
	rounds := 2.0
	if stage == 3 {
		rounds = 3 * float64(m.times())
	}
	return rounds * bytes * m.parameters() * float64(n-1) / float64(n)
}

// writeMeasured writes what the model says of steps that others have measured.
func writeMeasured(w io.Writer) error {
	fmt.Fprintf(w, "| GPUs | parameters | sequences a GPU | measured | estimated | error |\n|---|---|---|---|---|---|\n")
	for _, p := range measured {
		t := p.estimate().Seconds()
		what := fmt.Sprint(p.model.micro)
		if p.model.accumulated > 0 {
			what += fmt.Sprintf(", %d times", p.model.accumulated)
		}
		if p.model.checkpointed {
			what += ", checkpointed"
		}
		note := fmt.Sprintf("%+.0f %%", 100*(t/p.seconds-1))
		if p.fitted {
			note = "set by it"
		}
		if _, err := fmt.Fprintf(w, "| %d %s | %s | %s | %.3g s | %.3g s | %s |\n", p.gpus, p.machine.name, p.model.name, what, p.seconds, t, note); err != nil {
			return err
		}
	}
	return nil
}

func (p *published) estimate() time.Duration {
	c := p.model.step(p.machine, p.gpus, 3)
	return c.compute
}

// short is a time with three digits.
func short(t time.Duration) string {
	if t < time.Second {
		return fmt.Sprintf("%.3g ms", t.Seconds()*1e3)
	}
	return fmt.Sprintf("%.3g s", t.Seconds())
}

// thousands is a number with commas.
func thousands(x float64) string {
	digits := fmt.Sprintf("%.0f", x)
	var parts []string
	for len(digits) > 3 {
		parts = append([]string{digits[len(digits)-3:]}, parts...)
		digits = digits[:len(digits)-3]
	}
	return strings.Join(append([]string{digits}, parts...), ",")
}
