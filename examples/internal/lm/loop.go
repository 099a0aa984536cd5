package lm

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/cistern-ml/cistern/autograd/timeline"
	"github.com/cistern-ml/cistern/examples/internal/session"
)

// Progress is what a loop of training steps came to.
type Progress struct {
	Losses         []float64 // of each step; 0 on a simulated device, where nothing is computed
	TrainLoss      float64   // mean of the last steps
	StepsPerSecond float64
	LateSteps      float64 // per second, of the second half, when everything is loaded
	Interrupted    bool    // by Ctrl-C, before the last step
}

// lastSteps is how many steps the training loss is the mean of.
const lastSteps = 20

// Train trains up to a step, or until the program is interrupted, and draws a bar with a title on w. step trains step at; nil is
// TrainStep. A plan ends with it, and so does the graph of the steps.
func (t *Trainer) Train(title string, last int, w io.Writer, step func(at int) (float64, error)) (p Progress, err error) {
	w, end := session.Progress(w)
	defer end()
	bar := progressbar.NewOptions(last, progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(30), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString("steps"), progressbar.OptionThrottle(100*time.Millisecond))
	var took []time.Duration
	for start := time.Now(); t.Next() < last; {
		if p.Interrupted = t.Interrupted(); p.Interrupted {
			break
		}
		at, loss := t.Next(), 0.0
		end := timeline.Region("training step")
		if step == nil {
			loss, err = t.TrainStep()
		} else {
			loss, err = step(at)
		}
		end()
		if err != nil {
			return p, fmt.Errorf("step %d: %w", at+1, err)
		}
		p.Losses, took = append(p.Losses, loss), append(took, time.Since(start))
		bar.Describe(t.Says(title, "loss %.4f", loss))
		_ = bar.Set(t.Next()) // a bar that cannot be drawn is no reason to stop
	}
	if !p.Interrupted {
		_ = bar.Finish()
	}
	rest := p.Losses[max(0, len(p.Losses)-lastSteps):]
	for _, l := range rest {
		p.TrainLoss += l / float64(len(rest))
	}
	p.StepsPerSecond, p.LateSteps = session.Rates(took)
	return p, errors.Join(t.EndPlan(), t.endGraph())
}
