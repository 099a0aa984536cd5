package parallel_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/parallel"
)

// A checkpoint in the middle of a step is refused on all ranks, also where one rank alone is there, and the training goes on.
func TestCheckpoint_InTheMiddleOfAStepIsRefused(t *testing.T) {
	type attempt func() error
	for name, c := range map[string]struct {
		says string
		// in brings a rank to the state, if mine, calls try there, and leaves it.
		in func(r *rank, d *parallel.DataParallel, mine bool, try attempt) error
	}{
		"forward": {"waits for its backward pass", func(r *rank, d *parallel.DataParallel, mine bool, try attempt) error {
			g, x := r.graph(2, inputs)
			defer g.Release()
			loss := d.Forward(x).Square().Mean(nil, false)
			if !mine {
				g.Release() // an evaluation whose graph is dropped
				return try()
			}
			return errors.Join(loss.Graph().Err(), try())
		}},
		"NoSync": {"within NoSync", func(_ *rank, d *parallel.DataParallel, mine bool, try attempt) error {
			if !mine {
				return try()
			}
			return d.NoSync(try)
		}},
		"summed": {"gradients of passes in NoSync wait", func(r *rank, d *parallel.DataParallel, mine bool, try attempt) error {
			if err := d.NoSync(func() error { return r.backward(d, inputs) }); err != nil {
				return err
			}
			if !mine {
				d.ZeroGrad()
			}
			defer d.ZeroGrad()
			return try()
		}},
	} {
		for stage := range 4 {
			for _, alone := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, ZeRO %d, alone %v", name, stage, alone), func(t *testing.T) {
					all, folder := ranks(t, 2), t.TempDir()
					for i, err := range together(all, func(r *rank) error {
						return withModel(r, nn.Linear(inputs, 4), []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
							ck := parallel.NewCheckpoint(d)
							if err := ck.Write(r.t.Context(), folder, 1); err != nil {
								return err
							}
							if err := c.in(r, d, !alone || r.comm.Rank() == 1, func() error {
								var e *parallel.CheckpointError
								err := ck.Write(r.t.Context(), folder+"/new", 1)
								require.ErrorAs(r.t, err, &e)
								require.ErrorContains(r.t, err, c.says)
								if alone {
									require.Equal(r.t, 1, e.Rank)
								}
								_, err = ck.Read(r.t.Context(), folder)
								require.ErrorAs(r.t, err, &e)
								require.ErrorContains(r.t, err, c.says)
								_, err = os.Stat(folder + "/new")
								require.ErrorIs(r.t, err, os.ErrNotExist)
								return nil
							}); err != nil {
								return err
							}
							if err := r.backward(d, inputs); err != nil {
								return err
							}
							d.ZeroGrad()
							err := ck.Write(r.t.Context(), folder, 1)
							_, failed := ck.Read(r.t.Context(), folder)
							return errors.Join(err, failed)
						})
					}) {
						require.NoError(t, err, "rank %d", i)
					}
					requireNothingKept(t, all)
				})
			}
		}
	}
}
