package parallel_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device/comm"
)

func TestError_IsOneLine(t *testing.T) {
	lost := &comm.Error{Backend: "loopback", Operation: "AllReduce", Rank: 0, Peer: 1, Err: comm.ErrAborted}
	first, second := fmt.Errorf("host:74: AllReduce: %w", lost), fmt.Errorf("host:75: Follow: %w", lost)
	other := errors.New("host:76: Record: closed")
	for want, err := range map[string]error{
		"host:74: AllReduce: " + lost.Error():                                errors.Join(first, second, first),
		"host:74: AllReduce: " + lost.Error() + "; host:76: Record: closed":  errors.Join(errors.Join(first, second), other, other),
		"host:76: Record: closed":                                            errors.Join(other),
		"step 3: host:74: AllReduce: " + lost.Error() + "; " + other.Error(): fmt.Errorf("step 3: %w", errors.Join(first, other)),
	} {
		e := &parallel.Error{Op: "Backward", Rank: 0, Err: err}
		require.EqualError(t, e, "parallel: rank 0: Backward: "+want)
		require.Equal(t, errors.Is(err, comm.ErrAborted), errors.Is(e, comm.ErrAborted))
	}
}

// A graph's error of this package says the package once.
func TestRun_ItsErrorDoesNotDoubleThePackage(t *testing.T) {
	require.NoError(t, alone(t, even(), nil, func(r *rank, d *parallel.DataParallel) error {
		g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
		defer g.Release()
		d.Run(g, nil)
		require.Regexp(t, `^autograd: forward pass[^:]*(:\d+)?: parallel: rank 0: Run: the function is nil$`, g.Err().Error())
		return nil
	}))
}
