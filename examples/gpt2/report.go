package main

import (
	"fmt"
	"io"
	"time"

	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/tensor"
)

// report collects the numbers of a run. On a simulated device there are no losses and no text, as nothing is computed there.
type report struct {
	LoadSeconds     float64 `json:"load_seconds"`
	Parameters      int     `json:"parameters"`
	Trained         int     `json:"trained_parameters"`
	FirstLoss       float64 `json:"first_loss"`
	LastLoss        float64 `json:"last_loss"` // mean of the last steps
	Tokens          int     `json:"tokens"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	Text            string  `json:"text"`
	session.Memory

	interrupted bool
}

// stateless is the optimizer of a model that is not trained.
type stateless struct{}

func (stateless) StateBytes() uint64 { return 0 }

// program runs everything. Whatever happens, it gives all device memory back, and says so if that fails.
func program(o options, stdout, stderr io.Writer) (err error) {
	if err := session.CheckOutputs(o.outputs()...); err != nil {
		return err
	}
	s, err := o.watch.Open(o.device, 1, stderr)
	if err != nil {
		return err
	}
	defer func() { err = s.Close(err) }()
	if err := s.BeginPlan(o.plan); err != nil {
		return err
	}
	start := time.Now()
	c, err := load(o.folder, s.Device, dtypes[o.dtype])
	if err != nil {
		return err
	}
	defer c.model.Release()
	r := &report{LoadSeconds: time.Since(start).Seconds()}
	if err := r.work(s, c, o, stderr); err != nil {
		return err
	}
	r.print(stdout, s)
	if err := session.WriteJSON(o.json, r); err != nil {
		return err
	}
	if r.interrupted {
		return session.ErrInterrupted
	}
	return nil
}

// work trains, writes and counts.
func (r *report) work(s *session.Session, c *checkpoint, o options, bars io.Writer) error {
	var opt session.State = stateless{}
	switch {
	case o.text != "":
		t, err := newTuning(s, c, o)
		if err != nil {
			return err
		}
		defer t.opt.Release()
		if err := r.tune(t, bars); err != nil {
			return err
		}
		opt = t.opt
	case o.lora != "":
		if err := c.model.loadAdapters(o.lora, s.Device, dtypes[o.dtype]); err != nil {
			return err
		}
	}
	if err := s.EndPlan(); err != nil {
		return err
	}
	if err := r.write(s, c, o); err != nil {
		return err
	}
	for _, p := range c.model.Parameters() {
		if r.Parameters += p.Len(); p.RequiresGrad() && o.text != "" {
			r.Trained += p.Len()
		}
	}
	s.Trained(c.model.Parameters(), opt)
	if t, ok := opt.(interface{ Release() }); ok {
		t.Release()
	}
	c.model.Release()
	s.Released()
	r.Memory = s.Memory
	return nil
}

// lastSteps is how many steps the last loss is the mean of.
const lastSteps = 10

// tune trains adapters, and saves them also after Ctrl-C.
func (r *report) tune(t *tuning, bars io.Writer) error {
	losses, interrupted, err := t.train(bars)
	if err != nil {
		return err
	}
	if r.interrupted = interrupted; len(losses) > 0 {
		r.FirstLoss = losses[0]
		last := losses[max(0, len(losses)-lastSteps):]
		for _, l := range last {
			r.LastLoss += l / float64(len(last))
		}
	}
	return t.model.saveAdapters(t.lora, t.rank, t.alpha)
}

// write continues the prompt.
func (r *report) write(s *session.Session, c *checkpoint, o options) error {
	ids, err := c.words.Encode(o.prompt)
	if err != nil {
		return err
	}
	if len(ids) == 0 && c.EOS != nil {
		ids = []int64{*c.EOS} // what texts begin behind
	}
	if len(ids) == 0 {
		return fmt.Errorf("-prompt has no token, and the model none that texts begin behind")
	}
	exec, err := tensor.On(s.Device)
	if err != nil {
		return err
	}
	start := time.Now()
	all, err := generate(&whole{c.model, exec, c.Context}, ids, o.tokens, o.sampling, c.EOS, s.Interrupted)
	if err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	r.interrupted = r.interrupted || s.Interrupted()
	if r.Tokens = len(all) - len(ids); r.Tokens > 0 {
		r.TokensPerSecond = float64(r.Tokens) / time.Since(start).Seconds()
	}
	if s.Computes() {
		r.Text = o.prompt + c.words.Decode(all[len(ids):])
	}
	return nil
}

// print writes the text, the closing table and the memory summary.
func (r *report) print(w io.Writer, s *session.Session) {
	if r.Text != "" {
		fmt.Fprintf(w, "--- the model writes ---\n%s\n---\n", r.Text)
	}
	s.Print(w, func(row session.Row) {
		row("loaded", "in %.2f s", r.LoadSeconds)
		row("parameters", "%d, of which %d were trained", r.Parameters, r.Trained)
		if r.Trained > 0 && s.Computes() {
			row("training loss", "%.4f at first, %.4f at last", r.FirstLoss, r.LastLoss)
		}
		row("tokens", "%d, %.1f per second", r.Tokens, r.TokensPerSecond)
	})
}
