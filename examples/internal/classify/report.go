package classify

import (
	"io"
	"time"

	"github.com/cistern-ml/cistern/examples/internal/session"
)

// Report collects the numbers of a run. On a simulated device accuracy and losses are 0, as nothing is computed there.
type Report struct {
	Accuracy       float64 `json:"test_accuracy"`
	FirstLoss      float64 `json:"first_loss"`
	LastLoss       float64 `json:"last_loss"`
	StepsPerSecond float64 `json:"steps_per_second"`
	session.Memory

	trainTime   time.Duration
	interrupted bool // the accuracy is that of the last whole epoch
}

// print writes the closing table and the memory summary.
func (t *trainer) print(w io.Writer) {
	r := &t.report
	t.Print(w, func(row session.Row) {
		row("images", "%d to train, %d to test", t.train.Len(), t.test.Len())
		if t.Computes() {
			if r.interrupted {
				row("interrupted", "the accuracy is that after the last whole epoch, 0 before the first")
			}
			row("test accuracy", "%.2f %%", 100*r.Accuracy)
			row("loss", "%.4f at first, %.4f at last", r.FirstLoss, r.LastLoss)
		} else {
			row("test accuracy", "none: a simulated device does not compute")
		}
		row("training steps", "%d, %.0f per second", t.Steps, r.StepsPerSecond)
	})
}
